"""Runs one child process. As process 1 the agent reaps every orphan, passes signals on, and ends whatever does not end by itself."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import FrameType

from checks.process.inheritance import outlive_signals_for_training
from checks.process.tree import end_children, end_tree, reap, with_pdeathsig

POLL_S = 0.1
KILLED_S = 15.0  # a process that stands in the kernel (state D) is not waited for any longer


HEEDED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class Signals:
    """The first signal that came, and when. As process 1 of a container nothing else would end the agent."""

    def __init__(self) -> None:
        self.number = 0
        self.at = 0.0
        self._child = 0

    def install(self) -> None:
        """Handle the signals from now on."""
        for number in HEEDED:
            signal.signal(number, self.note)
        outlive_signals_for_training()

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


def run(
    argv: Sequence[str],
    environment: Mapping[str, str],
    signals: Signals,
    grace_s: float,
    cwd: Path | None = None,
    overdue: Callable[[], bool] = lambda: False,
) -> int:
    """The exit code of `argv`, 128 + N after signal N; ended `grace_s` after a signal, or once it is `overdue`. Raises OSError.

    Nothing that it started runs on, nor the agent's host engine, the only other process that the agent starts: reaping
    all is safe.
    """
    child = subprocess.Popen(with_pdeathsig(argv), env=environment, stdin=subprocess.DEVNULL, cwd=cwd)
    signals.watch(child.pid)
    code, late_since = None, 0.0
    while code is None:
        time.sleep(POLL_S)
        code, now = reap().get(child.pid), time.monotonic()
        if code is None and (late_since or (signals.number and now > signals.at + grace_s) or overdue()):
            late_since = late_since or now
            end_tree(child.pid, 0.0)
            code = -signal.SIGKILL if now - late_since > KILLED_S else None
    signals.watch(0)
    child.returncode = code  # taken by reap
    end_children(0.0)
    return code if code >= 0 else 128 - code
