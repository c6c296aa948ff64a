"""What a gate offers to its nodes is made of the store as it is now. What is missing, cut or forged in it certifies nothing."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

import pytest

from checks.documents.certificates import NO_CERTIFICATES
from checks.documents.report import digest, dump, dump_plain
from checks.judge.verdict import decide
from checks.model import Report
from tasks.render.findings import verdict_json
from tasks.store import certificates, records
from tasks.store.base import Store
from tasks.store.certificates import offer, offered
from tasks.store.folder import FolderStore
from tasks.store.layout import certificates_key, record_key, report_key, verdict_key
from tasks.store.records import record_of
from tests.certified_machines import COSTLY, FACTS, THEN, PastGate, past, steady

NOW = "now-20261126-120000-abcd"


@pytest.fixture
def store(store: FolderStore) -> Store:
    """A store with two gates of one machine."""
    return filled(store)


def filled(made: Store) -> Store:
    """The store with two gates of one machine, the younger of which began an hour ago."""
    begun = [time.strftime("%Y%m%d-%H%M%S", time.gmtime(time.time() - ago_s)) for ago_s in (7200, 3600)]
    names = [f"sample-{stamp}-000{number}" for number, stamp in enumerate(begun)]
    gates = tuple(PastGate(name, 900.0 + 1000.0 * number) for number, name in enumerate(names))
    for gate in past(steady(1.0, gates)):
        assert gate is not None
        keep(made, gate.document)
    return made


def keep(store: Store, report: Report) -> None:
    """What a gate keeps of a report."""
    data = dump(report)
    verdict = decide(report, THEN, FACTS, report_digest=digest(data))
    store.put(report_key(report.gate_id), data)
    store.put(verdict_key(report.gate_id), dump_plain(verdict_json(verdict)))
    made = record_of(report.gate_id, report, verdict, report_key(report.gate_id), time.time(), "sample", "c")
    records.keep(store, made)


def gates(store: Store) -> list[str]:
    """The ids of the kept gates, the oldest first."""
    return sorted(records.recorded(store))


def found(store: Store) -> list[tuple[str, tuple[str, ...], tuple[str, ...]]]:
    """Gate, checks and later gates of each certificate that is offered."""
    made = offer(store, NOW, THEN, FACTS, None)
    assert made == offered(store, NOW)
    return [(one.gate_id, tuple(one.checks), one.later) for one in made.certificates]


def test_the_newest_gate_certifies_and_what_is_offered_is_kept(store: Store) -> None:
    assert [(gates(store)[1], COSTLY, ())] == found(store)
    assert store.get(certificates_key(NOW)) is not None


def spoil(change: Callable[[bytes], bytes | None], key: Callable[[str], str]) -> Callable[[Store, str], None]:
    """Replaces a file of a gate, or removes it."""

    def spoiled(store: Store, gate: str) -> None:
        data = change(store.get(key(gate)) or b"")
        store.delete(key(gate)) if data is None else store.put(key(gate), data)

    return spoiled


@pytest.mark.parametrize(
    "spoiled",
    [
        spoil(lambda data: data[:-200], report_key),
        spoil(lambda data: b"", report_key),
        spoil(lambda data: None, report_key),
        spoil(lambda data: None, verdict_key),
        spoil(lambda data: data[:50], verdict_key),
        spoil(lambda data: data[:50], record_key),
        spoil(lambda data: b"{}", record_key),
    ],
)
def test_a_gate_that_is_not_whole_certifies_nothing_and_ends_what_was_before(
    store: Store, spoiled: Callable[[Store, str], None]
) -> None:
    older, newer = gates(store)
    spoiled(store, newer)
    assert [] == found(store)
    spoiled(store, older)
    assert [] == found(store)


def test_a_report_that_was_changed_after_its_verdict_certifies_nothing(store: Store) -> None:
    """The digest of the verdict is that of other bytes."""
    older, newer = gates(store)
    data = store.get(report_key(newer)) or b""
    store.put(report_key(newer), data.replace(b'"seconds":[1.0]', b'"seconds":[2.0]'))

    assert [(older, COSTLY, (newer,))] == found(store)


def test_a_report_under_another_gates_name_certifies_nothing(store: Store) -> None:
    older, newer = gates(store)
    for key in (report_key, verdict_key):
        store.put(key(newer), store.get(key(older)) or b"")

    assert newer not in [gate for gate, _, _ in found(store)]


def test_a_gate_whose_traces_are_gone_is_unknown_to_the_store_and_not_to_the_machine(store: Store) -> None:
    """The older certificate names no later gate; the machine knows that there was one (test_decision)."""
    older, newer = gates(store)
    for key in (report_key, verdict_key, record_key):
        store.delete(key(newer))

    assert [(older, COSTLY, ())] == found(store)


def test_a_gate_that_used_a_pass_again_measured_nothing(store: Store) -> None:
    older, newer = gates(store)
    known = records.read(store, newer)
    assert known is not None
    records.keep(store, replace(known, reused=older))

    assert [(older, COSTLY, ())] == found(store)


def test_offers_that_are_too_large_or_of_gates_that_are_too_old_are_cut(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(certificates, "OFFERED_BYTES", 100)
        assert [] == found(store)
    later = time.time() + 1e6
    monkeypatch.setattr("tasks.store.certificates.time.time", lambda: later)
    assert [] == found(store)


def test_unreadable_offer_gives_no_certificates(store: Store) -> None:
    assert NO_CERTIFICATES == offered(store, "another-gate")
    store.put(certificates_key(NOW), b"{")
    assert NO_CERTIFICATES == offered(store, NOW)
