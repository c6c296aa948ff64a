"""The index: one SQLite file with a row per verdict, node and finding. It is a cache: everything in it can be made again from the
store, and no verdict depends on it. The tables of another version are replaced by empty ones.

IndexFailed         it could not be read or written; carries the remedy
"""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from checks.documents.decode import decode
from checks.documents.report import digest, dump_plain
from checks.judge.trend.numbers import NodeIdentity, NodeNumbers
from checks.model import Cause, Level
from checks.runner.deadline import limited
from checks.value_types import DecodeError
from tasks.store.node_rows import (
    FIRST,
    NEWEST,
    GateNodes,
    NodeFinding,
    NodeHistory,
    NodeKey,
    NodeRow,
    NodeTotal,
    Standing,
    with_nodes,
)
from tasks.store.records import KeptFinding, Record

T = TypeVar("T")
FILE = "index.sqlite"
# 3: documents beside the columns that queries choose by. The former ones, of SQLAlchemy, recorded no user_version.
SCHEMA = 3
# A gate waits no longer than this for its row; then it says so and goes on.
WRITE_S = 15.0
# Reading every node of a large fleet, and making all rows anew.
READ_S, REBUILD_S = 60.0, 600.0
BUSY_S = 10.0
REBUILD = "prelaunch store index --rebuild STORE"
BATCH = 50
WRITING, READING = "IMMEDIATE", "DEFERRED"
# What reading a document raises that somebody overwrote.
DAMAGE = (zlib.error, ValueError, KeyError, TypeError, DecodeError)
TABLES = (
    "CREATE TABLE verdicts (store, gate_id, judged_at, document, PRIMARY KEY (store, gate_id)) WITHOUT ROWID",
    "CREATE TABLE gates (store, gate_id, document, PRIMARY KEY (store, gate_id))",
    "CREATE TABLE nodes (store, cluster, node, identity, judged_at, gate_id, standing, checks, "
    "PRIMARY KEY (store, cluster, node, identity, standing, checks, judged_at, gate_id)) WITHOUT ROWID",
    "CREATE TABLE findings (store, cluster, node, identity, judged_at, gate_id, kind, document)",
    "CREATE INDEX kinds ON findings (store, cluster, node, identity, kind, judged_at)",
    "CREATE TABLE shared (digest PRIMARY KEY, document) WITHOUT ROWID",
    f"PRAGMA user_version = {SCHEMA}",
)


class IndexFailed(Exception):
    """The index could not be read or written. The message says what, where, and the remedy."""


class Index:
    """The rows of one file; `store` distinguishes the rows of several stores. Every call opens a new connection."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self.name = str(file)

    def __repr__(self) -> str:
        return f"Index({self.name})"

    def write(self, store: str, records: Iterable[Record]) -> None:
        """Set these rows; writing one again changes nothing. Raises IndexFailed."""
        rows = [(store, one.gate_id, one.judged_at, _json(one)) for one in records]
        statement = "INSERT OR REPLACE INTO verdicts VALUES (?, ?, ?, ?)"
        self._in_time(lambda connection: connection.executemany(statement, rows))

    def rows(self, store: str) -> tuple[Record, ...]:
        """The rows of a store, oldest first. Raises IndexFailed."""
        query = "SELECT document FROM verdicts WHERE store = ? ORDER BY judged_at, gate_id"

        def read(connection: sqlite3.Connection) -> tuple[Record, ...]:
            documents = ",".join(row[0] for row in connection.execute(query, (store,)))
            return decode(tuple[Record, ...], json.loads(f"[{documents}]"))

        return self._in_time(read, READ_S, READING)

    def write_nodes(self, store: str, gates: Sequence[GateNodes], seconds: float = WRITE_S) -> None:
        """Set the rows of the nodes of these gates. Raises IndexFailed."""
        self._in_time(lambda connection: _write_nodes(connection, store, gates), seconds)

    def gates_with_nodes(self, store: str) -> frozenset[str]:
        """The ids of the gates whose nodes are in the index. Raises IndexFailed."""
        return self._in_time(lambda connection: _gate_ids(connection, store), READ_S, READING)

    def nodes(self, store: str, cluster: str | None = None, node: str = "") -> NodeHistory:
        """What is known of every node, of one cluster (None for all), and of one name ("" for all). Raises IndexFailed."""
        return self._in_time(
            lambda connection: _Reader(connection, store).history(cluster, node), READ_S, READING
        )

    def forget(self, store: str, gate_ids: Sequence[str]) -> None:
        """Remove rows. Raises IndexFailed."""
        self._in_time(lambda connection: _delete(connection, store, gate_ids), REBUILD_S)

    def rebuild(self, store: str, records: Sequence[Record], nodes: Iterable[GateNodes] = ()) -> None:
        """Make the store's rows these and no others. `nodes` may be an iterator that reads the store: each gate is written when it was
        read. Raises IndexFailed.
        """
        self._in_time(lambda connection: _delete(connection, store, None), REBUILD_S)
        self.write(store, records)
        gates = iter(nodes)
        while some := list(islice(gates, BATCH)):
            self.write_nodes(store, some, REBUILD_S)

    def _in_time(
        self, work: Callable[[sqlite3.Connection], T], seconds: float = WRITE_S, mode: str = WRITING
    ) -> T:
        """Do the work in a transaction, in a thread that is left behind if a mount never answers. Raises IndexFailed."""
        try:
            return limited(seconds, lambda: self._once(work, mode))
        except TimeoutError:
            reason = f"it did not answer in {seconds:g} s"
        except (sqlite3.Error, OSError, *DAMAGE) as error:
            reason = " ".join(str(error).split())[:300]
        raise IndexFailed(
            f"the index {self.name} failed: {reason}. It is a cache: remove the file if it is damaged. Then run: {REBUILD}."
        )

    def _once(self, work: Callable[[sqlite3.Connection], T], mode: str) -> T:
        self._file.parent.mkdir(parents=True, exist_ok=True)
        with closing(sqlite3.connect(self._file, timeout=BUSY_S, isolation_level=None)) as connection:
            if _version(connection) != SCHEMA:
                _create(connection)
            connection.execute(f"BEGIN {mode}")
            result = work(connection)
            connection.execute("COMMIT")
            return result


def history_of(gates: Iterable[GateNodes], cluster: str | None = None, node: str = "") -> NodeHistory:
    """What these gates say of every node, without a file; `cluster` and `node` as in `Index.nodes`."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        _create(connection)
        _write_nodes(connection, "", tuple(gates))
        return _Reader(connection, "").history(cluster, node)


