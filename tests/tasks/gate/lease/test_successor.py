"""Who has the gate of a run that died: the run that took it over, and only while that one lives or has ended the gate."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import time
from pathlib import Path

from tasks.gate.lease import lease as leases
from tasks.gate.lease.lease import Lease, taken_over
from tasks.gate.lease.owner import Owner, this_process
from tasks.store.folder import FolderStore
from tasks.store.layout import outcome_key, request_key

ENGINE = leases.LauncherAddress("local", {}, "/nowhere")


def held(store: FolderStore, owner: Owner, flow_run: str) -> None:
    """Gate g-1 of cluster c belongs to this run."""
    now = time.time()
    wanted = Lease(1, "c", "g-1", 1, "d", "c.toml", False, ENGINE, owner, now, now, now + leases.TTL_S)
    leases.bind_run(store, leases.acquire(store, wanted, lambda _: (), lambda _: None), flow_run)
    store.put(request_key("g-1"), json.dumps({"flow_run": flow_run}).encode())


def test_a_gate_that_nobody_took_over_has_no_successor(tmp_path: Path) -> None:
    """Its run ended it itself, or it has no record at all."""
    store = FolderStore(tmp_path)

    assert "" == taken_over(store, "c", "g-1", "run-1")
    held(store, this_process(), "run-1")
    store.put(outcome_key("g-1"), b'{"reason": "GO c"}')
    assert "" == taken_over(store, "c", "g-1", "run-1")


def test_a_living_successor_goes_on_and_a_dead_one_is_none(tmp_path: Path) -> None:
    """What the dead one left has to be told to somebody."""
    with subprocess.Popen(["true"]) as process:
        process.wait()
    alive, dead = FolderStore(tmp_path / "alive"), FolderStore(tmp_path / "dead")
    held(alive, this_process(), "run-2")
    held(dead, dataclasses.replace(this_process(), pid=process.pid, start_ticks=1), "run-2")

    assert "flow run run-2 has taken over its gate g-1 and goes on with it" == taken_over(
        alive, "c", "g-1", "run-1"
    )
    assert "" == taken_over(dead, "c", "g-1", "run-1")


def test_an_end_is_told_by_its_decision_and_the_run_that_has_the_answer(tmp_path: Path) -> None:
    """The answer itself would read as that of the run that died; a record that cannot be read is none."""
    store = FolderStore(tmp_path)
    held(store, this_process(), "run-2")
    told = {
        "decision": "not_launched",
        "ending": "no capacity",
        "reason": "GO c: \x1b[31mall is well (no training was requested)",
    }
    store.put(outcome_key("g-1"), json.dumps(told).encode())

    said = taken_over(store, "c", "g-1", "run-1")
    store.put(outcome_key("g-1"), json.dumps({**told, "decision": None}).encode())
    undecided = taken_over(store, "c", "g-1", "run-1")
    store.put(outcome_key("g-1"), b"{")

    begins = "flow run run-2 has taken over its gate g-1 and has ended it"
    assert f"{begins} (not launched): prelaunch run follow run-2 shows the result" == said
    assert undecided.startswith(f"{begins} (no capacity): ")
    assert "goes on" in taken_over(store, "c", "g-1", "run-1")
