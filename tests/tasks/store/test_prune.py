"""Pruning removes what is old, and nothing that is in use or of unknown age."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tasks.store.base import StoreError
from tasks.store.folder import FolderStore
from tasks.store.layout import record_key
from tasks.store.prune import planned, remove
from tests.sample_reports import healthy, wrong_sums
from tests.tasks.kept_gates import DAY_S, FIRST_S, gate_id, keep

NOW = FIRST_S + 10 * DAY_S


@pytest.fixture
def store(tmp_path: Path) -> FolderStore:
    """Gates of days 0 to 4; the second refused."""
    made = FolderStore(tmp_path)
    for number in range(5):
        keep(made, number, wrong_sums(healthy()) if number == 1 else healthy())
    return made


def olds(store: FolderStore, days: float = 5.5, keep_refused: bool = False) -> list[str]:
    """The gates that would go."""
    return [one.gate_id for one in planned(store, days, keep_refused, NOW, {}).old]


def test_prune_plan_lists_gates_older_than_the_limit(store: FolderStore) -> None:
    """And what is younger is not spoken of. Refusals may be kept: they are what one learns from."""
    assert [gate_id(number) for number in range(5)] == olds(store)
    assert [gate_id(number) for number in range(3)] == olds(store, 7.5)
    assert [] == olds(store, 11)
    assert gate_id(1) not in olds(store, keep_refused=True)
    assert (gate_id(1), "it refused") in planned(store, 5, True, NOW, {}).stays


def test_the_pass_in_use_stays(store: FolderStore) -> None:
    """Its report is what the next gate stands on."""
    store.put("passes/c.json", json.dumps({"gate_id": gate_id(2)}).encode())

    assert gate_id(2) not in olds(store)
    assert ((gate_id(2), "it is the PASS in use of c"),) == planned(store, 5, False, NOW, {}).stays


def test_prune_plan_keeps_gates_needed_by_the_caller(store: FolderStore) -> None:
    """With the caller's reason."""
    plan = planned(store, 5, False, NOW, {gate_id(3): "it is the last proof of node-1"})

    assert ((gate_id(3), "it is the last proof of node-1"),) == plan.stays
    assert gate_id(3) not in [one.gate_id for one in plan.old]


def test_the_gate_that_runs_stays(store: FolderStore) -> None:
    """It holds the lease, for however long its training takes."""
    store.put("leases/c.json", json.dumps({"gate_id": gate_id(0)}).encode())
    store.put("leases/by-run/1.json", json.dumps({"cluster": "c"}).encode())

    assert gate_id(0) not in olds(store)


@pytest.mark.parametrize("key", ["passes/c.json", "leases/c.json"])
@pytest.mark.parametrize("data", [b"{", b"{}", b"[]", b'{"gate_id":7}'])
def test_prune_plan_fails_if_a_pass_or_lease_is_unreadable(store: FolderStore, key: str, data: bytes) -> None:
    """A PASS or lease that cannot be read may name any of them."""
    store.put(key, data)

    with pytest.raises(StoreError, match="nothing is pruned"):
        planned(store, 5, False, NOW, {})


def test_prune_plan_keeps_gates_of_unknown_age(store: FolderStore) -> None:
    """A folder of another name, without a record."""
    store.put("gates/other/health_check_metrics.json", b"{}")

    assert (("other", "when it was judged is not known"),) == planned(store, 5, False, NOW, {}).stays


def test_a_record_that_cannot_be_read_keeps_its_gate(store: FolderStore) -> None:
    """It may be younger than its name."""
    store.put(record_key(gate_id(0)), b"{")

    assert gate_id(0) not in olds(store)


def test_removing_leaves_nothing_of_them_and_everything_of_the_others(store: FolderStore) -> None:
    """Files, pages and record; leases and passes are not touched."""
    for number in (0, 4):
        store.put(f"gates/{gate_id(number)}/logs/job/node-0.log", b"x")
        store.put(f"pages/{gate_id(number)}.txt", b"x")
    store.put("passes/c.json", json.dumps({"gate_id": gate_id(4)}).encode())

    remove(store, planned(store, 9, False, NOW, {}).old)

    left = store.list("")
    assert [] == [key for key in left if gate_id(0) in key]
    assert 6 == len([key for key in left if gate_id(4) in key])
    assert "passes/c.json" in left


def test_a_removal_that_was_cut_short_is_found_again(store: FolderStore) -> None:
    """The record goes last: it says what is left, and its age."""
    (old,) = planned(store, 9.5, False, NOW, {}).old
    for key in old.keys[:-1]:
        store.delete(key)

    assert record_key(gate_id(0)) == old.keys[-1]
    assert [gate_id(0)] == olds(store, 9.5)
    remove(store, planned(store, 9.5, False, NOW, {}).old)
    assert gate_id(0) not in "".join(store.list(""))
