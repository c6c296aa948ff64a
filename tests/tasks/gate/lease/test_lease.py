"""Leases: one gate a cluster, adopted from the dead by one, found by the flow run.

The run that took over the gate of one that died has it while it lives, or has ended the gate.
"""

from __future__ import annotations

import dataclasses
import json
import multiprocessing
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from checks.process import tree
from tasks.gate.lease import lease as leases
from tasks.gate.lease.lease import (
    FRESH_S,
    TTL_S,
    HeldLease,
    LauncherAddress,
    Lease,
    LeaseHeld,
    LeaseLost,
    taken_over,
)
from tasks.gate.lease.owner import Owner, is_dead, machine_id, this_process
from tasks.gate.lease.renewal import LeaseRenewal
from tasks.store.folder import FolderStore
from tasks.store.layout import outcome_key, request_key

NOW = 1_800_000_000.0
ENGINE = LauncherAddress("local", {}, "/nonexistent")
DEAD = Owner("here", machine_id(), 2_000_000_000, 5)
ELSEWHERE = Owner("elsewhere", "another-boot pid:[1]", 7, 5)


def lease(gate_id: str = "g-1", digest: str = "d", owner: Owner | None = None, now: float = NOW) -> Lease:
    """A lease as a gate asks for it."""
    who = owner or this_process()
    return Lease(1, "c", gate_id, 1, digest, "g.toml", False, ENGINE, who, now, now, now + TTL_S)


@pytest.fixture
def stranger() -> Iterator[Owner]:
    """A process that lives and is not this one."""
    child = subprocess.Popen((sys.executable, "-c", "import sys; sys.stdin.read()"), stdin=subprocess.PIPE)
    yield Owner("here", machine_id(), child.pid, tree.start_ticks(child.pid) or 0)
    child.kill()
    child.communicate()


def take(
    store: FolderStore, wanted: Lease, running: tuple[str, ...] = (), ended: list[str] | None = None
) -> HeldLease:
    """Acquire where these jobs run; `ended` collects the gates whose jobs were ended."""

    def cancel(held: Lease) -> None:
        (ended if ended is not None else []).append(held.gate_id)

    return leases.acquire(store, wanted, lambda held: tuple(j for j in held.jobs if j in running), cancel)


def test_a_free_cluster_is_taken(store: FolderStore) -> None:
    """The lease names gate, jobs and owner."""
    held = take(store, lease())

    assert held.lease.jobs == ("g-1-check-1", "g-1-train-1")
    assert store.get("leases/c.json") == held.data


def test_a_living_owner_keeps_it(store: FolderStore, stranger: Owner) -> None:
    """Even past its time (it may stand still), and the same gate file is refused too; the holder is named."""
    take(store, lease("g-1", owner=stranger, now=NOW - 10 * TTL_S))

    with pytest.raises(LeaseHeld, match=rf"gate g-1 \(g\.toml, process {stranger.pid} on here"):
        take(store, lease("g-2"))


def test_elsewhere_only_the_end_of_its_time_frees_it(store: FolderStore) -> None:
    """On another machine nobody can look at /proc."""
    take(store, lease("g-1", owner=ELSEWHERE))
    with pytest.raises(LeaseHeld):
        take(store, lease("g-2", now=NOW + TTL_S - 1))

    assert take(store, lease("g-2", now=NOW + TTL_S + 1)).lease.gate_id == "g-1"


LEFT, NEXT = lease("g-1", owner=DEAD), lease("g-2", now=NOW + 1)
CHANGED, CHECKS = dataclasses.replace(LEFT, digest="other"), dataclasses.replace(LEFT, launches=False)


@pytest.mark.parametrize(
    ("left", "wanted", "running", "has"),
    [
        (LEFT, NEXT, "", "g-1"),
        # Old evidence says nothing about the machines of today; what still runs is adopted all the same, or there would be two.
        (LEFT, lease("g-2", now=NOW + FRESH_S + 1), "", "g-2"),
        (LEFT, lease("g-2", now=NOW + 100 * FRESH_S), "g-1-train-1", "g-1"),
        (CHANGED, NEXT, "g-1-check-1", "g-2"),
        # A gate that only checks must not swallow the order of a dead one to launch; nor may a launch take a mere check for its own.
        (LEFT, dataclasses.replace(NEXT, launches=False), "g-1-check-1", "g-2"),
        (CHECKS, NEXT, "g-1-check-1", "g-2"),
    ],
)
def test_the_same_gate_file_adopts_what_a_dead_owner_left(
    store: FolderStore, left: Lease, wanted: Lease, running: str, has: str
) -> None:
    """Gate id and job names stay, so that the jobs are found. What is not adopted is ended before the cluster is taken."""
    ended: list[str] = []
    take(store, left)

    held = take(store, wanted, running=(running,), ended=ended).lease

    assert (has, has == "g-1", wanted.launches) == (held.gate_id, held.adopted, held.launches)
    assert (this_process(), ["g-1"] * (has == "g-2")) == (held.owner, ended)


