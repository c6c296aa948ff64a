"""Lists every verdict that a store keeps, and rebuilds the index. The index helps to find verdicts; the store decides."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime

from checks.documents.report import digest, load
from checks.value_types import DecodeError
from tasks.store import records
from tasks.store import records as verdictfile
from tasks.store.base import Store, StoreUnwritable
from tasks.store.index import Index, IndexFailed
from tasks.store.layout import GATES, gate_of, record_key, report_key, verdict_key
from tasks.store.open import identity
from tasks.store.records import Record, record_of, stamped_at


@dataclass(frozen=True)
class Listed:
    """Verdicts, oldest first; `problems` says what could not be read, so that nobody takes the list for complete."""

    records: tuple[Record, ...]
    problems: tuple[str, ...]
    index_problem: str = ""


@dataclass(frozen=True)
class Rebuilt:
    """How many rows the index has now, for which gates a record was made from report and verdict, and what was wrong."""

    rows: int
    made: tuple[str, ...]
    problems: tuple[str, ...]


def kept_gates(store: Store, also: Iterable[str] = ()) -> dict[str, list[str]]:
    """Gate id -> its keys below gates/, by time and name; none for those of `also` that have none. Raises StoreError."""
    found: dict[str, list[str]] = {gate_id: [] for gate_id in also}
    for key in store.list(GATES):
        if gate_id := gate_of(key):
            found.setdefault(gate_id, []).append(key)
    return dict(sorted(found.items(), key=lambda item: (stamped_at(item[0]) or 0.0, item[0])))


def listed(store: Store, index: Index) -> Listed:
    """All verdicts. Which there are, the store says; rows that the index lacks are read there, and entered.

    Raises StoreError.
    """
    ids = records.recorded(store)
    name, rows, said = _indexed(store, index) if ids else ("", {}, "")
    problems: list[str] = []
    missing = list(_read(store, (gate_id for gate_id in ids if gate_id not in rows), problems))
    problems += _without_record(store, set(ids))
    if missing and not said:
        try:
            index.write(name, missing)
        except IndexFailed as error:
            said = str(error)
    found = [*(rows[gate_id] for gate_id in ids if gate_id in rows), *missing]
    return Listed(tuple(sorted(found, key=_turn)), tuple(problems), said)


def rebuild(store: Store, index: Index) -> Rebuilt:
    """Rebuild the index from the store alone. Raises IndexFailed, StoreError."""
    gates, ids = kept_gates(store), set(records.recorded(store))
    problems: list[str] = []
    found = list(_read(store, sorted(ids), problems))
    made = [_derived(store, gate_id, keys, problems) for gate_id, keys in gates.items() if gate_id not in ids]
    new = [record for record in made if record is not None]
    for record in new:
        records.keep(store, record)
    for record in found:
        if record.report not in gates.get(record.gate_id, ()):
            problems.append(f"{record.gate_id}: its report is gone ({store.place(record.report)})")
    index.rebuild(identity(store), [*found, *new])
    return Rebuilt(len(found) + len(new), tuple(record.gate_id for record in new), tuple(problems))


def moment(text: str) -> float | None:
    """An ISO 8601 time in Unix seconds; None if the text is no such time."""
    try:
        return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()
    except (ValueError, OverflowError):
        return None


def _indexed(store: Store, index: Index) -> tuple[str, dict[str, Record], str]:
    try:
        name = identity(store)
    except StoreUnwritable as error:  # who may only read may read
        return "", {}, str(error)
    try:
        return name, {record.gate_id: record for record in index.rows(name)}, ""
    except IndexFailed as error:
        return name, {}, str(error)


def _without_record(store: Store, ids: set[str]) -> Iterator[str]:
    """Report gates without a record, which are not listed: they were cut short, or an older version kept them."""
    for gate_id, keys in kept_gates(store).items():
        if gate_id not in ids and verdict_key(gate_id) in keys:
            yield f"{gate_id}: it has a verdict, and no record: make one with prelaunch store index --rebuild"


def _read(store: Store, gate_ids: Iterator[str] | list[str], problems: list[str]) -> Iterator[Record]:
    for gate_id in gate_ids:
        try:
            found = records.read(store, gate_id)
        except DecodeError as error:
            problems.append(f"{store.place(record_key(gate_id))}: {error}")
            continue
        if found is not None:
            yield found


def _derived(store: Store, gate_id: str, keys: list[str], problems: list[str]) -> Record | None:
    """A record made from what is left of a gate; None if it judged nothing or was cut short, which is reported."""
    if report_key(gate_id) not in keys and verdict_key(gate_id) not in keys:
        return None  # a gate that ended before it judged: logs, an outcome
    data, kept = store.get(report_key(gate_id)), store.get(verdict_key(gate_id))
    if data is None or kept is None:
        problems.append(f"{gate_id}: it has no {'report' if data is None else 'verdict'}: it was cut short")
        return None
    try:
        verdict, report = verdictfile.load(kept), load(data)
    except DecodeError as error:
        problems.append(f"{gate_id}: {error}")
        return None
    if verdict.digests.report != digest(data):
        problems.append(f"{gate_id}: its report is not the one that its verdict was made of")
        return None
    when = stamped_at(gate_id) or moment(report.measured_at)
    if when is None:
        problems.append(f"{gate_id}: when it was judged is not known")
        return None
    return record_of(gate_id, report, verdict, report_key(gate_id), when)


def _turn(record: Record) -> tuple[str, str]:
    return record.judged_at, record.gate_id
