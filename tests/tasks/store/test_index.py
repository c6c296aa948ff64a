"""The index: rows that nobody loses, a file that is damaged or of another version, and failures that are reported in time."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from checks.model import Answer, Level, Profile
from tasks.store import index as indexes
from tasks.store.index import SCHEMA, Index, IndexFailed
from tasks.store.records import Record, RecordDigests

ROOT = Path(__file__).parents[3]
STORE = "a" * 32


def record(number: int = 0, cluster: str = "c", **changes: object) -> Record:
    """A record, later with each number."""
    made = Record(
        schema_version=1,
        gate_id=f"g-20261121-0800{number:02}-000{number % 10}",
        gate="g",
        cluster=cluster,
        instance_type="cpu",
        nodes=2,
        profile=Profile.QUICK,
        measured_at="2026-11-21T08:00:00+00:00",
        judged_at=f"2026-11-21T08:00:{number:02}Z",
        answer=Answer.NO_GO,
        level=Level.FAIL,
        report="gates/g/health_check_metrics.json",
        digests=RecordDigests("r" * 64, "p" * 64, "f" * 64, None),
        engine="1",
        condemned=("node-1", "node-\u20ac"),
        finding='FAIL node-1: toy: it\'s "broken"; DROP TABLE x',
    )
    return dataclasses.replace(made, **changes)  # type: ignore[arg-type]


@pytest.fixture
def index(tmp_path: Path) -> Index:
    """An index without a file yet."""
    return Index(tmp_path / "made" / "index.sqlite")


def test_rows_come_back_as_they_were(index: Index) -> None:
    """Oldest first, every field of them, each once however often it was written."""
    records = (
        record(1),
        record(2, digests=RecordDigests("r", "p", "f", "b")),
        record(3, condemned=(), finding=""),
    )
    index.write(STORE, reversed(records))
    index.write(STORE, records[:2])

    assert records == index.rows(STORE)


def test_stores_that_share_an_index_do_not_see_each_other(index: Index) -> None:
    """Nor does one's rebuilding remove the other's."""
    index.write(STORE, (record(1),))
    index.write("b" * 32, (record(2),))
    index.rebuild(STORE, ())

    assert ((), (record(2),)) == (index.rows(STORE), index.rows("b" * 32))
    index.rebuild("b" * 32, ())


def test_rebuilding_makes_the_rows_these_and_no_others(index: Index) -> None:
    """What the store does not have any more is gone."""
    index.write(STORE, (record(1), record(2)))
    index.rebuild(STORE, (record(2), record(3)))
    index.forget(STORE, (record(3).gate_id,))

    assert (record(2),) == index.rows(STORE)


def test_a_locked_file_is_said_in_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody holds it for longer than a gate waits."""
    monkeypatch.setattr(indexes, "BUSY_S", 0.1)
    index = Index(tmp_path / "index.sqlite")
    index.write(STORE, ())
    holder = sqlite3.connect(tmp_path / "index.sqlite", isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")

    with pytest.raises(IndexFailed, match=r"index\.sqlite failed: database is locked.*--rebuild"):
        index.write(STORE, (record(),))
    holder.close()


def test_a_place_where_nothing_can_be_made_is_said(tmp_path: Path) -> None:
    """A file is in the way of the folder."""
    (tmp_path / "file").write_text("")

    with pytest.raises(IndexFailed, match=r"file/index\.sqlite failed"):
        Index(tmp_path / "file" / "index.sqlite").write(STORE, (record(),))


@pytest.mark.parametrize("harm", ["no database", "a document garbled"])
def test_a_damaged_file_is_said_and_left_as_it_is(harm: str, tmp_path: Path) -> None:
    """It is a cache: who removes the file loses nothing."""
    file = tmp_path / "index.sqlite"
    Index(file).write(STORE, (record(),))
    if harm == "a document garbled":
        with contextlib.closing(sqlite3.connect(file, isolation_level=None)) as connection:
            connection.execute("UPDATE verdicts SET document = '{'")
    else:
        file.write_bytes(b"something else\n" * 1000)
    before = file.read_bytes()

    with pytest.raises(
        IndexFailed, match=r"remove the file if it is damaged. Then run: prelaunch store index"
    ):
        Index(file).rows(STORE)
    assert before == file.read_bytes()


@pytest.mark.parametrize("statement", [f"PRAGMA user_version = {SCHEMA + 1}", "PRAGMA user_version = 0"])
def test_a_file_of_another_version_is_made_anew(statement: str, tmp_path: Path) -> None:
    """With tables of other names and columns, as the former version had."""
    file = tmp_path / "index.sqlite"
    with contextlib.closing(sqlite3.connect(file, isolation_level=None)) as connection:
        connection.execute("CREATE TABLE prelaunch_verdicts (store, gate_id)")
        connection.execute("CREATE TABLE verdicts (other)")
        connection.execute(statement)

    Index(file).write(STORE, (record(),))
    assert (record(),) == Index(file).rows(STORE)
    with contextlib.closing(sqlite3.connect(file)) as connection:
        names = {row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    assert {"verdicts", "gates", "nodes", "findings", "shared"} == names


def test_a_file_that_may_only_be_read_is_read(tmp_path: Path) -> None:
    """Writing to it is an error that names the file, and removes nothing."""
    file = tmp_path / "index.sqlite"
    Index(file).write(STORE, (record(1),))
    with subject_to_permissions(file):
        assert (record(1),) == Index(file).rows(STORE)
        with pytest.raises(IndexFailed, match=r"index\.sqlite failed: attempt to write a readonly database"):
            Index(file).write(STORE, (record(2),))
    assert (record(1),) == Index(file).rows(STORE)


@contextlib.contextmanager
def subject_to_permissions(file: Path) -> Iterator[None]:
    """The file may only be read; root is another user meanwhile, because no permission holds for it."""
    file.chmod(0o444)
    own = os.geteuid()
    folder = [*file.parents][:-2]
    modes = {path: path.stat().st_mode for path in folder}
    try:
        if own == 0:
            for path in folder:
                path.chmod(0o755)
            os.seteuid(65534)
        yield
    finally:
        os.seteuid(own)
        for path, mode in modes.items():
            path.chmod(mode)