def test_a_lock_is_new_once_the_jobs_of_a_dead_gate_are_ended(
    store: FolderStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An engine took five minutes for that: meanwhile and afterwards the lock of a living gate must not look old to the next one."""
    clock, owned = [0.0], list[Lease | None]()
    take(store, CHANGED)
    monkeypatch.setattr(leases, "time", Mock(monotonic=lambda: clock[-1]))

    def cancel(held: Lease) -> None:
        owned.append(leases.lease_of_cluster(store, "c"))
        clock.append(300.0)

    held = leases.acquire(store, NEXT, lambda held: (), cancel)

    assert NEXT.expires_at + 300.0 == held.lease.expires_at
    assert [True] == [one is not None and one.expires_at > NEXT.expires_at + 300.0 for one in owned]


def test_a_gate_that_cannot_end_the_jobs_of_a_dead_one_keeps_no_other_waiting(store: FolderStore) -> None:
    """Its process may be gone at once, which nobody sees on another machine."""
    take(store, CHANGED)
    with pytest.raises(OSError):
        leases.acquire(store, NEXT, lambda held: (), Mock(side_effect=OSError))
    left = leases.lease_of_cluster(store, "c")

    assert left is not None and left.expires_at < NEXT.expires_at + 60.0


@pytest.mark.parametrize(
    ("left", "launches", "said"),
    [
        (CHANGED, True, r"g-1-train-1 still runs\. Run that gate file again"),
        (LEFT, False, r"still runs.*without --check-only"),
    ],
)
def test_another_gate_does_not_end_somebodys_training(
    store: FolderStore, left: Lease, launches: bool, said: str
) -> None:
    """It is refused, and told which job runs and how to adopt it: only a gate that launches may continue it."""
    take(store, left)

    with pytest.raises(LeaseHeld, match=said):
        take(store, dataclasses.replace(NEXT, launches=launches), running=("g-1-train-1",))


def test_lease_keeps_the_job_names_when_its_adopter_dies(store: FolderStore) -> None:
    """The lease still names the jobs of the dead until they are ended."""
    take(store, lease("g-1", digest="other", owner=DEAD))

    with pytest.raises(KeyboardInterrupt):
        leases.acquire(store, lease("g-2"), lambda held: (), Mock(side_effect=KeyboardInterrupt))

    assert b"g-1" in (store.get("leases/c.json") or b"")


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_lease_is_won_by_one_of_several_racers(store: FolderStore) -> None:
    """They adopt from the dead: never two. How stores keep writers apart: tests/tasks/store/test_store_contract.py."""
    take(store, lease("g-0", owner=DEAD))
    context = multiprocessing.get_context("fork")
    begin, end, answers = context.Barrier(4), context.Barrier(4), context.SimpleQueue()

    def running(held: Lease) -> tuple[str, ...]:
        begin.wait(60)  # all of them have read the lock of the dead one
        return ()

    def race(gate_id: str) -> None:
        try:
            taken = leases.acquire(store, lease(gate_id, now=NOW + 1), running, lambda held: None)
            answers.put(taken.lease.gate_id)
        except Exception as error:  # in a process of its own, where nobody else would hear of it
            answers.put("held" if isinstance(error, LeaseHeld) else repr(error))
        end.wait(60)  # who holds it lives until all have asked

    racers = [context.Process(target=race, args=(f"g-{number}",)) for number in range(1, 5)]
    for racer in racers:
        racer.start()
    for racer in racers:
        racer.join(60)

    assert ["g-0", "held", "held", "held"] == sorted(answers.get() for _ in racers)


def test_the_same_process_takes_its_own_lease_again(store: FolderStore) -> None:
    """The command takes it before the flow starts, and the flow gets the same, and keeps it."""
    first = take(store, lease("g-1"))

    again = leases.bind_run(store, take(store, lease("g-2")), "run-1")

    assert again.lease.gate_id == first.lease.gate_id
    for adopted in (False, True):
        held = dataclasses.replace(first, lease=dataclasses.replace(first.lease, adopted=adopted))
        assert ("", again.data) == (leases.leave(store, held), store.get("leases/c.json"))


def test_a_second_flow_of_the_same_process_is_refused(store: FolderStore) -> None:
    """Two runs in one process are two gates."""
    leases.bind_run(store, take(store, lease("g-1")), "run-1")

    with pytest.raises(LeaseHeld):
        take(store, lease("g-2"))


def test_lease_is_found_by_its_flow_run(store: FolderStore) -> None:
    """Hooks know the run's id alone; a run that has given it back finds nothing."""
    held = leases.bind_run(store, take(store, lease("g-1")), "run-1")

    found = leases.lease_of_run(store, "run-1")
    leases.release(store, held)

    assert found is not None and found.lease.gate_id == "g-1"
    assert (leases.lease_of_run(store, "run-1"), store.list("leases")) == (None, ())


def test_a_run_whose_lease_was_adopted_finds_nothing(store: FolderStore) -> None:
    """The jobs belong to the adopter now: a late hook must not end them."""
    leases.bind_run(store, take(store, lease("g-1", owner=DEAD)), "run-1")
    leases.bind_run(store, take(store, lease("g-2", now=NOW + 1)), "run-2")

    assert leases.lease_of_run(store, "run-1") is None


def test_release_leaves_somebody_elses_lease_alone(store: FolderStore) -> None:
    """Given back is only what is ours."""
    mine = take(store, lease("g-1", owner=DEAD))
    theirs = take(store, lease("g-2", now=NOW + 1))

    leases.release(store, mine)

    assert store.get("leases/c.json") == theirs.data


def test_a_lost_lease_is_noticed(store: FolderStore) -> None:
    """Renewing, or giving jobs new names, fails once somebody else has it, and says so."""
    mine = take(store, lease("g-1", owner=DEAD))
    take(store, lease("g-2", now=NOW + 1))

    with pytest.raises(LeaseLost):
        leases.renew(store, mine, NOW + 2)
    with pytest.raises(LeaseLost):
        leases.changed(store, mine, attempt=2)
    renewal = LeaseRenewal(store, mine)
    assert (renewal.ours(), renewal.loss) == (False, "another gate took over cluster c and its jobs.")


@pytest.mark.parametrize("place", ["leases/c.json", ""])
def test_a_lock_that_was_deleted_is_not_another_gate(store: FolderStore, place: str) -> None:
    """Alone, or with the store around it."""
    mine = take(store, lease("g-1"))
    if place:
        store.delete(place)
    else:
        shutil.rmtree(store.root)
    renewal = LeaseRenewal(store, mine)

    assert not renewal.ours()
    assert "is no longer in the store" in renewal.loss and "another gate" not in renewal.loss


def test_a_lease_that_cannot_be_read_holds_the_cluster(store: FolderStore) -> None:
    """Unreadable is not free; the message names the file."""
    store.put("leases/c.json", b"{")

    with pytest.raises(LeaseHeld, match=r"leases/c\.json cannot be read .*remove the file"):
        take(store, lease())


def test_a_pid_that_was_used_again_is_not_the_owner(store: FolderStore, stranger: Owner) -> None:
    """Start times tell processes of one number apart."""
    take(store, lease("g-1", owner=dataclasses.replace(stranger, start_ticks=stranger.start_ticks + 1)))

    assert take(store, lease("g-2", now=NOW + 1)).lease.adopted


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


def test_a_hidden_owner_is_alive_until_its_time(monkeypatch: pytest.MonkeyPatch, stranger: Owner) -> None:
    """With hidepid=2 /proc shows no process of another user. One that is not there at all is dead at once."""
    monkeypatch.setattr("os.access", lambda path, mode: False)
    monkeypatch.setattr(tree, "_read", lambda pid: None)

    assert [False, True] == [is_dead(stranger, NOW, NOW + late_s) for late_s in (-1.0, 1.0)]
    assert is_dead(DEAD, NOW, NOW - 1.0)


def test_a_lost_answer_loses_no_lock(store: FolderStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """The store has another lock than the gate knows of, and it is its own: it is changed, and released."""
    renewal = LeaseRenewal(store, take(store, lease()))

    def lose_answer(change: Any = store.replace_if) -> None:
        silent = Mock(side_effect=lambda *call: (change(*call), [][0]))
        with monkeypatch.context() as patch, pytest.raises(IndexError):
            patch.setattr(store, "replace_if", silent)
            renewal.ours()

    lose_answer()
    assert renewal.ours() and 1 == renewal.change(rechecks=1).rechecks
    lose_answer()
    renewal.release()
    assert store.get("leases/c.json") is None
