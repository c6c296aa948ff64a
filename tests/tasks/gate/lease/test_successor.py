"""Who has the gate of a run that died: the run that took it over, and only while that one lives or has ended the gate."""

from __future__ import annotations

import json
import time
from pathlib import Path

from tasks.gate.lease import lease as leases
from tasks.gate.lease.lease import taken_over
from tasks.gate.lease.owner import Owner, this_process
from tasks.store.folder import FolderStore
from tasks.store.layout import outcome_key, request_key
from tests.tasks.gate.lease.test_lease import DEAD, lease, take


def held(store: FolderStore, owner: Owner, flow_run: str) -> None:
    """Gate g-1 of cluster c belongs to this run."""
    leases.bind_run(store, take(store, lease(owner=owner, now=time.time())), flow_run)
    store.put(request_key("g-1"), json.dumps({"flow_run": flow_run}).encode())


def test_a_gate_that_nobody_took_over_has_no_successor(store: FolderStore) -> None:
    """Its run ended it itself, or it has no record at all."""
    assert "" == taken_over(store, "c", "g-1", "run-1")
    held(store, this_process(), "run-1")
    store.put(outcome_key("g-1"), b'{"reason": "GO c"}')
    assert "" == taken_over(store, "c", "g-1", "run-1")


def test_a_living_successor_goes_on_and_a_dead_one_is_none(tmp_path: Path) -> None:
    """What the dead one left has to be told to somebody."""
    alive, dead = FolderStore(tmp_path / "alive"), FolderStore(tmp_path / "dead")
    held(alive, this_process(), "run-2")
    held(dead, DEAD, "run-2")
    said, nothing = (taken_over(store, "c", "g-1", "run-1") for store in (alive, dead))

    assert ("flow run run-2 has taken over its gate g-1 and goes on with it", "") == (said, nothing)


def test_an_end_is_told_by_its_decision_and_the_run_that_has_the_answer(store: FolderStore) -> None:
    """The answer itself would read as that of the run that died; a record that cannot be read is none."""
    held(store, this_process(), "run-2")
    reason = "GO c: \x1b[31mall is well (no training was requested)"
    told = {"decision": "not_launched", "ending": "no capacity", "reason": reason}
    store.put(outcome_key("g-1"), json.dumps(told).encode())

    said = taken_over(store, "c", "g-1", "run-1")
    store.put(outcome_key("g-1"), json.dumps({**told, "decision": None}).encode())
    undecided = taken_over(store, "c", "g-1", "run-1")
    store.put(outcome_key("g-1"), b"{")

    begins = "flow run run-2 has taken over its gate g-1 and has ended it"
    assert f"{begins} (not launched): prelaunch run follow run-2 shows the result" == said
    assert undecided.startswith(f"{begins} (no capacity): ")
    assert "goes on" in taken_over(store, "c", "g-1", "run-1")
