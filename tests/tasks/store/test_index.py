"""The index: rows that nobody loses, on SQLite and on a real PostgreSQL, and failures that are said in time."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from checks.model import Answer, Level, Profile
from tasks.store import index as indexes
from tasks.store.index import Index, IndexFailed, IndexOfAnotherVersion
from tasks.store.records import Record, RecordDigests
from tests.tasks.store.postgres import PASSWORD, Postgres, postgres

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


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    """A PostgreSQL for this file's tests."""
    with postgres() as made:
        yield made


@pytest.fixture(params=["sqlite", "postgresql"])
def index(request: pytest.FixtureRequest, tmp_path: Path) -> Index:
    """An index without this store's rows."""
    if request.param == "sqlite":
        return Index("", tmp_path / "made" / "index.sqlite")
    made = Index(request.getfixturevalue("server").url, tmp_path / "unused")
    made.rebuild(STORE, ())
    return made


def test_a_probe_leaves_nothing(server: Postgres, tmp_path: Path) -> None:
    """No table on a server, no file for SQLite; and tables of another version are found."""
    from sqlalchemy import NullPool, create_engine, inspect, text

    url = server.url.rpartition("/")[0] + "/probed"
    admin = create_engine(server.url, isolation_level="AUTOCOMMIT", poolclass=NullPool)
    with admin.connect() as connection:
        connection.execute(text("CREATE DATABASE probed"))
    file = tmp_path / "index.sqlite"
    Index(url, tmp_path / "unused").probe()
    Index(f"sqlite:///{file}", tmp_path / "unused").probe()

    with create_engine(url, poolclass=NullPool).connect() as connection:
        assert [] == inspect(connection).get_table_names()
    assert [] == list(tmp_path.iterdir())
    Index("", file).write(STORE, (record(),))
    Index("", file).probe()
    with sqlite3.connect(file) as connection:
        connection.execute("UPDATE prelaunch_index SET schema_version = 99")
    with pytest.raises(IndexOfAnotherVersion, match="schema version 99"):
        Index("", file).probe()


def test_a_probe_finds_what_is_missing(tmp_path: Path) -> None:
    """A server that is not there, a database that has nobody, a folder that is not there."""
    for url in (
        "postgresql+psycopg://prefect@127.0.0.1:9/prelaunch",
        f"sqlite:///{tmp_path}/none/index.sqlite",
    ):
        with pytest.raises(IndexFailed, match="failed"):
            Index(url, tmp_path / "unused").probe()


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


def test_rows_are_chosen_by_cluster_and_time(index: Index) -> None:
    """`since` is included."""
    index.write(STORE, (record(1), record(2, "other"), record(3)))

    assert (record(3),) == index.rows(STORE, cluster="c", since=record(2).judged_at)
    assert (record(2, "other"),) == index.rows(STORE, cluster="other")


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


def test_tables_of_another_version_are_named_and_made_anew(index: Index) -> None:
    """Nothing is read from, or written to, what this version does not know."""
    index.write(STORE, (record(1),))
    index._in_time(
        lambda connection: connection.exec_driver_sql("UPDATE prelaunch_index SET schema_version = 9")
    )

    with pytest.raises(IndexOfAnotherVersion, match=r"schema version 9, this reads 2.*store index --rebuild"):
        index.write(STORE, (record(2),))
    index.rebuild(STORE, (record(3),))

    assert (record(3),) == index.rows(STORE)


WRITER = """
import sys
from pathlib import Path
from tasks.store.index import Index
from tests.tasks.store.test_index import STORE, record
url, file, first = sys.argv[1:]
index = Index(url, Path(file))
for number in range(int(first), int(first) + 5):
    index.write(STORE, (record(number),))
"""


def test_eight_processes_lose_nothing_on_sqlite(tmp_path: Path) -> None:
    """They make the tables and write at the same time."""
    file = tmp_path / "index.sqlite"
    argv = (sys.executable, "-c", WRITER, "", str(file))
    writers = [
        subprocess.Popen((*argv, str(5 * number)), cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)})
        for number in range(8)
    ]

    assert [0] * 8 == [writer.wait(100) for writer in writers]
    assert tuple(record(number) for number in range(40)) == Index("", file).rows(STORE)


def test_fifty_writers_at_once_lose_nothing_on_postgresql(server: Postgres, tmp_path: Path) -> None:
    """Each with a connection of its own, on a database without tables."""
    index = Index(server.url, tmp_path / "unused")
    index._in_time(indexes._drop, versioned=False)
    start, failures = threading.Barrier(50), list[Exception]()

    def write(number: int) -> None:
        start.wait(60)
        try:
            index.write(STORE, (record(number),))
        except IndexFailed as error:
            failures.append(error)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)

    assert [] == failures
    assert 50 == len(index.rows(STORE))


