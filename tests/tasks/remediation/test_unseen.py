"""A node of which the engine knows nothing is waited for, and one under our mark is never left without a page.

Acts that never reached the engine, and re-tests that were lost with their process, say nothing about the node.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from tasks.machines.base import Holder, Rung, ServiceState
from tasks.remediation.model import ActState, Proof, Reason, RepairMode
from tasks.remediation.steps import LOST_RECHECKS, RECHECK_AFTER_S, Step, StepKind
from tests.tasks.remediation.test_steps import ACT, FENCED, MARK, NOW, a_case, an_act, machines, paged, step


@pytest.mark.parametrize("service", ServiceState)
@pytest.mark.parametrize("holder", Holder)
@pytest.mark.parametrize("mode", [RepairMode.OFF, RepairMode.ACT])
def test_a_node_under_our_mark_is_never_left_without_a_page(
    service: ServiceState, holder: Holder, mode: RepairMode
) -> None:
    """Whoever has it as well, and whatever the gate file says now. A page that was sent is not sent again."""
    seen = machines(service=service, holder=holder, mark=MARK, boot_id="another")
    settings, page = replace(ACT, mode=mode), an_act(Rung.PAGE, why=Reason.STALE)
    for acts in ((), (an_act(Rung.FENCE),)):
        assert step(a_case(), *acts, settings=settings, seen=seen).action is not StepKind.CLOSE
        assert step(a_case(), *acts, page, settings=settings, seen=seen).action is StepKind.CLOSE


def test_a_node_whose_state_is_not_known_for_a_moment_is_waited_for() -> None:
    """As before the fence so after it; then the case goes on."""
    seen = machines(**FENCED | {"service": ServiceState.UNKNOWN})
    for acts in ((), (an_act(Rung.FENCE),)):
        assert Step(StepKind.WAIT, reason=Reason.NOT_SEEN) == step(a_case(), *acts, seen=seen)
    later, seen["n1"] = NOW + 9000, replace(seen["n1"], unknown_since=NOW + 8999)
    assert StepKind.WAIT is step(a_case(), an_act(Rung.FENCE), seen=seen, now=later).action
    assert Rung.PAGE is step(a_case(), an_act(Rung.FENCE), seen=seen, now=later + 3600).rung


def test_a_node_that_is_not_seen_for_an_hour_is_left_to_a_person() -> None:
    """A replacement takes half of that."""
    gone, fence = machines(service=ServiceState.GONE), an_act(Rung.FENCE)
    assert Step(StepKind.WAIT, reason=Reason.NOT_SEEN) == step(a_case(), fence, seen=gone, now=NOW + 3600)
    assert paged(Reason.NOT_SEEN) == step(a_case(), fence, seen=gone, now=NOW + 3601)


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
