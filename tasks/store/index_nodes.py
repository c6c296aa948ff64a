"""The index's tables of nodes and their findings, and the statements on them, in SQLAlchemy Core. It is imported only if an index is
used.

What many rows share (an identity, a set of checks, a list of numbers) is in a table of its own, named by its digest.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import Column, Connection, Float, Index, Integer, Table, Text, and_, delete, func, select
from sqlalchemy.dialects.postgresql import insert as postgresql_insert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert

from checks.documents.decode import decode
from checks.documents.report import plain
from checks.judge.trend.numbers import GateNumbers, NodeIdentity, NodeNumbers, Number
from checks.model import SCHEMA_VERSION, Cause, Level, Profile
from tasks.store.index_tables import METADATA
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
    digest_of,
    findings_in_turn,
    in_turn,
)
from tasks.store.records import KeptFinding

BATCH = 500
_GATES = Table(
    "prelaunch_node_gates",
    METADATA,
    Column("store", Text, primary_key=True),
    Column("gate_id", Text, primary_key=True),
    Column("cluster", Text, nullable=False),
    Column("judged_at", Text, nullable=False),
    Column("profile", Text, nullable=False),
    Column("policy_digest", Text, nullable=False),
    Column("report_digest", Text, nullable=False),
    Column("measured_at", Text, nullable=False),
    Column("numbers", Text, nullable=False),  # digest of alone, numbers and counters
    Column("columns", Text, nullable=False),  # medians, together, and the findings about the cluster
)
_NODES = Table(
    "prelaunch_nodes",
    METADATA,
    Column("store", Text, primary_key=True),
    Column("gate_id", Text, primary_key=True),
    Column("node", Text, primary_key=True),
    Column("cluster", Text, nullable=False),
    Column("identity", Text, nullable=False),  # "" for a node without a report
    Column("standing", Text, nullable=False),
    Column("checks", Text, nullable=False),
    Column("judged_at", Text, nullable=False),
    Column("measured_at", Float(53), nullable=False),
    Column("numbers", Text, nullable=False),
    Index("prelaunch_nodes_by_node", "store", "cluster", "node", "identity", "judged_at", "gate_id"),
    Index(
        "prelaunch_nodes_by_standing", "store", "cluster", "node", "identity", "standing", "checks", "judged_at"
    ),
)  # fmt: skip
_TEXTS = (
    "cluster",
    "identity",
    "judged_at",
    "level",
    "cause",
    "check_name",
    "subject",
    "message",
    "metric",
)
_FINDINGS = Table(
    "prelaunch_findings",
    METADATA,
    Column("store", Text, primary_key=True),
    Column("gate_id", Text, primary_key=True),
    Column("node", Text, primary_key=True),
    Column("number", Integer, primary_key=True),
    *(Column(name, Text, nullable=False) for name in _TEXTS),
    Column("is_predicate", Integer, nullable=False),
    Index("prelaunch_findings_by_node", "store", "cluster", "node", "identity", "judged_at"),
)
_SHARED = Table(
    "prelaunch_shared",
    METADATA,
    Column("store", Text, primary_key=True),
    Column("digest", Text, primary_key=True),
    Column("document", Text, nullable=False),
)
_KEYED = (_GATES, _NODES, _FINDINGS)


def write(connection: Connection, store: str, gates: Iterable[GateNodes]) -> None:
    """Set the rows of these gates; writing them again changes nothing."""
    for gate in gates:
        shared: dict[str, str] = {}
        numbers = _share(shared, [gate.numbers.alone, gate.numbers.numbers, gate.numbers.counters])
        columns = [gate.numbers.medians, gate.numbers.together, gate.cluster_findings]
        delete_rows(connection, store, [gate.gate_id])
        of_nodes = {node.name: node for node in gate.numbers.nodes}
        checks = [_share(shared, mine) for mine in gate.checks]
        nodes, findings = [], []
        for row in gate.nodes:
            identity = "" if row.identity is None else _share(shared, row.identity)
            same = {"store": store, "gate_id": gate.gate_id, "node": row.node, "cluster": gate.cluster,
                    "identity": identity, "judged_at": gate.judged_at}  # fmt: skip
            nodes.append(
                {**same, "standing": row.standing.value, "checks": checks[row.checks], "measured_at": row.measured_at,
                 "numbers": _numbers(of_nodes.get(row.node))}
            )  # fmt: skip
            findings += [
                {**same, "number": number, "level": one.level.value, "cause": one.cause.value, "check_name": one.check,
                 "subject": one.subject, "message": one.message, "metric": one.metric, "is_predicate": int(one.is_predicate)}
                for number, one in enumerate(row.findings)
            ]  # fmt: skip
        words = [{"store": store, "digest": key, "document": text} for key, text in shared.items()]
        one = {"store": store, "gate_id": gate.gate_id, "cluster": gate.cluster, "judged_at": gate.judged_at,
               "profile": gate.profile.value, "policy_digest": gate.policy, "report_digest": gate.numbers.report,
               "measured_at": gate.numbers.measured_at, "numbers": numbers, "columns": _json(columns)}  # fmt: skip
        _insert(connection, _SHARED, words)
        _insert(connection, _NODES, nodes)
        _insert(connection, _FINDINGS, findings)
        _insert(connection, _GATES, [one])


def gate_ids(connection: Connection, store: str) -> frozenset[str]:
    """The gates whose nodes are in the index."""
    return frozenset(connection.execute(select(_GATES.c.gate_id).where(_GATES.c.store == store)).scalars())


def require_columns(connection: Connection) -> None:
    """Read every column of every table once, so that a table which somebody changed is an error now."""
    for table in METADATA.sorted_tables:
        connection.execute(select(table).limit(0))


def delete_rows(connection: Connection, store: str, gates: Sequence[str] | None) -> None:
    """Remove the rows of these gates of a store; None for all of them, with what they share."""
    for table in _KEYED:
        if gates is None:
            connection.execute(delete(table).where(table.c.store == store))
            continue
        for begin in range(0, len(gates), BATCH):
            chosen = table.c.gate_id.in_(gates[begin : begin + BATCH])
            connection.execute(delete(table).where(table.c.store == store, chosen))
    if gates is None:
        connection.execute(delete(_SHARED).where(_SHARED.c.store == store))


def history(connection: Connection, store: str, cluster: str | None, node: str) -> NodeHistory:
    """What is kept of every node, of one cluster (None for all), and of one name ("" for all)."""
    reader = _Reader(connection, store)
    totals = reader.totals(cluster, node)
    groups: dict[tuple[str, str, str], int] = {}
    for key, total in totals:
        groups[key] = groups.get(key, 0) + total.count
    return NodeHistory(
        in_turn(total for _, total in totals),
        findings_in_turn(reader.findings(cluster, node)),
        reader.gates(groups),
    )


class _Reader:
    """One reading of the index; what is shared is decoded once."""

    def __init__(self, connection: Connection, store: str) -> None:
        self._connection, self._store = connection, store
        query = select(_SHARED.c.digest, _SHARED.c.document).where(_SHARED.c.store == store)
        self._texts = {row[0]: str(row[1]) for row in connection.execute(query)}
        self._identities: dict[str, NodeIdentity | None] = {"": None}
        self._checks: dict[str, tuple[str, ...]] = {}
        self._numbers: dict[str, tuple[str, tuple[Number, ...], tuple[str, ...]]] = {}

    def identity(self, name: str) -> NodeIdentity | None:
        if name not in self._identities:
            self._identities[name] = decode(NodeIdentity, json.loads(self._texts[name]))
        return self._identities[name]

    def checks(self, name: str) -> tuple[str, ...]:
        if name not in self._checks:
            self._checks[name] = tuple(map(str, json.loads(self._texts[name])))
        return self._checks[name]

    def totals(self, cluster: str | None, node: str) -> list[tuple[tuple[str, str, str], NodeTotal]]:
        c = _NODES.c
        names = (c.cluster, c.node, c.identity, c.standing, c.checks)
        query = select(*names, func.count(), func.min(c.judged_at), func.max(c.judged_at)).group_by(*names)
        found = []
        for row in self._connection.execute(_chosen(query, _NODES, self._store, cluster, node)):
            key = NodeKey(row[0], row[1], self.identity(row[2]))
            total = NodeTotal(key, Standing(row[3]), self.checks(row[4]), int(row[5]), row[6], row[7])
            found.append(((row[0], row[1], row[2]), total))
        return found

    def findings(self, cluster: str | None, node: str) -> list[NodeFinding]:
        c = _FINDINGS.c
        names = (c.cluster, c.node, c.identity, c.check_name, c.subject, c.metric, c.cause)
        newest = _chosen(
            select(*names, func.max(c.judged_at).label("newest")).group_by(*names), _FINDINGS, self._store, cluster, node
        ).subquery()  # fmt: skip
        same = and_(
            *(column == newest.c[column.name] for column in names), c.judged_at == newest.c.newest, c.store == self._store
        )  # fmt: skip
        return [
            NodeFinding(
                NodeKey(row.cluster, row.node, self.identity(row.identity)), row.gate_id, row.judged_at, _finding(row)
            )
            for row in self._connection.execute(select(_FINDINGS).join(newest, same))
        ]  # fmt: skip

    def gates(self, groups: dict[tuple[str, str, str], int]) -> tuple[GateNodes, ...]:
        rows: dict[str, list[Any]] = {}
        for key, count in groups.items():
            for row in self._rows_of(key, count):
                rows.setdefault(row.gate_id, []).append(row)
        findings: dict[tuple[str, str], list[KeptFinding]] = {}
        for row in self._of_gates(_FINDINGS, list(rows)):
            findings.setdefault((row.gate_id, row.node), []).append(_finding(row))
        found = [self._gate(row, rows[row.gate_id], findings) for row in self._of_gates(_GATES, list(rows))]
        return tuple(sorted(found, key=lambda gate: (gate.judged_at, gate.gate_id)))

    def _rows_of(self, key: tuple[str, str, str], count: int) -> list[Any]:
        c = _NODES.c
        query = select(_NODES).where(
            c.store == self._store, c.cluster == key[0], c.node == key[1], c.identity == key[2]
        )
        newest = query.order_by(c.judged_at.desc(), c.gate_id.desc())
        if count <= NEWEST + FIRST:
            return list(self._connection.execute(newest))
        first = query.order_by(c.judged_at, c.gate_id)
        return [
            *self._connection.execute(first.limit(FIRST)),
            *self._connection.execute(newest.limit(NEWEST)),
        ]

    def _of_gates(self, table: Table, gates: Sequence[str]) -> Iterable[Any]:
        for begin in range(0, len(gates), BATCH):
            chosen = table.c.gate_id.in_(gates[begin : begin + BATCH])
            query = select(table).where(table.c.store == self._store, chosen)
            yield from self._connection.execute(query.order_by(*table.primary_key.columns))

    def _gate(
        self, gate: Any, rows: Sequence[Any], findings: Mapping[tuple[str, str], Sequence[KeptFinding]]
    ) -> GateNodes:
        sets: dict[str, int] = {}
        nodes, values = [], []
        for row in sorted(rows, key=lambda row: str(row.node)):
            identity = self.identity(row.identity)
            place = sets.setdefault(row.checks, len(sets))
            own = tuple(findings.get((gate.gate_id, row.node), ()))
            nodes.append(NodeRow(row.node, Standing(row.standing), row.measured_at, place, own, identity))
            if row.numbers and identity is not None:
                mine, sums, parts = json.loads(row.numbers)
                values.append(NodeNumbers(row.node, identity, tuple(mine), tuple(sums), tuple(parts)))
        alone, numbers, counters = self._names(gate.numbers)
        medians, together, whole = json.loads(gate.columns)
        return GateNodes(
            SCHEMA_VERSION, gate.gate_id, gate.judged_at, Profile(gate.profile), gate.policy_digest,
            tuple(map(self.checks, sets)), tuple(nodes), tuple(decode(KeptFinding, one) for one in whole),
            GateNumbers(gate.gate_id, gate.report_digest, gate.measured_at, alone, numbers, tuple(values), tuple(medians),
                        tuple(together), counters, gate.cluster),
        )  # fmt: skip

    def _names(self, name: str) -> tuple[str, tuple[Number, ...], tuple[str, ...]]:
        if name not in self._numbers:
            alone, numbers, counters = json.loads(self._texts[name])
            self._numbers[name] = str(alone), tuple(decode(Number, one) for one in numbers), tuple(counters)
        return self._numbers[name]


def _chosen(query: Any, table: Table, store: str, cluster: str | None, node: str) -> Any:
    query = query.where(table.c.store == store)
    query = query if cluster is None else query.where(table.c.cluster == cluster)
    return query.where(table.c.node == node) if node else query


def _finding(row: Any) -> KeptFinding:
    return KeptFinding(
        Level(row.level), Cause(row.cause), row.check_name, row.subject, row.message, row.metric, bool(row.is_predicate)
    )  # fmt: skip


def _numbers(node: NodeNumbers | None) -> str:
    return "" if node is None else _json([node.values, node.sums, node.parts])


def _share(shared: dict[str, str], value: object) -> str:
    name = digest_of(value)
    shared[name] = _json(value)
    return name


def _json(value: object) -> str:
    return json.dumps(plain(value), separators=(",", ":"))


def _insert(connection: Connection, table: Table, rows: Sequence[Mapping[str, object]]) -> None:
    make: Any = postgresql_insert if connection.dialect.name == "postgresql" else sqlite_insert
    for begin in range(0, len(rows), BATCH):
        connection.execute(make(table).on_conflict_do_nothing(), list(rows[begin : begin + BATCH]))
