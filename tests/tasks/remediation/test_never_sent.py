"""Acts that never reached the engine, and re-tests that were lost with their process: neither says anything about the node."""

from __future__ import annotations

import pytest

from tasks.machines.base import Rung
from tasks.remediation.model import ActState, Proof, Reason
from tasks.remediation.steps import LOST_RECHECKS, RECHECK_AFTER_S, Step, StepKind
from tests.tasks.remediation.test_steps import NOW, a_case, an_act, step


def test_step_waits_while_the_engine_does_not_show_the_node() -> None:
    """The reason is what the page and the list of machines show: nothing is said of how many nodes are out. Each try is a record."""
    acts = (an_act(Rung.FENCE), an_act(Rung.REBOOT, ActState.REFUSED, why=Reason.NOT_SEEN))
    waits = Step(StepKind.WAIT, reason=Reason.NOT_SEEN)

    assert waits == step(a_case(), *acts) == step(a_case(), *acts, now=NOW + RECHECK_AFTER_S - 1)
    assert Rung.REBOOT is step(a_case(), *acts, now=NOW + 60).rung


@pytest.mark.parametrize(
    ("ended", "lost", "expected"),
    [
        (2, 0, Rung.RECHECK),
        (2, LOST_RECHECKS - 1, Rung.RECHECK),
        (3, 1, Rung.PAGE),
        (0, LOST_RECHECKS, Rung.PAGE),
    ],
)
def test_a_re_test_that_was_lost_with_its_process_is_no_try(ended: int, lost: int, expected: Rung) -> None:
    """A `remedy` that was killed says nothing about the node. One that ends its own process each time is left to a person."""
    unknown = [an_act(Rung.RECHECK, number=at, proof=Proof.CANNOT_TELL) for at in range(ended)]
    killed = [an_act(Rung.RECHECK, ActState.FAILED, number=ended + at) for at in range(lost)]
    acts = (an_act(Rung.FENCE), an_act(Rung.REBOOT), *killed[:-1], *unknown, *killed[-1:])

    assert expected is step(a_case(), *acts, now=NOW + RECHECK_AFTER_S).rung
