"""Runs blocking calls from an event loop in such a way that a cancelled flow leaves none of them half done."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import threading
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from tasks.launchers.base import JobState, JobStatus, Launcher
from tasks.launchers.interruption import interruptible

P = ParamSpec("P")
R = TypeVar("R")


async def run_to_end(function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Run the call in a thread. A caller that is cancelled meanwhile first waits for the call to end; where the call waits for an
    engine that does not answer, it is told to stop waiting.
    """
    with interruptible() as stop:
        running = asyncio.ensure_future(asyncio.to_thread(function, *args, **kwargs))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        stop.set()
        while not running.done():
            try:
                await asyncio.wait({running})
            except asyncio.CancelledError:
                continue
        if not running.cancelled():
            running.exception()  # taken, so that asyncio does not complain of it
        raise


async def run_within(seconds: float, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """The same for a call that may hang. Raises TimeoutError after `seconds`; the call is then left behind in a daemon thread."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[R] = loop.create_future()

    def settle(result: R | None, error: BaseException | None) -> None:
        if done.done():
            return
        if error is not None:
            done.set_exception(error)
        else:
            done.set_result(result)  # type: ignore[arg-type]

    def call() -> None:
        result, failed = None, None
        try:
            result = function(*args, **kwargs)
        except BaseException as error:  # noqa: BLE001 - whoever waits gets it
            failed = error
        with contextlib.suppress(RuntimeError):  # nobody waits any more, and the loop is closed
            loop.call_soon_threadsafe(settle, result, failed)

    threading.Thread(target=contextvars.copy_context().run, args=(call,), daemon=True).start()
    try:
        await asyncio.wait({done}, timeout=seconds)
    except asyncio.CancelledError:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait({done}, timeout=seconds)
        if done.done():
            done.exception()
        raise
    if not done.done():
        raise TimeoutError(f"no answer within {seconds:.0f} s")
    return done.result()


async def ask_state(launcher: Launcher, job: str, patience_s: float, last: JobStatus) -> JobStatus:
    """The job's state. If the engine does not answer in time it is UNKNOWN, for the start that was seen last."""
    try:
        return await run_within(patience_s, launcher.state, job)
    except TimeoutError as error:
        said = f"the engine does not answer: {error}"
        return JobStatus(JobState.UNKNOWN, said, last.attempt, last.exit_codes)
