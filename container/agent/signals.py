"""SIGTERM and SIGINT are recorded and passed to the child at once; the agent still delivers its report before it ends."""

from __future__ import annotations

import os
import signal
import time
from types import FrameType

HEEDED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class Signals:
    """The first signal that came, and when. As process 1 of a container nothing else would end the agent."""

    def __init__(self) -> None:
        self.number = 0
        self.at = 0.0
        self._child = 0

    def install(self) -> None:
        """Handle both signals from now on."""
        for number in HEEDED:
            signal.signal(number, self.note)

    def note(self, number: int, frame: FrameType | None = None) -> None:
        """Record the first signal, and pass every signal to the child."""
        if not self.number:
            self.number, self.at = number, time.monotonic()
        self._hand_on(number)

    def watch(self, pid: int) -> None:
        """Signals go to this child too, one that came before included; 0 for none."""
        self._child = pid
        if self.number:
            self._hand_on(self.number)

    @property
    def name(self) -> str:
        """The signal's name, such as SIGTERM, or "" if none came."""
        return signal.Signals(self.number).name if self.number else ""

    def pause(self, seconds: float) -> None:
        """Sleep, at most until a signal comes."""
        until = time.monotonic() + seconds
        while not self.number and (left := until - time.monotonic()) > 0:
            time.sleep(min(left, 0.1))

    def _hand_on(self, number: int) -> None:
        if self._child:
            try:
                os.kill(self._child, number)
            except ProcessLookupError:
                self._child = 0
