"""Lists the verdicts that a store keeps, and what it keeps of every node. A store has a folded history of each cluster beside the rows
of its gates: whoever reads it adds the gates that it lacks.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from multiprocessing.pool import ThreadPool
from typing import TypeVar

from checks.documents.decode import decode, parse_json
from checks.documents.report import dump_plain
from checks.value_types import DecodeError
from tasks.store import node_rows, records
from tasks.store.base import Store, StoreError
from tasks.store.layout import (
    GATES,
    HISTORY,
    RECORDS,
    gate_of,
    history_key,
    nodes_key,
    outcome_key,
    record_key,
    verdict_key,
)
from tasks.store.node_history import ClusterHistory, folded, named_nodes
from tasks.store.node_rows import FILE_BYTES, GateNodes, with_nodes
from tasks.store.records import Record, stamped_at

T = TypeVar("T")
# Gates that a history lacks are read one by one: of so many at most, the newest.
UNFOLDED = 60
# A gate is a file of its own, and a store may be far away.
AT_ONCE = 16
BATCH = 50


@dataclass(frozen=True)
class Listed:
    """Verdicts, oldest first; `problems` says what could not be read, so that nobody takes the list for complete. `unjudged` are the
    ids of the gates that ended without a verdict, by time.
    """

    records: tuple[Record, ...]
    problems: tuple[str, ...]
    unjudged: tuple[str, ...]


@dataclass(frozen=True)
class Rebuilt:
    """How many verdicts there are, how many of their gates have the rows of their nodes, and what was wrong."""

    rows: int
    problems: tuple[str, ...]
    with_nodes: int


@dataclass(frozen=True)
class KnownNodes:
    """What is known of every node: the histories of the clusters, and the rows of the gates that they name, by time. `count` is how
    many gates the store has of these clusters, `unread` are those that no history has. `problems` say what is missing, so that nobody
    takes it for complete.
    """

    clusters: tuple[ClusterHistory, ...]
    gates: tuple[GateNodes, ...]
    count: int
    unread: frozenset[str]
    problems: tuple[str, ...]


def kept_gates(store: Store, also: Iterable[str] = ()) -> dict[str, list[str]]:
    """Gate id -> its keys below gates/, by time and name; none for those of `also` that have none. Raises StoreError."""
    found: dict[str, list[str]] = {gate_id: [] for gate_id in also}
    for key in store.list(GATES):
        if gate_id := gate_of(key):
            found.setdefault(gate_id, []).append(key)
    return {gate_id: found[gate_id] for gate_id in _by_time(found)}


def listed(store: Store, known: dict[str, Record] | None = None) -> Listed:
    """All verdicts. Those that are `known` by the ids of their gates are not read again, and those that are read become so. Raises
    StoreError.
    """
    ids, read = records.recorded(store), {} if known is None else known
    problems: list[str] = []
    for record in read_records(store, [one for one in ids if one not in read], problems):
        read[record.gate_id] = record
    gates = kept_gates(store)
    problems += _without_record(gates, ids)
    unjudged = tuple(
        one for one, keys in gates.items() if outcome_key(one) in keys and verdict_key(one) not in keys
    )
    found = [read[gate_id] for gate_id in ids if gate_id in read]
    return Listed(tuple(sorted(found, key=_turn)), tuple(problems), unjudged)


def newest_records(store: Store, problems: list[str]) -> Iterator[Record]:
    """The records of all gates, those of the gates that began last first. Raises StoreError."""
    yield from read_records(store, _by_time(records.recorded(store))[::-1], problems)


def known_nodes(store: Store, cluster: str | None = None, node: str = "", whole: bool = True) -> KnownNodes:
    """What the store's gates say of every node, of one cluster (None for all), or of one name ("" for all). Unless `whole`, nobody
    looks for gates without a record, which takes long where a store is far away. Raises StoreError.
    """
    ids, known = frozenset(records.recorded(store)), _histories(store)
    problems = [*_without_record(kept_gates(store), ids)] if whole else []
    lacking = _by_time(ids - _gates_of(known.values()))
    if older := len(lacking[:-UNFOLDED]):
        problems.append(f"{older} older gates are not in the history of the nodes: {rebuild_command(store)}")
    settled, newest = _parted(read_records(store, lacking[-UNFOLDED:], problems))
    changed = _fold(store, known, settled, problems)
    with suppress(StoreError):  # who may only read may read, and the next reader adds what is lacking
        _write(store, changed)
    _fold(store, known, newest, problems)
    mine = [
        replace(history, nodes=tuple(one for one in history.nodes if node in ("", one.node)))
        for history in known.values()
        if cluster in (None, history.cluster)
    ]
    named = named_nodes(mine)
    rows = _rows(store, _by_time(ids & named.keys()), problems)
    gates = [with_nodes(gate, named[gate_id]) for gate_id, gate in rows.items()]
    return KnownNodes(
        tuple(mine),
        tuple(sorted(gates, key=_turn)),
        len(ids & _gates_of(mine)),
        ids - _gates_of(known.values()),
        tuple(problems),
    )


def rebuild(store: Store) -> Rebuilt:
    """Fold the histories again from the rows of nodes that the store keeps. Raises StoreError."""
    gates, ids = kept_gates(store), records.recorded(store)
    problems: list[str] = []
    settled, newest = _parted(read_records(store, ids, problems))
    found = [*settled, *newest]
    problems += [
        f"{record.gate_id}: its report is gone ({store.place(record.report)})"
        for record in found
        if record.report not in gates.get(record.gate_id, ())
    ]
    problems += _without_record(gates, ids)
    known: dict[str, ClusterHistory] = {}
    for begin in range(0, len(settled), BATCH):
        _fold(store, known, settled[begin : begin + BATCH], problems)
    _write(store, known.values())
    _fold(store, known, newest, problems)
    for key in {*store.list(HISTORY)}.difference(map(history_key, known)):
        store.delete(key)
    measured = {record.gate_id for record in found if not record.reused}
    return Rebuilt(len(found), tuple(problems), len(measured & _gates_of(known.values())))


def read_each(gate_ids: Iterable[str], read: Callable[[str], T]) -> Iterator[tuple[str, T]]:
    """Each gate with what `read` finds of it, in their order; of at most AT_ONCE gates at a time."""
    ids = list(gate_ids)
    with ThreadPool(
        AT_ONCE
    ) as pool:  # of daemon threads: one that a mount holds keeps no process from ending
        for begin in range(0, len(ids), AT_ONCE):
            some = ids[begin : begin + AT_ONCE]
            yield from zip(some, pool.map(read, some), strict=True)


def rebuild_command(store: Store) -> str:
    """What folds the histories of this store again, with its address."""
    address = store.place(RECORDS)[: -len(f"/{RECORDS}")]
    return f"prelaunch store index --rebuild {shlex.quote(address)}"


def _histories(store: Store) -> dict[str, ClusterHistory]:
    """The history of each cluster. One that cannot be read is none, and is made again."""
    found: dict[str, ClusterHistory] = {}
    for key in store.list(HISTORY):
        with suppress(DecodeError):
            history = decode(ClusterHistory, parse_json(store.get(key) or b"", FILE_BYTES))
            if key == history_key(history.cluster):
                found[history.cluster] = history
    return found


def _gates_of(histories: Iterable[ClusterHistory]) -> set[str]:
    return {gate_id for history in histories for gate_id in history.gates}


def _parted(found: Iterable[Record]) -> tuple[list[Record], list[Record]]:
    """The records by time, and apart from them the newest one of each cluster: while its gate runs, another start of its job may have
    another verdict. Only one gate of a cluster runs at a time.
    """
    ordered = sorted(found, key=_turn)
    newest = {record.cluster: record for record in ordered}
    return [one for one in ordered if newest[one.cluster] is not one], list(newest.values())


def _fold(
    store: Store, known: dict[str, ClusterHistory], found: Sequence[Record], problems: list[str]
) -> list[ClusterHistory]:
    """Add the gates of these records to the histories; returns those that changed. A PASS that was used again measured nothing."""
    rows = _rows(store, [record.gate_id for record in found if not record.reused], problems)
    clusters: dict[str, dict[str, str]] = {}
    for record in found:
        gate = rows.get(record.gate_id)
        if record.reused or gate is not None:
            cluster = record.cluster if gate is None else gate.cluster
            clusters.setdefault(cluster, {})[record.gate_id] = record.judged_at
    for cluster, judged in clusters.items():
        own = [rows[gate_id] for gate_id in judged if gate_id in rows]
        known[cluster] = folded(known.get(cluster, ClusterHistory(cluster=cluster)), judged, own)
    return [known[cluster] for cluster in clusters]


def _rows(store: Store, gate_ids: Iterable[str], problems: list[str]) -> dict[str, GateNodes]:
    """What these gates say of their nodes, of those of which it can be read."""
    found: dict[str, GateNodes] = {}
    for gate_id, rows in _read(store, gate_ids, node_rows.read, nodes_key, problems):
        if rows is None:
            problems.append(f"{gate_id}: it has a verdict, and what it says of its nodes was not kept")
        else:
            found[gate_id] = rows
    return found


def _write(store: Store, histories: Iterable[ClusterHistory]) -> None:
    for history in histories:
        store.put(history_key(history.cluster), dump_plain(history))


def _without_record(gates: Mapping[str, list[str]], ids: Collection[str]) -> Iterator[str]:
    """Report gates without a record, which are not listed."""
    for gate_id, keys in gates.items():
        if gate_id not in ids and verdict_key(gate_id) in keys:
            yield f"{gate_id}: it has a verdict, and no record: it was cut short"


def read_records(store: Store, gate_ids: Iterable[str], problems: list[str]) -> Iterator[Record]:
    """The records of these gates, in their order. What cannot be read is a problem. Raises StoreError."""
    found = _read(store, gate_ids, records.read, record_key, problems)
    return (record for _, record in found if record is not None)


def _read(
    store: Store,
    gate_ids: Iterable[str],
    read: Callable[[Store, str], T | None],
    key_of: Callable[[str], str],
    problems: list[str],
) -> Iterator[tuple[str, T | None]]:
    """What the store keeps of each gate, in their order, None where there is nothing. What cannot be read is a problem."""

    def one(gate_id: str) -> T | DecodeError | None:
        try:
            return read(store, gate_id)
        except DecodeError as error:
            return error

    for gate_id, found in read_each(gate_ids, one):
        if isinstance(found, DecodeError):
            problems.append(f"{store.place(key_of(gate_id))}: {found}")
        else:
            yield gate_id, found


def _by_time(gate_ids: Iterable[str]) -> list[str]:
    """Gates in the order in which they began; those whose id does not say it come first."""
    return sorted(gate_ids, key=lambda gate_id: (stamped_at(gate_id) or 0.0, gate_id))


def _turn(kept: Record | GateNodes) -> tuple[str, str]:
    return kept.judged_at, kept.gate_id
