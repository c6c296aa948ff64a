"""Runs blocking calls from an event loop in such a way that a cancelled flow leaves none of them half done, and keeps Prefect from
blocking the loop itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import ParamSpec, TypeVar, cast

from checks.runner.deadline import limited
from tasks.launchers.base import JobState, JobStatus, Launcher
from tasks.launchers.interruption import interruptible
from tasks.text.inert import one_line

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
    """The call runs as in `run_to_end`, but may hang. Raises TimeoutError after `seconds`; the call is then left behind in a daemon
    thread.
    """
    return await run_to_end(limited, seconds, partial(function, *args, **kwargs))


async def ask_state(launcher: Launcher, job: str, patience_s: float, last: JobStatus) -> JobStatus:
    """The job's state. If the engine does not answer in time, or cannot be asked, it is UNKNOWN, for the
    start that was seen last.
    """
    try:
        status = await run_within(patience_s, launcher.state, job)
        if status.state is not JobState.UNKNOWN or status.absent or status.attempt:
            return status
        detail = status.detail
    except TimeoutError:
        detail = f"the engine did not answer within {patience_s:.0f} s"
    except Exception as error:  # noqa: BLE001 - such as a mount that fails for a moment
        detail = one_line(f"the engine could not be asked: {type(error).__name__}: {error}")
    return JobStatus(JobState.UNKNOWN, detail, last.attempt, last.exit_codes)


def opaque(value: R) -> R:
    """The value for a parameter of a task, in which Prefect does not look for futures; the task gets the value itself.

    Prefect walks through every field of every dataclass that it passes to a task, three times for each task: of a report of 512
    p5.48xlarge that takes 9.6 s of CPU each time, in which the gate's event loop does nothing else.
    """
    from prefect.utilities.annotations import quote

    return cast(R, quote(value))
