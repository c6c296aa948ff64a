"""Listing and rebuilding: the store says which verdicts there are, the index only helps."""

from __future__ import annotations

from pathlib import Path

import pytest

from tasks.store import history
from tasks.store.base import StoreError, StoreUnwritable
from tasks.store.folder import FolderStore
from tasks.store.history import listed, rebuild
from tasks.store.index import FILE, Index
from tasks.store.layout import record_key, report_key
from tasks.store.open import identity
from tests.sample_reports import healthy, wrong_sums
from tests.tasks.kept_gates import gate_id, keep


@pytest.fixture
def store(tmp_path: Path) -> FolderStore:
    """An empty one."""
    return FolderStore(tmp_path)


@pytest.fixture
def index(tmp_path: Path) -> Index:
    """Its own."""
    return Index(tmp_path / FILE)


def ids(store: FolderStore, index: Index) -> list[str]:
    """The gates that are listed."""
    return [record.gate_id for record in listed(store, index).records]


def test_a_deleted_index_loses_nothing(store: FolderStore, index: Index, tmp_path: Path) -> None:
    """The list is the same, and the rows are there again."""
    for number in range(3):
        keep(store, number, healthy())
    before = listed(store, index)
    (tmp_path / FILE).unlink()

    assert before == listed(store, index)
    assert list(before.records) == list(index.rows(identity(store)))


def test_a_verdict_that_the_index_lacks_is_listed(store: FolderStore, index: Index) -> None:
    """Its row could not be written then; it is written now."""
    keep(store, 0, healthy())
    rebuild(store, index)
    keep(store, 1, wrong_sums(healthy()))

    assert [gate_id(0), gate_id(1)] == ids(store, index)
    assert 2 == len(index.rows(identity(store)))


def test_a_row_whose_record_is_gone_is_not_listed(store: FolderStore, index: Index) -> None:
    """Somebody removed the gate by hand."""
    keep(store, 0, healthy())
    listed(store, index)
    store.delete(record_key(gate_id(0)))

    assert [] == ids(store, index)


def test_a_verdict_without_a_record_is_said(store: FolderStore, index: Index) -> None:
    """Its gate was killed in between: a list without it is not whole, and nobody makes a record up."""
    keep(store, 0, healthy(), record=False)
    (said,) = listed(store, index).problems

    assert f"{gate_id(0)}: it has a verdict, and no record" in said
    assert ((said,), 0) == ((done := rebuild(store, index)).problems, done.rows)


def test_who_may_only_read_may_list(
    store: FolderStore, index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its name cannot be written into a store that bears none yet; an auditor sees the verdicts all the same."""
    keep(store, 0, healthy())

    def refuse(key: str, data: bytes) -> bool:
        raise StoreUnwritable(f"{key} cannot be written")

    monkeypatch.setattr(store, "put_if_absent", refuse)
    found = listed(store, index)

    assert ([gate_id(0)], ()) == ([record.gate_id for record in found.records], found.problems)
    assert "cannot be written" in found.index_problem


def test_an_index_that_fails_is_said_and_nothing_is_missing(store: FolderStore, tmp_path: Path) -> None:
    """The records are read one by one. A folder has the name of its file."""
    keep(store, 0, healthy())
    (tmp_path / "broken").mkdir()
    found = listed(store, Index(tmp_path / "broken"))

    assert ([gate_id(0)], ()) == ([record.gate_id for record in found.records], found.problems)
    assert "unable to open database file" in found.index_problem


@pytest.mark.parametrize("data", [b"{", b"[]", b'{"schema_version":9}'])
def test_a_record_that_cannot_be_read_is_named(store: FolderStore, index: Index, data: bytes) -> None:
    """The list is not taken for whole."""
    keep(store, 0, healthy())
    store.put(record_key("other"), data)
    found = listed(store, index)

    assert (1, 1) == (len(found.records), len(found.problems))
    assert "records/other.json" in found.problems[0]


def test_a_record_under_another_gates_name_is_refused(store: FolderStore, index: Index) -> None:
    """A copied file is no verdict."""
    keep(store, 0, healthy())
    store.put(record_key("copy"), store.get(record_key(gate_id(0))) or b"")

    assert "it is the record of gate" in listed(store, index).problems[0]


def test_rebuilding_names_a_report_that_is_gone(store: FolderStore, index: Index) -> None:
    """Its verdict stays in the list."""
    keep(store, 0, healthy())
    store.delete(report_key(gate_id(0)))
    done = rebuild(store, index)

    assert 1 == done.rows
    assert "its report is gone" in done.problems[0]


def test_a_gate_that_judged_nothing_is_no_problem(store: FolderStore, index: Index) -> None:
    """Its engine had no capacity: logs and an outcome."""
    store.put(f"gates/{gate_id(0)}/outcome.json", b"{}")

    assert (0, ()) == ((done := rebuild(store, index)).rows, done.problems)


def test_a_stores_name_stays(store: FolderStore, tmp_path: Path) -> None:
    """Another look from elsewhere finds the same; what is no name is refused."""
    first = identity(store)
    assert first == identity(FolderStore(tmp_path)) != identity(FolderStore(tmp_path / "other"))

    store.put("store-id", b"something")
    with pytest.raises(StoreError, match="Remove it"):
        identity(store)


def test_gates_come_by_time(store: FolderStore) -> None:
    """Whatever their names are; those without a time first."""
    for name in ("z-20261121-080000-0000", "a-20261122-080000-0000", "b"):
        store.put(f"gates/{name}/x", b"")

    assert ["b", "z-20261121-080000-0000", "a-20261122-080000-0000"] == list(history.kept_gates(store))
