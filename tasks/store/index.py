"""The index: rows per verdict, node and finding in SQLite or PostgreSQL, through SQLAlchemy. It is a cache: everything in it can be
made again from the store, and no verdict depends on it.

IndexFailed         it could not be read or written; carries the remedy, and never a password
`- IndexOfAnotherVersion   its tables were made by another version
"""

from __future__ import annotations

import dataclasses
import json
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, TypeVar

from checks.documents.decode import decode
from checks.documents.report import plain
from tasks.store.records import Record

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine

    from tasks.store.node_rows import GateNodes, NodeHistory

T = TypeVar("T")
FILE = "index.sqlite"
# A gate waits no longer than this for its row; then it says so and goes on.
WRITE_S = 15.0
# Reading every node of a large fleet, and making all rows anew.
READ_S, REBUILD_S = 60.0, 600.0
BUSY_S = 10.0
ATTEMPTS = 4
REBUILD = "prelaunch store index --rebuild STORE"
BATCH = 500
# What SQLite says of a file that no statement mends: overwritten, cut, or with tables that somebody changed.
BROKEN = (
    "is not a database",
    "malformed",
    "disk I/O error",
    "no such column",
    "no column named",
    "no such table",
)
DIGESTS = ("report", "policy", "facts", "baseline")
NOT_A_COLUMN = ("schema_version", "digests", "condemned")


class IndexFailed(Exception):
    """The index could not be read or written. The message says what, where, and the remedy."""


class IndexOfAnotherVersion(IndexFailed):
    """The index's tables were made by another version."""