def test_a_locked_file_is_said_in_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody holds it for longer than a gate waits."""
    monkeypatch.setattr(indexes, "BUSY_S", 0.1)
    monkeypatch.setattr(indexes, "ATTEMPTS", 1)
    index = Index("", tmp_path / "index.sqlite")
    index.write(STORE, ())
    holder = sqlite3.connect(tmp_path / "index.sqlite", isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")

    with pytest.raises(IndexFailed, match=r"index\.sqlite failed: database is locked.*--rebuild"):
        index.write(STORE, (record(),))
    holder.close()


def test_a_file_that_is_no_database_is_said_and_can_be_made_anew(tmp_path: Path) -> None:
    """It is a cache: nothing in it is worth keeping."""
    file = tmp_path / "index.sqlite"
    file.write_bytes(b"something else\n" * 1000)

    with pytest.raises(IndexFailed, match="not a database"):
        Index("", file).write(STORE, (record(),))
    Index("", file).rebuild(STORE, (record(),))

    assert (record(),) == Index("", file).rows(STORE)


@pytest.mark.parametrize("harm", ["pages overwritten", "cut", "a column gone"])
def test_a_database_that_no_statement_mends_is_made_anew(harm: str, tmp_path: Path) -> None:
    """The remedy that every message names has to work."""
    file = tmp_path / "index.sqlite"
    Index("", file).write(STORE, (record(),))
    if harm == "a column gone":
        with contextlib.closing(sqlite3.connect(file)) as connection:
            connection.execute("ALTER TABLE prelaunch_verdicts DROP COLUMN finding")
    else:
        data = file.read_bytes()
        file.write_bytes(data[:3000] if harm == "cut" else data[:200] + b"\xff" * 5800 + data[6000:])
    with pytest.raises(IndexFailed):
        Index("", file).rows(STORE)
    Index("", file).rebuild(STORE, (record(),))

    assert (record(),) == Index("", file).rows(STORE)


def test_a_place_where_nothing_can_be_made_is_said(tmp_path: Path) -> None:
    """A file is in the way of the folder."""
    (tmp_path / "file").write_text("")

    with pytest.raises(IndexFailed, match=r"file/index\.sqlite failed"):
        Index("", tmp_path / "file" / "index.sqlite").write(STORE, (record(),))


def test_a_server_that_stops_answering_is_left_behind(
    server: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its kernel still takes what is sent to it: only our own clock ends that."""
    index = Index(server.url, tmp_path)
    index.write(STORE, ())
    monkeypatch.setattr(indexes, "BUSY_S", 5)
    os.kill(server.pid, signal.SIGSTOP)
    try:
        with pytest.raises(IndexFailed, match=r"did not answer in 0\.5 s") as caught:
            index._in_time(lambda connection: None, 0.5)
    finally:
        os.kill(server.pid, signal.SIGCONT)

    assert PASSWORD not in str(caught.value)


@pytest.mark.parametrize("change", [("@127.0.0.1", "wrong@127.0.0.1"), (f":{PASSWORD}", ":not-the-password")])
def test_a_refusal_bears_no_password(
    server: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: tuple[str, str]
) -> None:
    """The message names host and database, and what the server said."""
    monkeypatch.setattr(indexes, "ATTEMPTS", 1)
    index = Index(server.url.replace(*change), tmp_path)

    with pytest.raises(IndexFailed, match="authentication failed") as caught:
        index.rows(STORE)

    shown = f"{caught.value} {index!r} {index.name}"
    assert not [word for word in (PASSWORD, "not-the-password") if word in shown]


@pytest.mark.parametrize(
    "url",
    [
        "mysql://me:hunter22@h/d",
        "hunter22",
        "postgresql+psycopg2://me:hunter22@h/d",
        "postgresql://me:hunter22@h:port/d",
    ],
)
def test_a_url_of_another_kind_is_refused_without_repeating_it(url: str, tmp_path: Path) -> None:
    """What is supported is said."""
    with pytest.raises(IndexFailed, match=r"postgresql\+psycopg://") as caught:
        Index(url, tmp_path)

    assert "hunter22" not in str(caught.value)


def test_a_driver_that_is_missing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """PostgreSQL's is an extra."""
    monkeypatch.setitem(sys.modules, "psycopg", None)

    with pytest.raises(IndexFailed, match=r"pip install 'prelaunch\[postgresql\]'"):
        Index("postgresql://127.0.0.1:9/d", tmp_path).rows(STORE)
