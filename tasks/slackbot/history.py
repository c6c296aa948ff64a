"""The past verdicts in the gates' stores, as `status` and `why` need them.

HistoryError        there is no such verdict, or the store cannot be read; the message is for the person who asked
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from checks.command_line import InputError
from checks.model import Answer, Verdict
from checks.value_types import DecodeError
from tasks.gate_file.model import Gate
from tasks.gate_file.read import GateFileError
from tasks.reports.fleet.fleet import Fleet
from tasks.reports.fleet.reading import read_fleet
from tasks.reports.store_argument import open_named_store
from tasks.slackbot.config import ListedGate
from tasks.store import records
from tasks.store.base import Store, StoreError
from tasks.store.layout import verdict_key
from tasks.store.records import Record, load, stamped_at

# The newest gates of one store that are looked at for a refusal.
LOOKED_AT = 200


class HistoryError(Exception):
    """There is no such verdict, or it cannot be read. The message says which, without markup."""


@dataclass(frozen=True)
class PastVerdict:
    """An earlier verdict."""

    gate: Gate
    store: Store
    record: Record
    verdict: Verdict


def last(allowed: ListedGate) -> Record | None:
    """The newest verdict of a gate on its own cluster; None if there is none. Raises HistoryError."""
    return next(_records(*_opened(allowed)), None)


def last_refusal(allowed: ListedGate) -> PastVerdict:
    """The newest verdict that was no go. Raises HistoryError."""
    gate, store = _opened(allowed)
    for record in _records(gate, store):
        if record.answer is not Answer.GO:
            return _past(allowed, gate, store, record)
    raise HistoryError(f"The store has no refusal of {allowed.name}: every verdict in it is a go.")


def of_id(gates: Sequence[ListedGate], gate_id: str) -> PastVerdict:
    """The verdict of one gate run, whatever it was. Raises HistoryError."""
    for allowed in gates:
        gate, store = _opened(allowed)
        if not gate_id.startswith(f"{gate.name}-"):
            continue
        try:
            record = records.read(store, gate_id)
        except (StoreError, DecodeError) as error:
            raise HistoryError(f"The record of {gate_id} cannot be read: {error}") from error
        if record is not None and record.gate == gate.name:
            return _past(allowed, gate, store, record)
    raise HistoryError(f"No gate of this app has a verdict of {gate_id}.")


def fleet_of(allowed: ListedGate) -> tuple[str, Fleet | str]:
    """The cluster of a gate, and its fleet as its store has it, or why there is none. The scheduler is not asked."""
    try:
        cluster = allowed.gate().cluster.name
        return cluster, read_fleet(open_named_store(str(allowed.file)).store, time.time(), cluster=cluster)
    except (InputError, StoreError) as error:
        return allowed.name, f"The nodes cannot be read: {error}"


def _past(allowed: ListedGate, gate: Gate, store: Store, record: Record) -> PastVerdict:
    try:
        data = store.get(verdict_key(record.gate_id))
        if data is not None:
            return PastVerdict(gate, store, record, load(data))
    except (StoreError, DecodeError) as error:
        raise HistoryError(f"The verdict of {record.gate_id} cannot be read: {error}") from error
    raise HistoryError(f"The store of {allowed.name} has no verdict of {record.gate_id}.")


def _opened(allowed: ListedGate) -> tuple[Gate, Store]:
    try:
        return allowed.gate(), allowed.store()
    except (GateFileError, StoreError) as error:
        raise HistoryError(f"The gate file of {allowed.name} cannot be read: {error}") from error


def _records(gate: Gate, store: Store) -> Iterator[Record]:
    """The gate's records of its own cluster, newest first, each read when it is asked for. Raises HistoryError.

    A re-test of a node bears the gate's name too, on a cluster of its own.
    """
    try:
        ids = [own_id for own_id in records.recorded(store) if own_id.startswith(f"{gate.name}-")]
        ids.sort(key=lambda own_id: (stamped_at(own_id) or 0.0, own_id), reverse=True)
        for gate_id in ids[:LOOKED_AT]:
            record = records.read(store, gate_id)
            if record is not None and (record.gate, record.cluster) == (gate.name, gate.cluster.name):
                yield record
    except (StoreError, DecodeError) as error:
        raise HistoryError(f"The records of {gate.name} cannot be read: {error}") from error
