"""Whether a run is dead: every state, every sign of life; and leases that are renewed by clocks that differ."""

from __future__ import annotations

import asyncio
import dataclasses
import subprocess
import time
from pathlib import Path

import pytest
from prefect.client.schemas.objects import StateType

from tasks.gate.lease import lease as leases
from tasks.gate.lease import renewal as life
from tasks.gate.lease.lease import HeldLease, Lease
from tasks.gate.lease.owner import Owner, this_process
from tasks.gate.lease.renewal import FRESH_S, RunLiveness, liveness_of, patience_s
from tasks.gate_file.request import GateRequest
from tasks.orchestration.runs import GateRun
from tasks.reap import ReapAction, ReapCause, assess_state, crash_message
from tasks.store.folder import FolderStore

ELSEWHERE = Owner("far", "another boot pid:[1]", 7, 7, "run-1")
ENGINE = leases.LauncherAddress("local", {}, "/nowhere")


@pytest.mark.parametrize("why", ["silent", "crashed", "cancelled", "asked"])
@pytest.mark.parametrize("kind", [kind for kind in StateType if kind is not StateType.PAUSED])
def test_a_run_whose_process_lives_is_left_alone(why: ReapCause, kind: StateType) -> None:
    """Whatever the server takes it for."""
    assert ReapAction.LEAVE is assess_state(why, kind, kind.value, RunLiveness.LIVES).act


@pytest.mark.parametrize("launches", [True, False])
def test_a_crashed_run_says_what_became_of_the_training_that_was_requested(launches: bool) -> None:
    """Its owner asks that first; whoever only asked for checks is told nothing of a training."""
    run = GateRun("run-1", "gate local", "Running", GateRequest(gate_file="local", launch=launches))

    said = crash_message(run, "has sent no heartbeat, and its process is gone")

    assert said.startswith("This run has sent no heartbeat, ") and said.endswith(" Start a new run.")
    assert launches is ("Its training was not handed over" in said)


@pytest.mark.parametrize(
    ("kind", "life", "act"),
    [
        (StateType.RUNNING, RunLiveness.GONE, ReapAction.CRASH),
        (StateType.RUNNING, RunLiveness.FREE, ReapAction.CRASH),
        (StateType.PENDING, RunLiveness.FREE, ReapAction.CRASH),
        (StateType.CRASHED, RunLiveness.GONE, ReapAction.CRASH),
        (StateType.CRASHED, RunLiveness.FREE, ReapAction.CRASH),
        (StateType.CANCELLING, RunLiveness.GONE, ReapAction.CANCEL),
        (StateType.CANCELLED, RunLiveness.GONE, ReapAction.CLEAR),
        (StateType.CANCELLED, RunLiveness.FREE, ReapAction.LEAVE),
        (StateType.FAILED, RunLiveness.GONE, ReapAction.CLEAR),
        (StateType.FAILED, RunLiveness.FREE, ReapAction.LEAVE),
        (StateType.COMPLETED, RunLiveness.GONE, ReapAction.LEAVE),
        (StateType.SCHEDULED, RunLiveness.FREE, ReapAction.LEAVE),
        (StateType.PAUSED, RunLiveness.GONE, ReapAction.CRASH),
        (StateType.PAUSED, RunLiveness.PARKED, ReapAction.WAKE),
        (StateType.CANCELLED, RunLiveness.PARKED, ReapAction.WAKE),
        (StateType.CRASHED, RunLiveness.PARKED, ReapAction.WAKE),
    ],
)
def test_a_run_without_a_process_gets_the_end_that_its_state_calls_for(
    kind: StateType, life: RunLiveness, act: ReapAction
) -> None:
    """COMPLETED may have handed its training over, which runs on; who waits for a person has no process."""
    assert act is assess_state("silent", kind, kind.value, life).act


@pytest.mark.parametrize(
    ("why", "kind", "name", "act"),
    [
        ("late", StateType.SCHEDULED, "Late", ReapAction.LATE),
        ("late", StateType.SCHEDULED, "Scheduled", ReapAction.LEAVE),
        ("late", StateType.RUNNING, "Running", ReapAction.LEAVE),
        ("deadline", StateType.PAUSED, "Suspended", ReapAction.WAKE),
    ],
)
def test_a_late_run_is_told_while_it_is_late_and_a_deadline_wakes_whoever_waits(
    why: ReapCause, kind: StateType, name: str, act: ReapAction
) -> None:
    """Who began meanwhile is not told; whether a run still waits is found out by who wakes it."""
    assert act is assess_state(why, kind, name, RunLiveness.FREE).act


def test_a_process_of_this_machine_is_known_at_once(tmp_path: Path) -> None:
    """However old its lease looks; the pid of a dead one is nobody's, or somebody else's by now. Without a lease nothing is known."""
    with subprocess.Popen(["true"]) as process:
        process.wait()
    dead = dataclasses.replace(this_process("run-1"), pid=process.pid, start_ticks=1)
    gone, alive, free = (FolderStore(tmp_path / name) for name in ("gone", "alive", "free"))
    _lease(gone, dead, time.time())
    _lease(alive, this_process("run-1"), time.time() - 3600)
    leases.release(free, _lease(free, ELSEWHERE, time.time()))

    found = [asyncio.run(liveness_of(store, "run-1")) for store in (gone, alive, free)]
    assert [RunLiveness.GONE, RunLiveness.LIVES, RunLiveness.FREE] == found


@pytest.mark.parametrize("ahead_s", [-3600.0, 0.0, 3600.0])
def test_a_lease_that_is_renewed_elsewhere_lives_whatever_the_clocks_say(
    tmp_path: Path, ahead_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is looked at until a living owner would have renewed it, and it does."""
    monkeypatch.setattr(life, "LOOK_S", 0.01)
    store = FolderStore(tmp_path)
    held = _lease(store, ELSEWHERE, time.time() + ahead_s)

    async def renewed() -> RunLiveness:
        looking = asyncio.create_task(liveness_of(store, "run-1"))
        await asyncio.sleep(0.05)
        assert not looking.done()
        leases.renew(store, held, time.time() + ahead_s)
        return await looking

    assert RunLiveness.LIVES is asyncio.run(renewed())


def test_a_lease_that_nobody_renews_is_a_dead_mans(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After the time that a living owner would have needed."""
    monkeypatch.setattr(life, "LOOK_S", 0.01)
    monkeypatch.setattr(life, "patience_s", lambda renewed_at, now: 0.05)
    store = FolderStore(tmp_path)
    _lease(store, ELSEWHERE, time.time() - 70)

    assert RunLiveness.GONE is asyncio.run(liveness_of(store, "run-1"))


def test_patience_outlasts_a_renewal() -> None:
    """A lease that looks fresh is given the whole minute, one that looks old a renewal and a little."""
    now = 1000.0

    assert (FRESH_S, FRESH_S) == (patience_s(now - 59, now), patience_s(now + 500, now))
    assert leases.RENEW_S < patience_s(now - 61, now) < FRESH_S


def _lease(store: FolderStore, owner: Owner, renewed_at: float) -> HeldLease:
    """What flow run run-1 holds, renewed at that time of its owner's clock."""
    times = (renewed_at, renewed_at, renewed_at + leases.TTL_S)
    wanted = Lease(1, "c", "gate-1", 1, "d", "c.toml", False, ENGINE, owner, *times)
    held = leases.acquire(store, wanted, lambda lease: (), lambda lease: None)
    return leases.bind_run(store, held, "run-1")
