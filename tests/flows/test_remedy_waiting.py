"""What was begun goes on by schedule, and nothing else; and a breaker that opens, is closed by a person, and replays nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from tasks import remedy as remedies
from tasks.gate_file.request import RemedyRequest
from tests.flows.fake_engine import Engine
from tests.flows.test_remedy import gate_file, machines, records, refuse, remedy
from tests.flows.two_machines import TwoMachines

pytestmark = pytest.mark.usefixtures("without_prefect", "engine")
_ = machines


def test_the_schedule_goes_on_with_what_was_interrupted_and_begins_nothing(
    tmp_path: Path, engine: Engine, machines: TwoMachines
) -> None:
    """The last refused gate is left to its own event, or to a person. A process died once its case was open, and the case is taken up,
    but not in mode plan.
    """
    path = gate_file(tmp_path)
    refuse(path, engine)
    state = remedy(path, open_only=True)
    assert ("NothingToDo", True, []) == (state.name, state.is_completed(), machines.calls)
    assert ((), ()) == (records(path).journal().cases, records(path).acts())

    request = RemedyRequest(gate_file=str(path))
    remedies.open_cases(remedies.open_work(request, "", lambda case, place: pytest.fail("nothing is tested")))
    acting = path.read_text()
    path.write_text(acting.replace('mode = "act"', 'mode = "plan"'))
    planned = remedy(path, open_only=True)
    assert ("Planned", []) == (planned.name, machines.calls)

    path.write_text(acting)
    assert "Repaired" == remedy(path, open_only=True).name
    assert ["fence node-1", "open node-1 node-0", "free node-1"] == machines.calls
    assert "NothingToDo" == remedy(path, open_only=True).name
