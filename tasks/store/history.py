"""Lists every verdict that a store keeps, reads what it keeps of every node, and rebuilds the index. The index helps to find
verdicts; the store decides.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from checks.value_types import DecodeError
from tasks.store import node_rows, records
from tasks.store.base import Store, StoreUnwritable
from tasks.store.index import Index, IndexFailed, history_of
from tasks.store.layout import GATES, RECORDS, gate_of, nodes_key, outcome_key, record_key, verdict_key
from tasks.store.node_rows import GateNodes, NodeHistory
from tasks.store.open import identity
from tasks.store.records import Record, stamped_at


@dataclass(frozen=True)
class Listed:
    """Verdicts, oldest first; `problems` says what could not be read, so that nobody takes the list for complete. `unjudged` are the
    ids of the gates that ended without a verdict, by time; none where nobody looked for them.
    """

    records: tuple[Record, ...]
    problems: tuple[str, ...]
    index_problem: str = ""
    unjudged: tuple[str, ...] = ()


@dataclass(frozen=True)
class Rebuilt:
    """How many verdicts the index has now, how many of their gates have the rows of their nodes, and what was wrong."""

    rows: int
    problems: tuple[str, ...]
    with_nodes: int = 0


# Gates that the index lacks are read one by one: of so many at most, the newest.
UNINDEXED = 60


@dataclass(frozen=True)
class KnownNodes:
    """What is known of every node. `problems` say what is missing in it, so that nobody takes it for complete."""

    history: NodeHistory
    problems: tuple[str, ...]
    index_problem: str = ""


def kept_gates(store: Store, also: Iterable[str] = ()) -> dict[str, list[str]]:
    """Gate id -> its keys below gates/, by time and name; none for those of `also` that have none. Raises StoreError."""
    found: dict[str, list[str]] = {gate_id: [] for gate_id in also}
    for key in store.list(GATES):
        if gate_id := gate_of(key):
            found.setdefault(gate_id, []).append(key)
    return dict(sorted(found.items(), key=lambda item: (stamped_at(item[0]) or 0.0, item[0])))


def listed(store: Store, index: Index, whole: bool = True) -> Listed:
    """All verdicts. Which there are, the store says; rows that the index lacks are read there, and entered. Unless `whole`, only the
    newest UNINDEXED of them are read, and nobody looks for gates without a record, which takes long where a store is far away. Raises
    StoreError.
    """
    ids = records.recorded(store)
    name, rows, index_problem = _indexed(store, index) if ids else ("", {}, "")
    problems: list[str] = []
    lacking = sorted((one for one in ids if one not in rows), key=lambda one: (stamped_at(one) or 0.0, one))
    if not whole and len(lacking) > UNINDEXED:
        older = len(lacking) - UNINDEXED
        problems.append(f"{older} older gates are not in the index: {rebuild_command(store)}")
        lacking = lacking[older:]
    missing = list(_read(store, lacking, problems))
    gates = kept_gates(store) if whole else {}
    problems += _without_record(gates, set(ids))
    unjudged = tuple(
        one for one, keys in gates.items() if outcome_key(one) in keys and verdict_key(one) not in keys
    )
    if missing and not index_problem:
        try:
            index.write(name, missing)
        except IndexFailed as error:
            index_problem = str(error)
    found = [*(rows[gate_id] for gate_id in ids if gate_id in rows), *missing]
    return Listed(tuple(sorted(found, key=_turn)), tuple(problems), index_problem, unjudged)


def known_nodes(
    store: Store, index: Index, found: Listed, cluster: str | None = None, node: str = ""
) -> KnownNodes:
    """What the gates of `found` say of every node, of one cluster (None for all), or of one name ("" for all). The nodes of gates that
    the index lacks are read in the store, and entered. Raises StoreError.
    """
    own = [record for record in found.records if not record.reused and cluster in (None, record.cluster)]
    problems = list(found.problems)
    try:
        name = identity(store)
        missing = _lacking(store, own, index.gates_with_nodes(name), problems)
        read = list(_nodes_of(store, missing, problems))
        if read:
            index.write_nodes(name, read)
        return KnownNodes(index.nodes(name, cluster, node), tuple(problems), found.index_problem)
    except (IndexFailed, StoreUnwritable) as error:  # who may only read may read
        problems = list(found.problems)
        history = history_of(_nodes_of(store, own, problems), cluster, node)
        return KnownNodes(history, tuple(problems), found.index_problem or str(error))


def known_names(store: Store, index: Index) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The names of all nodes that gates of the store know, and what could not be read of them. Raises StoreError."""
    known = known_nodes(store, index, listed(store, index))
    return tuple(sorted({total.key.node for total in known.history.totals})), known.problems