class Index:
    """The rows of one database; `store` distinguishes the rows of several stores. Every call opens a new connection."""

    def __init__(self, url: str, file: Path) -> None:
        """`url` as SQLAlchemy takes it, "" for the SQLite file. Raises IndexFailed for a URL that is none of ours."""
        self._url, self._file = url, file
        if url:
            self.name = _shown(url)
        else:
            self.name = str(file)

    def __repr__(self) -> str:
        """The index without its password."""
        return f"Index({self.name})"

    def write(self, store: str, records: Iterable[Record]) -> None:
        """Set these rows; writing one again changes nothing. Raises IndexFailed."""
        rows = [_row(store, record) for record in records]
        self._in_time(lambda connection: _upsert(connection, rows))

    def rows(self, store: str, cluster: str = "", since: str = "") -> tuple[Record, ...]:
        """The rows of a store, oldest first; of one cluster, judged at `since` or later. Raises IndexFailed."""
        return self._in_time(lambda connection: _selected(connection, store, cluster, since))

    def write_nodes(self, store: str, gates: Iterable[GateNodes], seconds: float = WRITE_S) -> None:
        """Set the rows of the nodes of these gates. Raises IndexFailed."""
        self._in_time(lambda connection: _nodes().write(connection, store, gates), seconds)

    def gates_with_nodes(self, store: str) -> frozenset[str]:
        """The ids of the gates whose nodes are in the index. Raises IndexFailed."""
        found: frozenset[str] = self._in_time(lambda connection: _nodes().gate_ids(connection, store))
        return found

    def nodes(self, store: str, cluster: str | None = None, node: str = "") -> NodeHistory:
        """What is known of every node, of one cluster (None for all), and of one name ("" for all). Raises IndexFailed."""
        found: NodeHistory = self._in_time(
            lambda connection: _nodes().history(connection, store, cluster, node), READ_S
        )
        return found

    def probe(self) -> None:
        """Find out whether rows could be written now; nothing of it stays. Raises IndexFailed."""
        new = self._new_file()
        try:
            self._in_time(lambda connection: _probed(connection, self.name), versioned=False)
        finally:
            if new is not None:
                new.unlink(missing_ok=True)

    def forget(self, store: str, gate_ids: Sequence[str]) -> None:
        """Remove rows. Raises IndexFailed."""
        self._in_time(lambda connection: _removed(connection, store, gate_ids), REBUILD_S)

    def rebuild(self, store: str, records: Sequence[Record], nodes: Iterable[GateNodes] = ()) -> None:
        """Make the store's rows these and no others; tables of another version, or a file that is broken, are replaced.

        `nodes` may be an iterator that reads the store: each gate is written when it was read. Raises IndexFailed.
        """
        rows = [_row(store, record) for record in records]

        def made(connection: Connection) -> None:
            _nodes().require_columns(connection)
            _removed(connection, store, None)
            _upsert(connection, rows)

        try:
            self._in_time(made, REBUILD_S)
        except IndexOfAnotherVersion:
            self._in_time(_drop, REBUILD_S, versioned=False)
            self._in_time(made, REBUILD_S)
        except IndexFailed as error:
            if self._url or not any(word in str(error) for word in BROKEN):
                raise
            self._file.unlink(missing_ok=True)
            self._in_time(made, REBUILD_S)
        for some in _batches(nodes):
            self.write_nodes(store, some, REBUILD_S)

    def _in_time(
        self, work: Callable[[Connection], T], seconds: float = WRITE_S, versioned: bool = True
    ) -> T:
        """Do the work in a transaction, in a thread that is left behind if a server never answers. Raises IndexFailed."""
        done: list[T] = []
        failed: list[Exception] = []

        def run() -> None:
            try:
                done.append(self._tried(work, time.monotonic() + seconds, versioned))
            except Exception as error:  # noqa: BLE001 - handed to the caller
                failed.append(error)

        thread = threading.Thread(target=run, name="index", daemon=True)
        thread.start()
        thread.join(seconds)
        if done:
            return done[0]
        if failed:
            raise failed[0]
        raise IndexFailed(
            f"the index {self.name} did not answer in {seconds:g} s. Fix it, then run: {REBUILD}."
        )

    def _tried(self, work: Callable[[Connection], T], end: float, versioned: bool) -> T:
        from sqlalchemy.exc import OperationalError, SQLAlchemyError

        attempt = 0
        while True:
            attempt += 1
            try:
                return self._once(work, versioned)
            except OperationalError as error:  # busy, or too many connections: both pass
                if attempt == ATTEMPTS or time.monotonic() + attempt > end:
                    raise self._explained(error) from None
                time.sleep(0.3 * attempt)
            except (SQLAlchemyError, OSError, ImportError, ValueError) as error:
                raise self._explained(error) from None

    def _once(self, work: Callable[[Connection], T], versioned: bool) -> T:
        engine = self._engine()
        try:
            if versioned and not _is_current(engine):
                with engine.begin() as connection:
                    _create(connection)
            with engine.begin() as connection:
                if versioned:
                    _require_version(connection, self.name)
                return work(connection)
        finally:
            engine.dispose()

    def _engine(self) -> Engine:
        from tasks.store.index_tables import engine_of

        if not self._url:
            self._file.parent.mkdir(parents=True, exist_ok=True)
        return engine_of(self._url, self._file, BUSY_S)

    def _new_file(self) -> Path | None:
        """The file of SQLite that the first connection would make; None where it is there, or for a server."""
        from sqlalchemy import make_url

        made = make_url(self._url) if self._url else None
        if made is not None and made.get_backend_name() != "sqlite":
            return None
        file = self._file if made is None else Path(made.database or self._file)
        return None if file.exists() else file

    def _explained(self, error: Exception) -> IndexFailed:
        if isinstance(error, ImportError):
            return IndexFailed(
                f"the index {self.name} needs a driver that is not installed ({error.name}). "
                "Remedy: pip install 'prelaunch[postgresql]'"
            )
        said = " ".join(str(getattr(error, "orig", None) or error).split())[:300]
        return IndexFailed(f"the index {self.name} failed: {said}. When that is fixed, run: {REBUILD}.")


