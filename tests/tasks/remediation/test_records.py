"""Journal and records in a real store: what is written is read again, nobody overwrites another, and a broken one stops everything."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import pytest

from tasks.machines.base import Rung
from tasks.remediation import records
from tasks.remediation.drive import close_breaker
from tasks.remediation.model import ActState, Breaker, Journal, Proof
from tasks.store.folder import FolderStore
from tasks.store.layout import journal_key
from tests.tasks.remediation.simulated import World
from tests.tasks.remediation.test_steps import FOUND, NOW, an_act

CASES = World(1).condemn("n1", "n2")


def records_in(folder: Path) -> records.Records:
    """The records of one cluster in a store of its own."""
    return records.Records(FolderStore(folder), "sim")


def test_records_and_journal_are_read_as_written(tmp_path: Path) -> None:
    """The journal, and the records of all acts in their order."""
    kept = records_in(tmp_path)
    act = an_act(Rung.RECHECK, proof=Proof.PASSED, found=FOUND, measured_at=NOW)
    later = an_act(Rung.RETURN, at=NOW + 1)
    kept.change(lambda journal: records.with_act(records.with_cases(journal, CASES), act), NOW)
    assert kept.create(later) and kept.create(act)

    assert (CASES, (act,), NOW) == (kept.journal().cases, kept.journal().acts, kept.journal().written_at)
    assert (act, later) == kept.acts() == kept.acts("n1")
    assert () == kept.acts("n2")


def test_a_record_is_created_once(tmp_path: Path) -> None:
    """Whoever comes second does nothing."""
    kept, act = records_in(tmp_path), an_act(Rung.REBOOT, ActState.INTENDED)

    assert kept.create(act)
    assert not kept.create(replace(act, writer="another"))
    kept.keep(records.in_state(act, ActState.ACCEPTED, NOW + 5, "rebooting"))
    (one,) = kept.acts()
    assert ("w", ActState.ACCEPTED, NOW + 5, "rebooting") == (one.writer, one.state, one.changed_at, one.said)


def test_processes_that_write_at_once_lose_nothing(tmp_path: Path) -> None:
    """Each repeats its change on what the other wrote."""
    kept = records_in(tmp_path)

    def write(number: int) -> None:
        act = an_act(Rung.FENCE, number=number)
        records_in(tmp_path).change(lambda journal: records.with_act(journal, act), NOW)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(1, 9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert list(range(1, 9)) == sorted(act.number for act in kept.journal().acts)


@pytest.mark.parametrize(
    "data", [b"", b"{", b"[]", b'{"schema_version": 1}', b'{"schema_version": 2, "cluster": "sim"}']
)
def test_a_journal_that_cannot_be_read_stops_everything(tmp_path: Path, data: bytes) -> None:
    """It is not written anew: limits are counted from it."""
    kept = records_in(tmp_path)
    kept.store.put(journal_key("sim"), data)

    for act in (kept.journal, lambda: kept.change(lambda journal: records.with_cases(journal, CASES), NOW)):
        with pytest.raises(records.JournalError, match="until a person has looked"):
            act()
    assert data == kept.store.get(journal_key("sim"))


@pytest.mark.parametrize("node", ["../n1", "n" * 254, "n 1"])
def test_a_journal_that_could_not_be_read_again_is_not_written(tmp_path: Path, node: str) -> None:
    """A report with a strange name of a node would stop all remediation of the cluster."""
    kept = records_in(tmp_path)
    kept.change(lambda journal: records.with_cases(journal, CASES), NOW)

    with pytest.raises(records.JournalError, match="was not written"):
        kept.change(
            lambda journal: records.with_cases(journal, (replace(CASES[0], node=node, gate_id="g9"),)), NOW
        )
    assert CASES == kept.journal().cases


def test_acts_of_nodes_with_long_names_are_read_again(tmp_path: Path) -> None:
    """A name of a node may have 253 characters, and an act's id has the gate's as well."""
    kept, node = records_in(tmp_path), "n" * 200
    act = an_act(Rung.FENCE, node=node, id=records.act_id(f"{'g' * 40}", node, Rung.FENCE, 1))
    kept.change(lambda journal: records.with_act(journal, act), NOW)

    assert (act,) == kept.journal().acts


def test_a_change_that_raises_writes_nothing(tmp_path: Path) -> None:
    """The decision is repeated inside of it."""
    kept = records_in(tmp_path)

    def change(journal: Journal) -> Journal:
        raise ValueError

    with pytest.raises(ValueError):
        kept.change(change, NOW)
    assert kept.store.get(journal_key("sim")) is None


def test_cases_are_opened_once_and_their_acts_stay() -> None:
    """An old event does not open a case that was closed."""
    journal = records.with_cases(Journal(1, "sim"), CASES)
    assert journal == records.with_cases(journal, CASES)
    acted = records.with_act(journal, an_act(Rung.FENCE))
    closed = records.without_case(acted, CASES[0])

    assert CASES[1:] == closed.cases
    assert acted.acts == closed.acts
    assert CASES[1:] == records.with_cases(closed, CASES).cases


def test_only_what_counts_for_no_limit_is_forgotten() -> None:
    """Acts of open cases, acts that have not ended, and those of the last day stay."""
    old = an_act(Rung.FENCE, at=NOW - 86_401, gate_id="g0", id="a")
    young = replace(old, id="b", intended_at=NOW - 86_399)
    unsettled = replace(old, id="c", state=ActState.ACCEPTED)
    ours = replace(old, id="d", gate_id="g1")
    journal = Journal(1, "sim", CASES[:1], (old, young, unsettled, ours))

    assert ["b", "c", "d"] == [act.id for act in records.forget(journal, NOW).acts]


def test_a_person_closes_the_breaker_once(tmp_path: Path) -> None:
    """Who it was is kept; one that is closed cannot be closed."""
    kept = records_in(tmp_path)
    with pytest.raises(records.JournalError, match="is not open"):
        close_breaker(kept, "jdoe", NOW)
    kept.change(lambda journal: replace(journal, breaker=Breaker(opened_at=NOW)), NOW)
    close_breaker(kept, "jdoe", NOW + 1)
    breaker = kept.journal().breaker

    assert (False, NOW + 1, "jdoe") == (breaker.is_open, breaker.closed_at, breaker.closed_by)
