"""Finds the processes that a test session left behind, and names the test that started each.

Every process inherits its parent's environment, however it detached itself; so the session puts a mark of its
own into the environment and looks for it in /proc at its end. pytest itself keeps PYTEST_CURRENT_TEST there.
"""

from __future__ import annotations

import os
import signal
import sys
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

MARK, PROC = "PYTEST_SESSION_MARK", Path("/proc")
END_BY_THEMSELVES_S, LOOK_S = 3.0, 0.05
# None of pytest's own: the second run of what failed is no answer to it (.ci/tests).
LEFT_BEHIND = 20


def pytest_configure(config: pytest.Config) -> None:
    """Mark the processes of this session, which xdist's workers hand on."""
    if not hasattr(config, "workerinput"):
        os.environ[MARK] = uuid.uuid4().hex


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> Iterator[None]:
    """Fail the session that leaves a process running, by the name of the test that started it.

    A session that broke off keeps the status that says so.
    """
    yield
    if hasattr(session.config, "workerinput"):
        return
    for left in settle(os.environ[MARK], END_BY_THEMSELVES_S):
        if session.exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
            session.exitstatus = LEFT_BEHIND
        print(f"\nLEFT BEHIND {left}", file=sys.stderr)


@dataclass(frozen=True)
class Leftover:
    """A process that outlived its test."""

    pid: int
    command: str
    test: str

    def __str__(self) -> str:
        return f"{self.test}: left process {self.pid} running: {self.command}"


def find(mark: str, name: str = MARK) -> tuple[Leftover, ...]:
    """The living processes that bear the mark in this variable, other than this one and its ancestors. Zombies are dead."""
    own = _ancestry(os.getpid())
    pids = (int(entry.name) for entry in PROC.iterdir() if entry.name.isdecimal())
    found = (_leftover(pid, f"{name}={mark}") for pid in pids if pid not in own)
    return tuple(item for item in found if item)


def settle(mark: str, deadline_s: float) -> tuple[Leftover, ...]:
    """Wait for the last ones to end by themselves; what is then still there is killed and returned."""
    until = time.monotonic() + deadline_s
    left = find(mark)
    if not left:  # for an instant after its start a process shows no environment
        time.sleep(LOOK_S)
        left = find(mark)
    while left and time.monotonic() < until:
        time.sleep(LOOK_S)
        left = find(mark)
    for item in left:
        try:
            os.kill(item.pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    return left


def _leftover(pid: int, mark: str) -> Leftover | None:
    try:
        environment = (PROC / str(pid) / "environ").read_bytes().decode(errors="replace").split("\0")
        state = (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()[0]
        command = (PROC / str(pid) / "cmdline").read_bytes().decode(errors="replace").replace("\0", " ")
    except (OSError, IndexError):
        return None  # it ended meanwhile, or is another user's
    if mark not in environment or state in "ZX":
        return None
    tests = [line.partition("=")[2] for line in environment if line.startswith("PYTEST_CURRENT_TEST=")]
    return Leftover(pid, command.strip()[:200], tests[0] if tests else "outside of any test")


def _ancestry(pid: int) -> set[int]:
    found: set[int] = set()
    while pid > 0 and pid not in found:
        found.add(pid)
        pid = int((PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()[1])
    return found