def _shown(url: str) -> str:
    """The URL without user, password and options. Raises IndexFailed."""
    from sqlalchemy import make_url
    from sqlalchemy.exc import ArgumentError

    forms = "sqlite:////folder/index.sqlite or postgresql+psycopg://user@host/database"
    try:
        made = make_url(url)
    except (ArgumentError, ValueError):
        raise IndexFailed(f"the index's URL cannot be read: it is of the form {forms}") from None
    if made.drivername not in ("sqlite", "postgresql", "postgresql+psycopg"):
        raise IndexFailed(f"an index in {made.drivername[:40]!r} is not supported: it is of the form {forms}")
    port = f":{made.port}" if made.port else ""
    return f"{made.get_backend_name()}://{made.host or ''}{port}/{made.database or ''}"


def _is_current(engine: Engine) -> bool:
    """Whether there is nothing to create: the tables are of this version, or of one that this does not know."""
    from sqlalchemy import inspect

    from tasks.store import index_tables

    with engine.connect() as connection:
        if not {index_tables.META, index_tables.VERDICTS} <= set(inspect(connection).get_table_names()):
            return False
        return index_tables.version(connection) not in (None, *index_tables.UPGRADES)


def _create(connection: Connection) -> None:
    from tasks.store import index_tables

    _nodes()  # its tables belong to the same metadata
    index_tables.lock(connection)
    index_tables.METADATA.create_all(connection)
    index_tables.set_version(connection)


def _probed(connection: Connection, name: str) -> None:
    """Make the tables, where they are not there, in a transaction that is not committed."""
    _create(connection)
    _require_version(connection, name)
    connection.rollback()


def _drop(connection: Connection) -> None:
    from tasks.store import index_tables

    _nodes()
    index_tables.lock(connection)
    index_tables.METADATA.drop_all(connection)


def _require_version(connection: Connection, name: str) -> None:
    from tasks.store import index_tables

    found = index_tables.version(connection)
    if found != index_tables.SCHEMA:
        raise IndexOfAnotherVersion(
            f"the index {name} has schema version {found}, this reads {index_tables.SCHEMA}. Rebuild it: {REBUILD}."
        )


def _row(store: str, record: Record) -> dict[str, object]:
    names = [field.name for field in dataclasses.fields(record) if field.name not in NOT_A_COLUMN]
    row = {name: plain(getattr(record, name)) for name in names}
    digests = {f"{name}_digest": getattr(record.digests, name) for name in DIGESTS}
    return {**row, **digests, "store": store, "condemned": json.dumps(record.condemned)}


def _record(row: dict[str, object]) -> Record:
    digests = {name: row.pop(f"{name}_digest") for name in DIGESTS}
    row.pop("store")
    condemned = json.loads(str(row.pop("condemned")))
    return decode(Record, {**row, "schema_version": 1, "digests": digests, "condemned": condemned})


def _upsert(connection: Connection, rows: Sequence[dict[str, object]]) -> None:
    from tasks.store.index_tables import upsert

    for begin in range(0, len(rows), BATCH):
        upsert(connection, rows[begin : begin + BATCH])


def _selected(connection: Connection, store: str, cluster: str, since: str) -> tuple[Record, ...]:
    from tasks.store.index_tables import selected

    return tuple(_record(row) for row in selected(connection, store, cluster, since))


def _removed(connection: Connection, store: str, gate_ids: Sequence[str] | None) -> None:
    from tasks.store.index_tables import delete_rows

    delete_rows(connection, store, gate_ids)
    _nodes().delete_rows(connection, store, gate_ids)


def _nodes() -> ModuleType:
    from tasks.store import index_nodes

    return index_nodes


def _batches(nodes: Iterable[GateNodes]) -> Iterator[list[GateNodes]]:
    """Few enough gates for one transaction, and for the memory."""
    held = iter(nodes)
    while some := list(islice(held, 50)):
        yield some
