"""Runs one child process. As process 1 the agent reaps every orphan, passes signals on, and ends whatever does not end by itself."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from checks.process.tree import end_children, end_tree, reap, with_pdeathsig
from container.agent.signals import Signals

POLL_S = 0.1
KILLED_S = 15.0  # a process that stands in the kernel (state D) is not waited for any longer


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
    code, over_since = None, 0.0
    while code is None:
        time.sleep(POLL_S)
        code = reap().get(child.pid)
        late = time.monotonic() - signals.at - grace_s if signals.number else 0.0
        if late <= 0 and overdue():
            over_since = over_since or time.monotonic()
            late = max(time.monotonic() - over_since, POLL_S)
        if code is None and late > 0:
            end_tree(child.pid, 0.0)
            code = -signal.SIGKILL if late > KILLED_S else None
    signals.watch(0)
    child.returncode = code  # taken by reap
    end_children(0.0)
    return code if code >= 0 else 128 - code