def _version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def _create(connection: sqlite3.Connection) -> None:
    """Replace the tables of another version, unless another process has done it meanwhile."""
    connection.execute("BEGIN IMMEDIATE")
    if _version(connection) != SCHEMA:
        names = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
        for (name,) in connection.execute(names).fetchall():
            connection.execute(f'DROP TABLE "{name}"')
        for statement in TABLES:
            connection.execute(statement)
    connection.execute("COMMIT")


def _delete(connection: sqlite3.Connection, store: str, gate_ids: Sequence[str] | None) -> None:
    """Remove the rows of these gates of a store; None for all of them."""
    for table in ("verdicts", "gates", "nodes", "findings"):
        chosen = "?2 IS NULL OR gate_id IN (SELECT value FROM json_each(?2))"
        ids = None if gate_ids is None else json.dumps(gate_ids)
        connection.execute(f"DELETE FROM {table} WHERE store = ?1 AND ({chosen})", (store, ids))  # noqa: S608 - of our own texts


def _gate_ids(connection: sqlite3.Connection, store: str) -> frozenset[str]:
    query = "SELECT gate_id FROM gates WHERE store = ?"
    return frozenset(row[0] for row in connection.execute(query, (store,)))


def _write_nodes(connection: sqlite3.Connection, store: str, gates: Sequence[GateNodes]) -> None:
    present = set(_gate_ids(connection, store))
    for gate in gates:
        if gate.gate_id in present:
            continue
        present.add(gate.gate_id)
        shared: dict[str, str] = {}
        values = {node.name: [node.values, node.sums, node.parts] for node in gate.numbers.nodes}
        checks = [_share(shared, one) for one in gate.checks]
        rows, findings, nodes = [], [], []
        for row in gate.nodes:
            identity = "" if row.identity is None else _share(shared, row.identity)
            key = (store, gate.cluster, row.node, identity, gate.judged_at, gate.gate_id)
            rows.append((*key, row.standing.value, checks[row.checks]))
            for one in row.findings:
                findings.append((*key, _json([one.check, one.subject, one.metric, one.cause]), _json(one)))
            own = values.get(row.node)
            nodes.append([row.node, row.standing, row.measured_at, row.checks, row.findings, identity, own])
        head = replace(gate, nodes=(), numbers=replace(gate.numbers, nodes=()))
        document = zlib.compress(_json([head, nodes]).encode(), 1)
        connection.executemany("INSERT OR REPLACE INTO shared VALUES (?, ?)", shared.items())
        connection.executemany("INSERT OR REPLACE INTO nodes VALUES (?, ?, ?, ?, ?, ?, ?, ?)", rows)
        connection.executemany("INSERT INTO findings VALUES (?, ?, ?, ?, ?, ?, ?, ?)", findings)
        connection.execute("INSERT INTO gates VALUES (?, ?, ?)", (store, gate.gate_id, document))


