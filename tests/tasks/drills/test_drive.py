"""A drill from its beginning to its end: nodes on which none may run, and everything that ends one early."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from tasks.drills import drive
from tasks.drills.drive import DrillRun, Interruption, NodeCommands, condition_after, require_free
from tasks.drills.faults import DRILLS, Argv, DrillRefused, FaultOptions
from tasks.machines.base import Holder, Machine, Mark, ServiceState
from tests.fakes.machines import PlayedMachines, serving

REFUSED = {
    "a job": Machine("n2", ServiceState.SERVING, jobs=("17",)),
    "out": Machine("n2", ServiceState.OUT),
    "unknown": Machine("n2", ServiceState.UNKNOWN),
    "testing": Machine("n2", ServiceState.TESTING, Holder.PRELAUNCH, mark=Mark("g", "c")),
    "changing": Machine("n2", ServiceState.CHANGING),
    "held": Machine("n2", ServiceState.SERVING, Holder.OTHER, owner="jdoe"),
}
INJECT, UNDO = ">>", "dd of"


class Node(NodeCommands):
    """This machine, which remembers commands, and can answer some of them itself."""

    commands: list[Argv]
    answer: Callable[[Argv], tuple[bool, str] | None]

    def run(self, words: Argv) -> tuple[bool, str]:
        """The command, or what is played for it."""
        self.commands.append(words)
        return self.answer(words) or super().run(words)


def node(answer: Callable[[Argv], tuple[bool, str] | None] = lambda words: None) -> Node:
    """This machine."""
    played = Node()
    object.__setattr__(played, "commands", [])
    object.__setattr__(played, "answer", answer)
    return played


class PlayedTime(Interruption):
    """No time passes; a wait notes what the log has by then, and may be ended by a signal, or by an error of our own."""

    def __init__(self, log: Path, signal: int = 0, error: Exception | None = None) -> None:
        super().__init__()
        self.log, self.signal, self.error = log, signal, error
        self.seen = ""

    def wait(self, seconds: float) -> None:
        """The wait is over at once."""
        self.seen, self.number = self.log.read_text(), self.signal
        if self.error:
            raise self.error


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A log with a line of the kernel."""
    path = tmp_path / "messages"
    path.write_text("Nov 25 12:00:00 n2 kernel: Linux version 6.1\n")
    return path


def drill(
    log: Path, machines: PlayedMachines, commands: Node | None = None, stop: PlayedTime | None = None,
    notices: list[str] | None = None,
) -> DrillRun:  # fmt: skip
    """A drill of xid-74 whose line goes into a file."""
    notices = [] if notices is None else notices
    return DrillRun(
        DRILLS["xid-74"], FaultOptions("n2", str(log)), commands or node(), machines, 900.0, stop or PlayedTime(log), notices.append
    )  # fmt: skip


@pytest.mark.parametrize("number", [0, 2, 15])
def test_a_fault_is_there_until_the_time_is_over_or_a_signal_comes(log: Path, number: int) -> None:
    """The line is in the log meanwhile and not afterwards; the command that undoes it was printed before."""
    stop, notices = PlayedTime(log, number), list[str]()
    run = drill(log, serving("n2"), stop=stop, notices=notices)
    run.run()

    assert (True, True, True, False) == (
        run.is_made, run.is_undone, "Xid (PCI:0000:b9:00): 74" in stop.seen, "NVRM" in log.read_text(),
    )  # fmt: skip
    assert "undoes the fault: sh -c " in notices[0]


def test_a_signal_before_the_fault_makes_none(log: Path) -> None:
    """Nothing is written, and all is undone."""
    stop, commands = PlayedTime(log), node()
    stop.number = 15
    run = drill(log, serving("n2"), commands, stop)
    run.run()

    assert (False, True) == (run.is_made, run.is_undone)
    assert not [words for words in commands.commands if INJECT in words[2]]


def test_a_fault_that_was_not_made_is_undone_and_reported(log: Path) -> None:
    """It may have been made in part."""
    notices = list[str]()
    commands = node(lambda words: (False, "no space left") if INJECT in words[2] else None)
    run = drill(log, serving("n2"), commands, notices=notices)
    run.run()

    assert (False, True) == (run.is_made, run.is_undone)
    assert "The fault could not be made: no space left" in notices


