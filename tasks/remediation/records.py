"""The journal and the records of acts, as a store keeps them.

remediation/<cluster>/journal.json is replaced by compare-and-set alone. remediation/<cluster>/acts/<node>/<act id>.json is the audit
record of one act: it is created before the engine is called, and from then on only its state changes. A document that cannot be read
stops everything: it is never written anew, because limits are counted from it.

JournalError            the journal cannot be read, or others keep changing it; nothing was done
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TypeVar

from checks.documents.decode import decode, parse_json
from checks.documents.report import dump_plain
from checks.model import SCHEMA_VERSION
from checks.value_types import DecodeError
from tasks.machines.base import Rung
from tasks.remediation.model import DAY_S, Act, ActState, Case, Journal
from tasks.store.base import Store
from tasks.store.layout import act_key, acts_folder, journal_key

T = TypeVar("T")
FILE_BYTES = 1 << 24
TRIES = 20


class JournalError(Exception):
    """The journal cannot be read, or others keep changing it; nothing was done."""


class Records:
    """The journal and the records of one cluster in a store."""

    def __init__(self, store: Store, cluster: str) -> None:
        self.store, self.cluster = store, cluster

    def journal(self) -> Journal:
        """The journal; an empty one if there is none. Raises JournalError, StoreError."""
        return self._read()[0]

    def change(self, change: Callable[[Journal], Journal], now: float) -> Journal:
        """Replace the journal by `change` of it, which is called again if another process was faster. Returns the new one.

        `change` may raise, and then nothing is written. Raises JournalError, StoreError.
        """
        key = journal_key(self.cluster)
        for _ in range(TRIES):
            journal, data = self._read()
            changed = change(journal)
            if changed == journal:
                return journal
            changed = replace(changed, written_at=max(changed.written_at, now))
            new = _readable(changed, self.store.location(key))
            if self.store.put_if_absent(key, new) if data is None else self.store.replace_if(key, data, new):
                return changed
        message = (
            f"{self.store.location(key)}: other processes keep changing it. Nothing was done. Try again."
        )
        raise JournalError(message)

    def create(self, act: Act) -> bool:
        """Write the record of an act that is intended; False if there is one of this id already. Raises StoreError."""
        return self.store.put_if_absent(act_key(act.cluster, act.node, act.id), dump_plain(act))

    def keep(self, act: Act) -> None:
        """Write the act's new state to its record. Raises StoreError."""
        self.store.put(act_key(act.cluster, act.node, act.id), dump_plain(act))

    def acts(self, node: str = "") -> tuple[Act, ...]:
        """The records of all acts, or of one node's, oldest first. Raises JournalError, StoreError."""
        acts = []
        for key in self.store.list(acts_folder(self.cluster, node)):
            data = self.store.get(key)
            if data is not None:
                acts.append(_decoded(Act, data, self.store.location(key)))
        return tuple(sorted(acts, key=lambda act: (act.intended_at, act.id)))

    def _read(self) -> tuple[Journal, bytes | None]:
        data = self.store.get(journal_key(self.cluster))
        if data is None:
            return Journal(SCHEMA_VERSION, self.cluster), None
        return _decoded(Journal, data, self.store.location(journal_key(self.cluster))), data


def with_act(journal: Journal, act: Act) -> Journal:
    """The journal with this act added, or in its new state. Pure."""
    if any(other.id == act.id for other in journal.acts):
        return replace(journal, acts=tuple(act if other.id == act.id else other for other in journal.acts))
    return replace(journal, acts=(*journal.acts, act))


def with_cases(journal: Journal, cases: Iterable[Case]) -> Journal:
    """The journal with these cases open, but for those that it has, or had. Pure."""
    earlier = {(opened.gate_id, opened.node) for opened in journal.cases}
    earlier |= {(act.gate_id, act.node) for act in journal.acts}
    new = tuple(case for case in cases if (case.gate_id, case.node) not in earlier)
    return replace(journal, cases=(*journal.cases, *new)) if new else journal


def without_case(journal: Journal, case: Case) -> Journal:
    """The journal with this case closed. Its acts stay, because they count. Pure."""
    cases = tuple(old for old in journal.cases if (old.gate_id, old.node) != (case.gate_id, case.node))
    questions = tuple(
        other for other in journal.questions if (other.gate_id, other.node) != (case.gate_id, case.node)
    )
    return replace(journal, cases=cases, questions=questions)


def forget(journal: Journal, now: float) -> Journal:
    """The journal without final acts of closed cases that count for no limit any more. Pure."""
    open_cases = {(case.gate_id, case.node) for case in journal.cases}
    acts = tuple(
        act
        for act in journal.acts
        if (act.gate_id, act.node) in open_cases or not act.state.final or act.intended_at > now - DAY_S
    )
    return replace(journal, acts=acts) if len(acts) < len(journal.acts) else journal


def act_id(gate_id: str, node: str, rung: Rung, number: int) -> str:
    """The id of an act: the gate, the node, what is done, and the how-manieth time."""
    return f"{gate_id}-{node}-{rung.value}-{number}"


def in_state(act: Act, state: ActState, now: float, text: str = "") -> Act:
    """The act in another state. Pure."""
    return replace(act, state=state, changed_at=now, said=text or act.said)


def _readable(journal: Journal, path: str) -> bytes:
    """The journal as it is written. Raises JournalError if it could not be read again, which would stop everything."""
    data = dump_plain(journal)
    try:
        decode(Journal, parse_json(data, FILE_BYTES))
    except DecodeError as error:
        raise JournalError(f"{path} was not written, because it could not be read again: {error}") from error
    return data


def _decoded(document: type[T], data: bytes, path: str) -> T:
    try:
        return decode(document, parse_json(data, FILE_BYTES))
    except DecodeError as error:
        message = f"{path} cannot be read: {error}. Nothing is done in this cluster until a person has looked at the file."
        raise JournalError(message) from error