MINE = "store = :store AND (:cluster IS NULL OR cluster = :cluster) AND (:node = '' OR node = :node)"
TOTALS = f"""SELECT cluster, node, identity, standing, checks, count(*) FROM nodes
WHERE {MINE} GROUP BY cluster, node, identity, standing, checks"""  # noqa: S608 - of our own texts
FINDINGS = f"""SELECT cluster, node, identity, gate_id, judged_at, document FROM (SELECT cluster, node, identity, kind,
max(judged_at) AS judged_at FROM findings WHERE {MINE} GROUP BY cluster, node, identity, kind)
CROSS JOIN findings USING (cluster, node, identity, kind, judged_at) WHERE store = :store"""  # noqa: S608 - of our own texts
# The first and the newest rows of one total. Its rows lie in this order, so that no others are read.
GATES_OF = """SELECT judged_at, gate_id FROM nodes WHERE store = ? AND cluster = ? AND node = ? AND identity = ? AND standing = ?
AND checks = ? ORDER BY judged_at {0}, gate_id {0} LIMIT {1}"""
ENDS = (GATES_OF.format("ASC", FIRST), GATES_OF.format("DESC", NEWEST))


class _Reader:
    """One reading of the index; what is shared is decoded once."""

    def __init__(self, connection: sqlite3.Connection, store: str) -> None:
        self._connection, self._store = connection, store
        self._texts: dict[str, str] = dict(connection.execute("SELECT digest, document FROM shared"))
        self._identities: dict[str, NodeIdentity | None] = {"": None}

    def history(self, cluster: str | None, node: str) -> NodeHistory:
        """What is kept of every node, of one cluster (None for all), and of one name ("" for all)."""
        mine = {"store": self._store, "cluster": cluster, "node": node}
        totals, gates = [], dict[str, set[str]]()
        ends: dict[tuple[str, ...], set[tuple[str, str]]] = {}
        for *key, standing, checks, count in self._connection.execute(TOTALS, mine):
            total = (self._store, *key, standing, checks)
            rows = {row for query in ENDS for row in self._connection.execute(query, total)}
            ends.setdefault(tuple(key), set()).update(rows)
            names = tuple(json.loads(self._texts[checks]))
            totals.append(NodeTotal(self._key(*key), Standing(standing), names, count, max(rows)[0]))
        for (_, name, _), some in ends.items():
            ordered = sorted(some)
            for _, gate_id in (*ordered[:FIRST], *ordered[-NEWEST:]):
                gates.setdefault(gate_id, set()).add(name)
        findings = [
            NodeFinding(self._key(*key), gate_id, judged_at, _finding(json.loads(document)))
            for *key, gate_id, judged_at, document in self._connection.execute(FINDINGS, mine)
        ]
        found = [with_nodes(self._gate(gate_id), nodes) for gate_id, nodes in gates.items()]
        found.sort(key=lambda gate: (gate.judged_at, gate.gate_id))
        totals.sort(key=lambda t: (t.last, t.key.turn, t.standing, t.checks))
        findings.sort(
            key=lambda f: (
                f.judged_at,
                f.gate_id,
                f.key.turn,
                f.finding.check,
                f.finding.subject,
                f.finding.message,
            )
        )
        return NodeHistory(tuple(totals), tuple(findings), tuple(found))

    def _gate(self, gate_id: str) -> GateNodes:
        query = "SELECT document FROM gates WHERE store = ? AND gate_id = ?"
        ((data,),) = self._connection.execute(query, (self._store, gate_id))
        head, rows = json.loads(zlib.decompress(data))
        gate = decode(GateNodes, head)
        nodes, values = [], []
        for name, standing, at, checks, findings, identity_name, own in rows:
            identity = self._identity(identity_name)
            nodes.append(
                NodeRow(name, Standing(standing), at, checks, tuple(map(_finding, findings)), identity)
            )
            if own and identity is not None:
                values.append(NodeNumbers(name, identity, *map(tuple, own)))
        return replace(gate, nodes=tuple(nodes), numbers=replace(gate.numbers, nodes=tuple(values)))

    def _key(self, cluster: str, node: str, digest: str) -> NodeKey:
        return NodeKey(cluster, node, self._identity(digest))

    def _identity(self, digest: str) -> NodeIdentity | None:
        if digest not in self._identities:
            self._identities[digest] = decode(NodeIdentity, json.loads(self._texts[digest]))
        return self._identities[digest]


def _finding(table: dict[str, Any]) -> KeptFinding:
    return KeptFinding(**{**table, "level": Level(table["level"]), "cause": Cause(table["cause"])})


def _share(shared: dict[str, str], value: object) -> str:
    text = _json(value)
    name = digest(text.encode())[:16]
    shared[name] = text
    return name


def _json(value: object) -> str:
    return dump_plain(value).decode()