def rebuild(store: Store, index: Index) -> Rebuilt:
    """Rebuild the index from the records and the rows of nodes that the store keeps. Raises IndexFailed, StoreError."""
    gates, ids = kept_gates(store), records.recorded(store)
    problems: list[str] = []
    found = list(_read(store, ids, problems))
    problems += [
        f"{record.gate_id}: its report is gone ({store.place(record.report)})"
        for record in found
        if record.report not in gates.get(record.gate_id, ())
    ]
    problems += _without_record(gates, set(ids))
    measured = [record for record in found if not record.reused]
    index.rebuild(identity(store), found, _nodes_of(store, measured, problems))
    return Rebuilt(len(found), tuple(problems), len(index.gates_with_nodes(identity(store))))


def rebuild_command(store: Store) -> str:
    """What builds the index of this store again, with its address."""
    address = store.place(RECORDS)[: -len(f"/{RECORDS}")]
    return f"prelaunch store index --rebuild {shlex.quote(address)}"


def _indexed(store: Store, index: Index) -> tuple[str, dict[str, Record], str]:
    try:
        name = identity(store)
    except StoreUnwritable as error:  # who may only read may read
        return "", {}, str(error)
    try:
        return name, {record.gate_id: record for record in index.rows(name)}, ""
    except IndexFailed as error:
        return name, {}, str(error)


def _without_record(gates: Mapping[str, list[str]], ids: set[str]) -> Iterator[str]:
    """Report gates without a record, which are not listed."""
    for gate_id, keys in gates.items():
        if gate_id not in ids and verdict_key(gate_id) in keys:
            yield f"{gate_id}: it has a verdict, and no record: it was cut short"


def _read(store: Store, gate_ids: Iterable[str], problems: list[str]) -> Iterator[Record]:
    for gate_id in gate_ids:
        try:
            found = records.read(store, gate_id)
        except DecodeError as error:
            problems.append(f"{store.place(record_key(gate_id))}: {error}")
            continue
        if found is not None:
            yield found


def _lacking(
    store: Store, own: Sequence[Record], indexed: frozenset[str], problems: list[str]
) -> list[Record]:
    """The newest gates whose nodes the index lacks; a problem says that there are more."""
    missing = [record for record in own if record.gate_id not in indexed]
    if len(missing) > UNINDEXED:
        problems.append(
            f"the nodes of {len(missing) - UNINDEXED} older gates are not in the index: {rebuild_command(store)}"
        )
    return missing[-UNINDEXED:]


def _nodes_of(store: Store, own: Iterable[Record], problems: list[str]) -> Iterator[GateNodes]:
    for record in own:
        try:
            rows = node_rows.read(store, record.gate_id)
        except DecodeError as error:
            problems.append(f"{store.place(nodes_key(record.gate_id))}: {error}")
            continue
        if rows is None:
            problems.append(f"{record.gate_id}: it has a verdict, and what it says of its nodes was not kept")
            continue
        yield rows


def _turn(record: Record) -> tuple[str, str]:
    return record.judged_at, record.gate_id
