"""What was begun goes on by schedule, and nothing else; and a breaker that opens, is closed by a person, and replays nothing."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from flows.cli.main import main
from tasks import remedy as remedies
from tasks.gate_file.request import RemedyRequest
from tests.flows.driving import Play, play
from tests.flows.test_remedy import ACTS, gate_file, machines, records, refuse, remedy
from tests.flows.two_machines import TwoMachines

pytestmark = pytest.mark.usefixtures("prefect_backend", "play")
_ = machines, play


def test_the_schedule_goes_on_with_what_was_interrupted_and_begins_nothing(
    tmp_path: Path, play: Play, machines: TwoMachines
) -> None:
    """The last refused gate is left to its own event, or to a person. A process died once its case was open, and the case is taken up,
    but not in mode plan.
    """
    path = gate_file(tmp_path)
    refuse(path, play)
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


@pytest.mark.long  # its rules are in tests/tasks/remediation
def test_a_breaker_opens_is_closed_by_a_person_and_nothing_is_replayed(
    tmp_path: Path, play: Play, machines: TwoMachines
) -> None:
    """One act an hour is allowed. What was judged while it was open is never acted on; what is judged afterwards is."""
    path = gate_file(tmp_path, ACTS + "breaker_acts = 1\n")
    first = refuse(path, play)
    assert "Repaired" == remedy(path, first).name
    done = list(machines.calls)

    second = refuse(path, play)
    opened = remedy(path, second)
    page = (tmp_path / "store" / "pages" / f"{second}.txt").read_text()
    assert ("NotRepaired", True) == (opened.name, "breaker_open" in opened.message)
    assert (True, True) == (records(path).journal().breaker.is_open, "node-1 needs a person" in page)

    third = refuse(path, play)
    assert "NothingToDo" == remedy(path, open_only=True).name
    assert 0 == main(["remedy", str(path), "--close-breaker"])
    states = [remedy(path, gate_id) for gate_id in (second, third, "")]
    assert ["Rejected", "NotRepaired", "Rejected"] == [state.name for state in states]
    assert "before_breaker" in states[1].message
    assert done == machines.calls

    time.sleep(
        1.0 - time.time() % 1.0
    )  # a report has whole seconds, and one of the breaker's own second counts as older
    fourth = refuse(path, play)
    assert "Repaired" == remedy(path, fourth).name
    assert done * 2 == machines.calls
