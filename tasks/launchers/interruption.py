"""Lets a call that waits for an engine say so, and stop waiting once the gate that made it is to end.

A call in another thread cannot be interrupted. It asks here between its looks, and leaves whatever it began in a known state.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TypeVar

from tasks.launchers.base import EngineUnavailable

T = TypeVar("T")
_STOP: ContextVar[threading.Event | None] = ContextVar("prelaunch_stop", default=None)


@contextlib.contextmanager
def _within(variable: ContextVar[T], value: T) -> Iterator[None]:
    """The variable has this value in this block."""
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)


@contextlib.contextmanager
def interruptible() -> Iterator[threading.Event]:
    """What is started in this block, in whatever thread, is to stop waiting once the event is set."""
    stop = threading.Event()
    with _within(_STOP, stop):
        yield stop


def uninterruptible() -> AbstractContextManager[None]:
    """What is asked in this block is asked to its end: a job that is not ended runs on, and is paid for."""
    return _within(_STOP, None)


def is_interrupted() -> bool:
    """Whether this call is to stop waiting."""
    stop = _STOP.get()
    return stop is not None and stop.is_set()


def pause(seconds: float) -> bool:
    """Sleep; returns at once, and False, where this call is to stop waiting."""
    stop = _STOP.get()
    if stop is None:
        time.sleep(seconds)
        return True
    return not stop.wait(seconds)


@dataclass(frozen=True)
class Silence:
    """An engine that has not answered for `tried_s` seconds, and is given up after `most_s`. `problem` says who does not do what."""

    problem: str
    tried_s: float
    most_s: float


_TELL: ContextVar[Callable[[Silence], None] | None] = ContextVar("prelaunch_tell_silence", default=None)


def silences(tell: Callable[[Silence], None]) -> AbstractContextManager[None]:
    """What waits in this block for an engine hands each of its looks to `tell`."""
    return _within(_TELL, tell)


def tell_silence(reason: str, tried_s: float, most_s: float) -> None:
    """Say that an engine is asked again."""
    tell = _TELL.get()
    if tell is not None:
        tell(Silence(reason, tried_s, most_s))


def patiently(
    ask: Callable[[], T], engine: str, most_s: float, again_s: float, *hopeless: type[Exception]
) -> T:
    """What an engine answers; while it is silent it is asked again, which must change nothing twice. Raises EngineUnavailable.

    Of the errors in `hopeless` the first one is raised.
    """
    begun = time.monotonic()
    while True:
        try:
            return ask()
        except hopeless:
            raise
        except EngineUnavailable:
            tried_s = time.monotonic() - begun
            tell_silence(f"{engine} does not answer", tried_s, most_s)
            if tried_s > most_s or not pause(again_s):
                raise
