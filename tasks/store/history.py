"""Lists the verdicts that a store keeps, and what it keeps of every node. A store has a merged history of each cluster beside the rows
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
from tasks.store import layout, node_rows, records
from tasks.store.base import Store, StoreError
from tasks.store.node_history import ClusterHistory, merged_history, named_nodes
from tasks.store.node_rows import FILE_BYTES, GateNodes, with_nodes
from tasks.store.records import RETEST_CLUSTER, Record, stamped_at

T = TypeVar("T")
# Gates that a history lacks are read one by one: of so many at most, the newest.
MOST_LACKING = 60
# A gate is a file of its own, and a store may be far away.
AT_ONCE = 16
BATCH = 50


@dataclass(frozen=True)
class VerdictListing:
    """Verdicts, oldest first; `problems` says what could not be read, so that nobody takes the list for complete, and `cut_short`
    which of them are about gates without a record. `unjudged` are the ids of the gates that ended without a verdict, by time.
    """

    records: tuple[Record, ...]
    problems: tuple[str, ...]
    cut_short: tuple[str, ...]
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
    gates: dict[str, list[str]] = {gate_id: [] for gate_id in also}
    for key in store.list(layout.GATES):
        if gate_id := layout.gate_of(key):
            gates.setdefault(gate_id, []).append(key)
    return {gate_id: gates[gate_id] for gate_id in _by_time(gates)}


def listed(store: Store, cache: dict[str, Record] | None = None) -> VerdictListing:
    """All verdicts. Those in the `cache`, by the ids of their gates, are not read again, and those that will not change are added to
    it. Raises StoreError.
    """
    ids, read = records.recorded(store), {} if cache is None else cache
    problems: list[str] = []
    for record in read_records(store, [gate for gate in ids if gate not in read], problems):
        read[record.gate_id] = record
    gates = kept_gates(store)
    cut_short = tuple(_without_record(gates, ids))
    unjudged = tuple(
        gate
        for gate, keys in gates.items()
        if layout.outcome_key(gate) in keys and layout.verdict_key(gate) not in keys
    )
    settled, newest = _parted(read[gate_id] for gate_id in ids if gate_id in read)
    for record in newest:
        del read[record.gate_id]
    ordered = tuple(sorted((*settled, *newest), key=_sort_key))
    return VerdictListing(ordered, (*problems, *cut_short), cut_short, unjudged)


def newest_records(store: Store, problems: list[str]) -> Iterator[Record]:
    """The records of all gates, those of the gates that began last first. Raises StoreError."""
    yield from read_records(store, _by_time(records.recorded(store))[::-1], problems)


def known_nodes(store: Store, cluster: str | None = None, node: str = "", whole: bool = True) -> KnownNodes:
    """What the store's gates say of every node, of one cluster (None for all), or of one name ("" for all), which may be the engine's.
    Unless `whole`, nobody looks for gates without a record, which takes long where a store is far away. Raises StoreError.
    """
    ids, histories = frozenset(records.recorded(store)), _histories(store)
    problems = [*_without_record(kept_gates(store), ids)] if whole else []
    lacking = _by_time(ids - _gates_of(histories.values()))
    if older := len(lacking[:-MOST_LACKING]):
        problems.append(f"{older} older gates are not in the history of the nodes: {rebuild_command(store)}")
    settled, newest = _parted(read_records(store, lacking[-MOST_LACKING:], problems))
    changed = _merge(store, histories, settled, problems)
    with suppress(StoreError):  # who may only read may read, and the next reader adds what is lacking
        _write(store, changed)
    _merge(store, histories, newest, problems)
    mine = tuple(
        replace(
            history, nodes=tuple(past for past in history.nodes if node in ("", past.node, past.engine_node))
        )
        for history in histories.values()
        if cluster in (None, history.cluster)
    )
    gate_nodes = named_nodes(mine)
    nodes_by_gate = _nodes_of(store, _by_time(ids & gate_nodes.keys()), problems)
    gates = [with_nodes(gate, gate_nodes[gate_id]) for gate_id, gate in nodes_by_gate.items()]
    gates.sort(key=_sort_key)
    unread = ids - _gates_of(histories.values())
    return KnownNodes(mine, tuple(gates), len(ids & _gates_of(mine)), unread, tuple(problems))


def rebuild(store: Store) -> Rebuilt:
    """Make the histories again from the rows of nodes that the store keeps. Rows that a gate could not keep are made of its report.
    Raises StoreError.
    """
    gates, ids = kept_gates(store), records.recorded(store)
    problems: list[str] = []
    settled, newest = _parted(read_records(store, ids, problems))
    records_found = [*settled, *newest]
    problems += [
        f"{record.gate_id}: its report is gone ({store.location(record.report)})"
        for record in records_found
        if record.report not in gates.get(record.gate_id, ())
    ]
    problems += _without_record(gates, ids)
    keys = {*store.list(layout.NODES)}
    for record in (entry for entry in records_found if not entry.reused):
        if layout.nodes_key(record.gate_id) not in keys:
            with suppress(Exception):  # whatever its report does to it: the merge names what is missing
                node_rows.make_again(store, record)
    histories: dict[str, ClusterHistory] = {}
    for begin in range(0, len(settled), BATCH):
        _merge(store, histories, settled[begin : begin + BATCH], problems)
    _write(store, histories.values())
    _merge(store, histories, newest, problems)
    for key in {*store.list(layout.HISTORY)}.difference(map(layout.history_key, histories)):
        store.delete(key)
    measured = {record.gate_id for record in records_found if not record.reused}
    return Rebuilt(len(records_found), tuple(problems), len(measured & _gates_of(histories.values())))


def read_each(gate_ids: Iterable[str], read: Callable[[str], T]) -> Iterator[tuple[str, T]]:
    """Each gate with what `read` finds of it, in their order; of at most AT_ONCE gates at a time."""
    ids = list(gate_ids)
    # Of daemon threads: one that a mount holds keeps no process from ending.
    with ThreadPool(AT_ONCE) as pool:
        for begin in range(0, len(ids), AT_ONCE):
            some = ids[begin : begin + AT_ONCE]
            yield from zip(some, pool.map(read, some), strict=True)


def rebuild_command(store: Store) -> str:
    """The command that makes the histories of this store again, with its address."""
    address = store.location(layout.RECORDS)[: -len(f"/{layout.RECORDS}")]
    return f"prelaunch fleet store index --rebuild {shlex.quote(address)}"


def _histories(store: Store) -> dict[str, ClusterHistory]:
    """The history of each cluster. One that cannot be read is none, and is made again."""
    histories: dict[str, ClusterHistory] = {}
    for key in store.list(layout.HISTORY):
        with suppress(DecodeError):
            history = decode(ClusterHistory, parse_json(store.get(key) or b"", FILE_BYTES))
            if key == layout.history_key(history.cluster):
                histories[history.cluster] = history
    return histories


def _gates_of(histories: Iterable[ClusterHistory]) -> set[str]:
    return {gate_id for history in histories for gate_id in history.gates}


def _parted(gathered: Iterable[Record]) -> tuple[list[Record], list[Record]]:
    """The records by time, and apart from them the newest one of each cluster: while its gate runs, another start of its job may have
    another verdict. Only one gate of a cluster runs at a time, and a re-test judges once.
    """
    ordered = sorted(gathered, key=_sort_key)
    newest = {record.cluster: record for record in ordered if not RETEST_CLUSTER.search(record.cluster)}
    return [entry for entry in ordered if newest.get(entry.cluster) is not entry], list(newest.values())


def _merge(
    store: Store, histories: dict[str, ClusterHistory], gathered: Sequence[Record], problems: list[str]
) -> list[ClusterHistory]:
    """Add the gates of these records to the histories; returns those that changed. A PASS that was used again measured nothing."""
    gates = _nodes_of(store, [record.gate_id for record in gathered if not record.reused], problems)
    clusters: dict[str, dict[str, str]] = {}
    for record in gathered:
        gate = gates.get(record.gate_id)
        if record.reused or gate is not None:
            cluster = record.cluster if gate is None else gate.cluster
            clusters.setdefault(cluster, {})[record.gate_id] = record.judged_at
    for cluster, times in clusters.items():
        own = [gates[gate_id] for gate_id in times if gate_id in gates]
        before = histories.get(cluster, ClusterHistory(cluster=cluster))
        histories[cluster] = merged_history(before, times, own)
    return [histories[cluster] for cluster in clusters]


def _nodes_of(store: Store, gate_ids: Iterable[str], problems: list[str]) -> dict[str, GateNodes]:
    """What these gates say of their nodes, of those of which it can be read."""
    gates: dict[str, GateNodes] = {}
    for gate_id, gate_nodes in _read(store, gate_ids, node_rows.read, layout.nodes_key, problems):
        if gate_nodes is None:
            problems.append(f"{gate_id}: it has a verdict, and what it says of its nodes was not kept")
        else:
            gates[gate_id] = gate_nodes
    return gates


def _write(store: Store, histories: Iterable[ClusterHistory]) -> None:
    for history in histories:
        store.put(layout.history_key(history.cluster), dump_plain(history))


def _without_record(gates: Mapping[str, list[str]], ids: Collection[str]) -> Iterator[str]:
    """Report gates without a record, which are not listed."""
    for gate_id, keys in gates.items():
        if gate_id not in ids and layout.verdict_key(gate_id) in keys:
            yield f"{gate_id}: it has a verdict, and no record: it was cut short"


def read_records(store: Store, gate_ids: Iterable[str], problems: list[str]) -> Iterator[Record]:
    """The records of these gates, in their order. What cannot be read is a problem. Raises StoreError."""
    results = _read(store, gate_ids, records.read, layout.record_key, problems)
    return (record for _, record in results if record is not None)


def _read(
    store: Store,
    gate_ids: Iterable[str],
    read: Callable[[Store, str], T | None],
    key_of: Callable[[str], str],
    problems: list[str],
) -> Iterator[tuple[str, T | None]]:
    """What the store keeps of each gate, in their order, None where there is nothing. What cannot be read is a problem."""

    def read_gate(gate_id: str) -> T | DecodeError | None:
        try:
            return read(store, gate_id)
        except DecodeError as error:
            return error

    for gate_id, result in read_each(gate_ids, read_gate):
        if isinstance(result, DecodeError):
            problems.append(f"{store.location(key_of(gate_id))}: {result}")
        else:
            yield gate_id, result


def _by_time(gate_ids: Iterable[str]) -> list[str]:
    """Gates in the order in which they began; those whose id does not say it come first."""
    return sorted(gate_ids, key=lambda gate_id: (stamped_at(gate_id) or 0.0, gate_id))


def _sort_key(document: Record | GateNodes) -> tuple[str, str]:
    return document.judged_at, document.gate_id
