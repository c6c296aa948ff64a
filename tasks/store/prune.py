"""Deletes old gates from a store. What is in use stays: a cluster's PASS, the gate that holds the lock, what has no known age, and
what the caller still needs (the last proof of a machine, for example).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from checks.documents.decode import parse_json
from checks.judge.clocks import seconds_of
from checks.model import Answer
from checks.value_types import DecodeError
from tasks.store import layout, records
from tasks.store.base import Store, StoreError
from tasks.store.history import AT_ONCE, kept_gates, read_each
from tasks.store.records import Record, stamped_at

DAY_S = 86400.0
# Report, verdict, rows of nodes, and record.
LAST = 4


@dataclass(frozen=True)
class Old:
    """A gate that may be deleted, and its keys in the order in which they are deleted."""

    gate_id: str
    days: float
    answer: Answer | None
    keys: tuple[str, ...]


@dataclass(frozen=True)
class Pruning:
    """What may be deleted, and what stays although it is old, with the reason."""

    old: tuple[Old, ...]
    stays: tuple[tuple[str, str], ...]


def planned(
    store: Store,
    older_than_days: float,
    keep_refused: bool,
    now: float,
    needed: Mapping[str, str],
    cluster: str | None = None,
) -> Pruning:
    """What a pruning would remove; nothing is removed. `needed` says by the id of a gate why it must stay. Only gates of `cluster` go,
    None for all. Raises StoreError, also where it cannot tell what is in use.
    """
    used, gates = {**needed, **_in_use(store)}, kept_gates(store, records.recorded(store))
    old: list[Old] = []
    stays: list[tuple[str, str]] = []
    read = dict(read_each(gates, lambda gate_id: _record(store, gate_id)))
    for gate_id, keys in gates.items():
        record, problem = read[gate_id]
        if cluster is not None and (record is None or record.cluster != cluster):
            continue
        since = _newest(gate_id, record)
        if since is not None and now - since < older_than_days * DAY_S:
            continue
        hold = problem or used.get(gate_id) or ("when it was judged is not known" if since is None else "")
        if not hold and keep_refused and (record is None or record.answer is not Answer.GO):
            hold = "it refused" if record is not None else "what it answered is not known"
        if hold or since is None:
            stays.append((gate_id, hold))
            continue
        answer = record.answer if record else None
        old.append(Old(gate_id, (now - since) / DAY_S, answer, tuple(_in_order(gate_id, keys))))
    return Pruning(tuple(old), tuple(stays))


def remove(store: Store, old: Sequence[Old]) -> None:
    """Delete the gates. A deletion that was interrupted continues in the next run. Raises StoreError."""
    for gate in old:
        # The last files of a gate say that it was there: they go when all others have gone.
        with ThreadPoolExecutor(AT_ONCE) as pool:
            _ = list(pool.map(store.delete, gate.keys[:-LAST]))
        for key in gate.keys[-LAST:]:
            store.delete(key)


def _in_use(store: Store) -> dict[str, str]:
    """Gate id -> why it must stay."""
    used: dict[str, str] = {}
    for folder, reason in (
        (layout.PASSES, "it is the PASS in use of {}"),
        (layout.LEASES, "it holds the lock of {}"),
    ):
        for key in store.list(folder):
            if not key.startswith(f"{layout.LEASES_BY_RUN}/") and (data := store.get(key)) is not None:
                used[_gate_of(store, key, data)] = reason.format(layout.name_of(key))
    return used


def _gate_of(store: Store, key: str, data: bytes) -> str:
    try:
        value = parse_json(data, 1 << 20)
    except DecodeError as error:
        raise StoreError(f"{store.location(key)} cannot be read, so nothing is pruned: {error}") from error
    gate_id = value.get("gate_id") if isinstance(value, dict) else None
    if not isinstance(gate_id, str):
        message = f"{store.location(key)} names no gate, so nothing is pruned. Remove it if nothing runs."
        raise StoreError(message)
    return gate_id


def _record(store: Store, gate_id: str) -> tuple[Record | None, str]:
    try:
        return records.read(store, gate_id), ""
    except DecodeError as error:
        return None, f"its record cannot be read: {error}"


def _newest(gate_id: str, record: Record | None) -> float | None:
    """When the gate was judged, in Unix seconds; the later of two times that differ."""
    stamps = stamped_at(gate_id), None if record is None else seconds_of(record.judged_at)
    return max((when for when in stamps if when is not None), default=None)


def _in_order(gate_id: str, keys: Sequence[str]) -> Iterator[str]:
    """The keys in the order of deletion: the verdict after its inputs, the record last, so that remains are found again."""
    last = (layout.report_key(gate_id), layout.verdict_key(gate_id))
    yield from (key for key in keys if key not in last)
    yield layout.page_key(gate_id)
    yield from last
    yield layout.nodes_key(gate_id)
    yield layout.record_key(gate_id)
