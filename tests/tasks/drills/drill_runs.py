"""Drills of xid-79 against played stacks, with a log of the test's own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tasks.drills.catalog import DRILLS
from tasks.drills.drive import DrillRun
from tasks.drills.model import (
    DrillLimits,
    DrillResult,
    FaultOptions,
    expected,
)
from tasks.drills.node_commands import NodeCommands, Ran
from tasks.drills.watch import Watch
from tasks.remediation.model import Mode
from tests.fakes.drill_stack import PlayedStack, PlayedTime


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A log with a line of the kernel."""
    path = tmp_path / "messages"
    path.write_text("Nov 25 12:00:00 n2 kernel: Linux version 6.1\n")
    return path


class Node(NodeCommands):
    """This machine, which counts commands and can be out of reach for some of them."""

    ran: list[tuple[str, ...]]
    broken: Callable[[tuple[str, ...]], Ran | None]

    def run(self, words: tuple[str, ...], timeout_s: float) -> Ran:
        """The command, or what is played for it."""
        self.ran.append(words)
        return self.broken(words) or super().run(words, timeout_s)


def node(broken: Callable[[tuple[str, ...]], Ran | None] = lambda words: None) -> Node:
    """This machine."""
    made = Node()
    object.__setattr__(made, "ran", [])
    object.__setattr__(made, "broken", broken)
    return made


def drill(
    stack: PlayedStack, log: Path, time: PlayedTime | None = None, name: str = "xid-79", commands: Node | None = None,
    watch_only: bool = False, mode: Mode = Mode.ACT,
) -> DrillRun:  # fmt: skip
    """A drill of xid-79 whose line goes into a file."""
    chosen, time = DRILLS[name], time or PlayedTime(stack)
    return DrillRun(
        chosen, FaultOptions("d1", "n2", kernel_log=str(log)), commands or node(), stack.machines,
        Watch(stack.store, stack.records, stack.machines, chosen, "n2"), expected(chosen, mode), DrillLimits(), time,
        time.clock, None if watch_only else lambda: stack, chosen.undo_after,
    )  # fmt: skip


def stack_with(log: Path, **more: object) -> PlayedStack:
    """A stack that looks for the Xid in the log."""
    return PlayedStack(log.parent, lambda: "Xid (PCI:0000:b9:00): 79" in log.read_text(), **more)  # type: ignore[arg-type]


def ran(run: DrillRun, log: Path) -> DrillResult:
    """The result, when the log has nothing of the fault any more and the line before it still."""
    result = run.run()
    text = log.read_text()
    assert "NVRM" not in text
    assert text.startswith("Nov 25 12:00:00 n2 kernel: Linux version 6.1\n")
    return result
