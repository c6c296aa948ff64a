"""The record on disk is that of unbroken rounds of one process, or it is not there."""

from __future__ import annotations

from pathlib import Path

from checks.documents.certificates import WatchRecord, load
from checks.documents.open_findings import OpenFinding, OpenFindings
from checks.documents.report import digest, dump_plain
from checks.facts.builtin import builtin
from checks.judge.open_findings.update import LatestEvidence
from checks.model import Observation, Outcome, Skip
from checks.process.machine_state import RECORD
from checks.runner.single_node import declare, read_policy
from checks.watch.loop import RecordFile
from checks.watch.rounds import RoundResult
from tests.checks.judge.open_findings.test_prior_findings import an_open

POLICY = read_policy(None, declare("cpu", 1, builtin()), announced=False)
MEASURED = Observation("system.clock", "node-0", Outcome.MEASURED, 0.1, {"wall_rate": 1.0})
SKIPPED = Observation("system.clock", "node-0", Outcome.SKIPPED, 0.1, {}, Skip.NOT_PERMITTED, "adjtimex")


def result(row: Observation = MEASURED, in_time: bool = True) -> RoundResult:
    """A round."""
    return RoundResult(1.0, 2.0, in_time, (row,), LatestEvidence(2.0, "watch", "boot", [], {}))


def kept(folder: Path) -> WatchRecord | None:
    """The record on disk."""
    try:
        return load(WatchRecord, (folder / RECORD).read_bytes())
    except FileNotFoundError:
        return None


def made(folder: Path) -> RecordFile:
    """The record of a new process."""
    return RecordFile(folder, "boot", "cpu", POLICY, builtin(), 60.0)


def rounds(record: RecordFile, *results: RoundResult, open_ones: tuple[OpenFinding, ...] = ()) -> None:
    """These rounds."""
    for one in results:
        record.begin()
        record.end(one, OpenFindings(open=open_ones))


def after_a_round(record: RecordFile, folder: Path) -> int:
    """How many rounds the record has after a clean one."""
    rounds(record, result())
    return found.rounds if (found := kept(folder)) else 0


def test_clean_rounds_make_a_record_of_their_policy(tmp_path: Path) -> None:
    rounds(made(tmp_path), result(), result(), result())
    found = kept(tmp_path)

    assert found is not None
    assert (3, "boot", digest(dump_plain(POLICY))) == (found.rounds, found.boot_id, found.policy)


def test_a_round_that_was_late_skipped_something_or_left_a_finding_open_leaves_none(tmp_path: Path) -> None:
    for bad, found_open in ((result(SKIPPED), ()), (result(in_time=False), ()), (result(), (an_open(),))):
        record = made(tmp_path)
        rounds(record, result(), result())
        assert kept(tmp_path) is not None
        rounds(record, bad, open_ones=found_open)
        assert kept(tmp_path) is None
        assert 1 == after_a_round(record, tmp_path)


def test_a_lost_round_ends_the_record(tmp_path: Path) -> None:
    record = made(tmp_path)
    rounds(record, result(), result())
    record.begin()
    record.lost()
    assert kept(tmp_path) is None

    assert 1 == after_a_round(record, tmp_path)


def test_a_new_process_continues_no_record(tmp_path: Path) -> None:
    """Nobody saw what was in between."""
    rounds(made(tmp_path), result(), result())
    again = made(tmp_path)
    assert kept(tmp_path) is None

    assert 1 == after_a_round(again, tmp_path)
