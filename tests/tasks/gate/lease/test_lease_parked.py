"""Leases of runs that wait for a person: kept for them whether or not a process lives, and never adopted."""

from __future__ import annotations

import pytest

from tasks.gate.lease import lease as leases
from tasks.gate.lease.lease import TTL_S, HeldLease, Lease, LeaseHeld, OpenQuestion
from tasks.gate.lease.owner import this_process
from tasks.store.folder import FolderStore
from tasks.store.layout import lease_of_run_key
from tests.tasks.gate.lease.test_lease import DEAD, NOW, lease

ASKING = OpenQuestion("k", "digest", NOW + 1000, NOW + 1600)


@pytest.fixture
def store(store: FolderStore) -> FolderStore:
    """A cluster that a dead process left parked for flow run "run-1"."""
    held = leases.acquire(store, lease("g-old", owner=DEAD), lambda _: (), lambda _: None)
    leases.changed(store, leases.bind_run(store, held, "run-1"), asking=ASKING)
    return store


def take(store: FolderStore, now: float, over: bool = False) -> tuple[HeldLease, list[str]]:
    """Another gate of the same file wants the cluster; also, whose jobs were ended."""
    ended: list[str] = []

    def cancel(held: Lease) -> None:
        ended.append(held.gate_id)

    wanted = lease("g-new", now=now)
    taken = leases.acquire(store, wanted, lambda _: (), cancel, lambda run: over and run == "run-1")
    return taken, ended


def test_parked_lease_is_kept_though_its_process_is_gone(store: FolderStore) -> None:
    """The other gate is told which run waits until when."""
    with pytest.raises(LeaseHeld, match="flow run run-1 waits for approval until 2027-01-15 08:16 UTC"):
        take(store, NOW + 1599)


@pytest.mark.parametrize(("now", "over"), [(NOW + 1601, False), (NOW + 5, True)])
def test_a_question_that_is_over_is_ended_and_not_adopted(store: FolderStore, now: float, over: bool) -> None:
    """Its time is up, or its run has ended: the jobs are ended, and the next gate begins anew."""
    held, ended = take(store, now, over)

    assert ("g-new", False, None) == (held.lease.gate_id, held.lease.adopted, held.lease.asking)
    assert ["g-old"] == ended
    assert None is leases.lease_of_run(store, "run-1")


def test_its_own_run_comes_back_for_it(store: FolderStore) -> None:
    """Another process of the same flow run goes on with the same gate and question."""
    found = leases.lease_of_run(store, "run-1")
    assert found is not None

    back = leases.resume(store, found, this_process("run-1"), NOW + 900)

    assert ("g-old", ASKING) == (back.lease.gate_id, back.lease.asking)
    assert (NOW + 900 + TTL_S, this_process("run-1")) == (back.lease.expires_at, back.lease.owner)
    assert None is leases.changed(store, back, asking=None).lease.asking


def test_a_lock_that_another_run_took_over_is_not_this_runs(store: FolderStore) -> None:
    """Its pointer may still name the cluster: whoever took the lock holds it."""
    pointer = store.get(lease_of_run_key("run-1"))
    take(store, NOW + 1601)
    assert pointer is not None
    store.put(lease_of_run_key("run-1"), pointer)

    assert leases.lease_of_run(store, "run-1") is None
