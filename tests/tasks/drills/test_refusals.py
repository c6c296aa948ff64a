"""Nodes on which no drill may run, and what is said of the node afterwards."""

from __future__ import annotations

from pathlib import Path

import pytest

from tasks.drills.drive import left_as, require_free
from tasks.drills.model import (
    DrillRefused,
)
from tasks.drills.node_commands import Ran
from tasks.machines.base import Holder, Machine, Mark, Service
from tests.fakes.machines import serving
from tests.tasks.drills.drill_runs import drill, log, node, stack_with

_ = log

REFUSED = {
    "a job": Machine("n2", Service.SERVING, jobs=("17",)),
    "out": Machine("n2", Service.OUT),
    "unknown": Machine("n2", Service.UNKNOWN),
    "testing": Machine("n2", Service.TESTING, Holder.PRELAUNCH, mark=Mark("g", "c")),
    "changing": Machine("n2", Service.CHANGING),
    "held": Machine("n2", Service.SERVING, Holder.OTHER, who="jdoe"),
}


@pytest.mark.parametrize("machine", REFUSED.values(), ids=REFUSED)
def test_a_node_that_is_not_free_is_refused(log: Path, machine: Machine) -> None:
    """Before anything runs on it."""
    stack, commands = stack_with(log), node()
    stack.machines.shown["n2"] = machine

    with pytest.raises(DrillRefused):
        drill(stack, log, commands=commands).run()
    assert [] == commands.ran


def test_a_silent_engine_and_an_unknown_node_are_refused(log: Path) -> None:
    """Nothing runs on a node whose state nobody tells."""
    stack = stack_with(log)
    stack.machines.silent = True
    with pytest.raises(DrillRefused, match="does not say whether n2 runs a job"):
        drill(stack, log).run()
    with pytest.raises(DrillRefused, match="knows no node"):
        require_free(serving("n1"), "n2")


def test_a_job_that_starts_while_the_drill_is_prepared_is_left_alone(log: Path) -> None:
    """The engine is asked again right before the fault."""
    stack = stack_with(log)

    def start(words: tuple[str, ...]) -> Ran | None:
        stack.machines.shown["n2"] = Machine("n2", Service.SERVING, jobs=("18",))
        return None

    with pytest.raises(DrillRefused, match="runs 18"):
        drill(stack, log, commands=node(start)).run()
    assert "NVRM" not in log.read_text()


def test_what_is_left_of_a_drill_is_said() -> None:
    """A node that is still out of service, or whose state is not known."""
    machines = serving("n2")
    assert "" == left_as(machines, "n2")
    machines.fence("n2", Mark("g", "c"))
    assert "played return n2" in left_as(machines, "n2")
    machines.silent = True
    assert "does not say" in left_as(machines, "n2")
