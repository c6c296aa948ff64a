"""Runs a coroutine on a thread of its own while the main thread handles signals.

Prefect handles SIGTERM itself if a flow runs on the main thread, and raises in the middle of the event
loop. Here the first SIGINT or SIGTERM cancels the coroutine, so that it ends what it started. Each is acknowledged by a
message; a later one does nothing else.

FlowInterrupted         a signal ended it; `number` is which, and `code` the exit code
"""

from __future__ import annotations

import asyncio
import signal
import sys
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from contextvars import copy_context
from types import FrameType
from typing import Any, Generic, TypeVar

from checks.exit_codes import Exit

T = TypeVar("T")
HEEDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# How the end of a time limit comes.
TIME_IS_UP = signal.SIGALRM


_came: list[int] = []
_before: dict[int, Any] = {}


def hold_signals(limit_s: float | None = None) -> None:
    """From now on a signal is recorded, and the Foreground that runs next handles it, so that nothing is interrupted halfway.

    After `limit_s`, the signal TIME_IS_UP comes as well.
    """
    for number in HEEDED if limit_s is None else (*HEEDED, TIME_IS_UP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # as under nohup
            _before[number] = signal.signal(number, lambda came, frame: _came.append(came))
    if limit_s is not None:
        signal.setitimer(signal.ITIMER_REAL, max(limit_s, 1e-3))


def release_signals() -> None:
    """Restore the signal handlers from before hold_signals; a signal that came meanwhile is raised again."""
    if TIME_IS_UP in _before:
        signal.setitimer(signal.ITIMER_REAL, 0)
    for number, handler in _before.items():
        signal.signal(number, handler)
    _before.clear()
    for number in [came for came in _came if came != TIME_IS_UP][:1]:
        signal.raise_signal(number)


def ignore_signals() -> None:
    """Ignore further signals, so that they do not interrupt the last messages of a process that is ending."""
    for number in {*HEEDED, *_before}:
        signal.signal(number, signal.SIG_IGN)


class FlowInterrupted(Exception):
    """A signal ended the coroutine; what it had started has been ended."""

    def __init__(self, number: int) -> None:
        super().__init__(f"ended by {signal.Signals(number).name}")
        self.number = number
        self.code = Exit.INTERRUPTED if number == signal.SIGINT else Exit.TERMINATED


class Foreground(Generic[T]):
    """Runs one coroutine to its end. To be used on the main thread, once. `ending` is what a signal makes it do."""

    def __init__(
        self, start: Callable[[], Coroutine[Any, Any, T]], ending: str = "ending what was started"
    ) -> None:
        self._start, self._ending = start, ending
        self._lock = threading.Lock()
        self._task: asyncio.Task[T] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._signal = 0
        self._result: T | None = None
        self._error: BaseException | None = None

    def run(self) -> T:
        """Run the coroutine and return its result; raises what it raises, or FlowInterrupted."""
        # Under nohup a closed terminal is to be ignored, and stays so.
        heeded = [number for number in {*HEEDED, *_before} if signal.getsignal(number) is not signal.SIG_IGN]
        before = {number: signal.signal(number, self._heed) for number in heeded}
        for number in _came[:1]:
            self._heed(number, None)
        thread = threading.Thread(target=copy_context().run, args=(self._run,), name="flow")
        thread.start()
        try:
            while thread.is_alive():
                thread.join(0.5)  # signals are heeded in between
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
        if self._signal and (self._error is not None or self._result is None):
            raise FlowInterrupted(self._signal) from self._error
        if self._error is not None:
            raise self._error
        return self._result  # type: ignore[return-value]

    def _run(self) -> None:
        try:
            self._result = asyncio.run(self._main())
        except BaseException as error:  # noqa: BLE001 - handed to the main thread, which raises it
            self._error = error

    async def _main(self) -> T:
        coroutine = self._start()  # what it imports takes a second: a signal may come meanwhile
        with self._lock:
            if self._signal:
                coroutine.close()
                raise asyncio.CancelledError
            self._loop = asyncio.get_running_loop()
            self._task = self._loop.create_task(coroutine)
        return await self._task

    def _heed(self, number: int, frame: FrameType | None) -> None:
        event = f"{signal.Signals(number).name} {'once more' if self._signal else 'received'}"
        if number == TIME_IS_UP:
            event = "the time limit is reached"
        with suppress(OSError, ValueError, RuntimeError):  # a closed terminal, or in the middle of a print
            print(f"prelaunch: {event}: {self._ending}", file=sys.stderr, flush=True)
        if self._signal:
            return
        self._signal = number
        # The lock is held by the other thread for microseconds only, never by this one.
        with self._lock:
            if self._loop is not None and self._task is not None and not self._loop.is_closed():
                self._loop.call_soon_threadsafe(self._task.cancel)
