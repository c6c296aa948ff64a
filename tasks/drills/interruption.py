"""Ctrl-C, SIGTERM and a closed terminal, as a flag: a drill is never broken off between a fault and what undoes it."""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Any

HEEDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interruption:
    """Within the block these signals only set `number`, to the first of them, and end `wait`. In another thread nothing changes."""

    def __init__(self) -> None:
        self.number = 0
        self._came = threading.Event()
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Interruption:
        if threading.current_thread() is threading.main_thread():
            for number in HEEDED:
                self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *raised: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)

    def wait(self, seconds: float) -> None:
        """Return after this time, or at once if a signal has come."""
        self._came.wait(seconds)

    def rest(self, seconds: float) -> None:
        """Return after this time, whatever came."""
        threading.Event().wait(seconds)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.number = self.number or number
        self._came.set()
