"""A node of which the engine knows nothing is waited for, and one under our mark is never left without a page."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tasks.machines.base import Holder, Rung, ServiceState
from tasks.remediation.model import Reason, RepairMode
from tasks.remediation.steps import Step, StepKind
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
