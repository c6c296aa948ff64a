"""What a case says while an act that never reached the engine is not tried again yet."""

from __future__ import annotations

import pytest

from tasks.machines.base import Rung
from tasks.remediation.model import ActState, Why
from tasks.remediation.steps import RECHECK_AFTER_S, Kind, Step
from tests.tasks.remediation.test_steps import NOW, a_case, an_act, step


@pytest.mark.parametrize("later", [0.0, RECHECK_AFTER_S - 1])
def test_it_waits_because_the_engine_does_not_show_the_node(later: float) -> None:
    """The reason is what the page and the list of machines show: nothing is said of how many nodes are out."""
    silent = an_act(Rung.REBOOT, ActState.REFUSED, why=Why.NOT_SEEN)

    assert Step(Kind.WAIT, why=Why.NOT_SEEN) == step(a_case(), an_act(Rung.FENCE), silent, now=NOW + later)