def test_an_error_of_our_own_leaves_nothing(log: Path) -> None:
    """The fault is undone before the error leaves."""
    with pytest.raises(ZeroDivisionError):
        drill(log, serving("n2"), stop=PlayedTime(log, error=ZeroDivisionError())).run()
    assert "NVRM" not in log.read_text()


@pytest.mark.parametrize(("silent", "undone"), [(4, True), (1000, False)])
def test_a_node_that_is_away_is_tried_again(
    log: Path, silent: int, undone: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as one that restarts. One that does not come back is no success, and the command that undoes the fault is printed."""
    monkeypatch.setattr(drive, "CLEAN_PAUSE_S", 0.0)
    attempts, notices = list[int](), list[str]()

    def away(words: Argv) -> tuple[bool, str] | None:
        attempts.extend([1] if UNDO in words[2] else [])
        return (False, "away") if UNDO in words[2] and len(attempts) <= silent else None

    run = drill(log, serving("n2"), node(away), notices=notices)
    run.run()

    warned = any("IT IS NOT KNOWN THAT THE FAULT IS UNDONE. Run this: sh" in one for one in notices)
    assert (undone, not undone) == (run.is_undone, warned)
    assert undone is ("NVRM" not in log.read_text())


@pytest.mark.parametrize("machine", REFUSED.values(), ids=REFUSED)
def test_a_node_that_is_not_free_is_refused(log: Path, machine: Machine) -> None:
    """Before anything runs on it."""
    machines, commands = serving("n1", "n2"), node()
    machines.shown["n2"] = machine

    with pytest.raises(DrillRefused):
        drill(log, machines, commands).run()
    assert [] == commands.commands


def test_a_silent_engine_and_an_unknown_node_are_refused(log: Path) -> None:
    """Nothing runs on a node whose state nobody tells."""
    machines = serving("n2")
    machines.silent = True
    with pytest.raises(DrillRefused, match="does not say whether n2 runs a job"):
        drill(log, machines).run()
    with pytest.raises(DrillRefused, match="knows no node"):
        require_free(serving("n1"), "n2")


def test_a_node_that_does_not_answer_is_refused(log: Path) -> None:
    """Nothing was changed on it."""
    with pytest.raises(DrillRefused, match="n2 cannot be prepared for this drill: no route to host"):
        drill(log, serving("n2"), node(lambda words: (False, "no route to host"))).run()


def test_a_job_that_starts_while_the_drill_is_prepared_is_left_alone(log: Path) -> None:
    """The engine is asked again right before the fault."""
    machines = serving("n2")

    def start(words: Argv) -> None:
        machines.shown["n2"] = Machine("n2", ServiceState.SERVING, jobs=("18",))

    with pytest.raises(DrillRefused, match="runs 18"):
        drill(log, machines, node(start)).run()
    assert "NVRM" not in log.read_text()


def test_the_condition_of_the_node_after_a_drill_is_reported() -> None:
    """A node that is still out of service, or whose state is not known."""
    machines = serving("n2")
    assert "" == condition_after(machines, "n2")
    machines.fence("n2", Mark("g", "c"))
    assert "n2 is out of service now (out: prelaunch: g c)." == condition_after(machines, "n2")
    machines.silent = True
    assert "does not say" in condition_after(machines, "n2")


@pytest.mark.parametrize("place", range(30))
def test_a_signal_at_any_line_of_the_wait_ends_it(place: int) -> None:
    """Also while the wait holds a lock: the handler runs in the same thread, and would wait for that lock for ever."""
    lines = count()

    def trace(frame: FrameType, event: str, argument: object) -> Any:
        if event == "line" and next(lines) == place:
            signal.raise_signal(signal.SIGTERM)
        return trace

    with Interruption() as stop:
        sys.settrace(trace)
        stop.wait(0.02)
        sys.settrace(None)
        assert next(lines) <= place or stop.number == signal.SIGTERM
