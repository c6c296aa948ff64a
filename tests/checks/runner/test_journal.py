"""The node report on disk."""

from __future__ import annotations

import gzip
import os
import time
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest

from checks.culprit.rounds import planned
from checks.culprit.test_rows import FINE, Trial, metrics
from checks.documents.report import NODE_REPORT_BYTES, NodeReport, dump_plain, load_node
from checks.facts import profile_options
from checks.model import SCHEMA_VERSION, Declared, Node, Observation, Outcome, Profile, rank_subject
from checks.runner import journal as journals
from checks.runner.deadline import limited
from checks.runner.journal import ReportJournal, ReportWriteError
from checks.value_types import DecodeError


def journal(path: Path) -> ReportJournal:
    """A journal of node-0."""
    node = Node("node-0", 0, "t", "c", False, {"host": "h"})
    declared = Declared("cpu", 1, 0, 1)
    return ReportJournal(path, NodeReport(SCHEMA_VERSION, "g", "", Profile.QUICK, declared, (), node, ()))


def row(check: str, evidence: str = "") -> Observation:
    """An observation of node-0."""
    return Observation(check, "node-0", Outcome.MEASURED, 0.1, {"x": 1.0}, None, "", evidence)


def test_each_observation_is_on_disk_when_add_returns(tmp_path: Path) -> None:
    """A node that dies now leaves what it had measured, and an incomplete mark."""
    made = journal(tmp_path / "nodes" / "node-0.json")
    made.add([row("a.a")])
    read = load_node(made.path.read_bytes())

    assert (["a.a"], False) == ([o.check for o in read.observations], read.node.complete)


def test_long_evidence_is_cut_and_kept_whole_beside_the_report(tmp_path: Path) -> None:
    """The observation bears the digest of the file."""
    made = journal(tmp_path / "attempt" / "nodes" / "node-0.json")
    made.add([row("a.a", "e" * 10_000)])
    (kept,) = load_node(made.path.read_bytes()).observations
    whole = gzip.decompress((tmp_path / "attempt" / "evidence" / f"{kept.evidence_sha256}.gz").read_bytes())

    assert (True, "e" * 10_000) == (kept.evidence_truncated, whole.decode())
    assert len(kept.evidence) <= 4096


def test_finish_marks_the_report_complete(tmp_path: Path) -> None:
    """Only the last write does."""
    made = journal(tmp_path / "node-0.json")
    made.finish(complete=True)

    assert load_node(made.path.read_bytes()).node.complete


def test_a_report_that_is_too_long_loses_evidence_never_observations(tmp_path: Path) -> None:
    """A node report has a limit; what is dropped is flagged."""
    made = journal(tmp_path / "node-0.json")
    made.add([row(f"a.c{i}", "e" * 4000) for i in range(NODE_REPORT_BYTES // 4000)])
    data = made.path.read_bytes()
    rows = load_node(data).observations

    assert len(data) <= NODE_REPORT_BYTES and len(rows) == NODE_REPORT_BYTES // 4000
    assert any(o.evidence_truncated and not o.evidence for o in rows)


@pytest.mark.parametrize("field", ["seconds", "started_s"])
@pytest.mark.parametrize("number", [-1.0, 1.7e9])
def test_a_time_that_the_merged_report_may_not_have_is_refused(
    tmp_path: Path, field: str, number: float
) -> None:
    """A clock that leaps from 1970 while the checks run made the report of all nodes unreadable after a GO."""
    made, changed = journal(tmp_path / "node-0.json"), {field: number}
    made.add([replace(row("a.a"), **changed)])  # type: ignore[arg-type]

    with pytest.raises(DecodeError, match=field):
        load_node(made.path.read_bytes())


@pytest.mark.parametrize("profile", Profile)
@pytest.mark.parametrize("check", ["collective.pairs", "nccl.pairs"])
def test_the_pair_tests_of_the_largest_cluster_leave_room_for_the_rest(check: str, profile: Profile) -> None:
    """Of 8 GPUs a node, with numbers as clocks give them: a third of a node report at most, because doubtful pairs are measured
    again, and a report that is too long would be no report of a healthy node.
    """
    options = profile_options.options(check, profile, {})
    nodes, inexact = int(options["all_pairs_nodes"]), 1 / 3
    plan = planned(nodes, 8, nodes, int(options["matchings"]))
    counts: tuple[int | None, int | None] = (1234, 0) if check == "collective.pairs" else (None, None)
    tests = [
        Trial(peer, FINE, 40 + inexact, 60 + inexact, 700 + inexact, counts[1], 0, at, at * inexact, *counts, 256 << 20)
        for at, one in enumerate(plan) if (peer := one.partner(0)) is not None
    ]  # fmt: skip
    made = metrics(tests, len(plan), 0, check == "collective.pairs")
    subjects = [rank_subject("node-511", rank) for rank in range(8)]
    rows = tuple(Observation(check, subject, Outcome.MEASURED, 1.0, made) for subject in subjects)
    node, declared = Node("node-511", 511, "t", "c", True, {}), Declared("p5.48xlarge", nodes, 8, 8)
    report = NodeReport(SCHEMA_VERSION, "g", "", profile, declared, (), node, rows)

    assert len(tests) >= nodes - 1
    assert 3 * len(dump_plain(report)) <= NODE_REPORT_BYTES


def test_a_folder_that_cannot_be_made_is_a_journal_error(tmp_path: Path) -> None:
    """The message names the path and the remedy."""
    (tmp_path / "file").write_text("")

    with pytest.raises(ReportWriteError, match="another --out"):
        journal(tmp_path / "file" / "node-0.json").write()


def test_no_temporary_file_is_left(tmp_path: Path) -> None:
    """Whole files only."""
    journal(tmp_path / "node-0.json").write()

    assert ["node-0.json"] == [p.name for p in tmp_path.iterdir()]


def test_a_file_system_that_does_not_answer_is_waited_for_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A FIFO without a reader holds whoever opens it, as a dead file server does; the report is still known."""
    monkeypatch.setattr(journals, "WRITE_S", 0.3)
    monkeypatch.setattr(journals, "limited", waits := Mock(side_effect=limited))
    monkeypatch.setattr("checks.process.whole_file.secrets.token_hex", lambda size: "fixed")
    made = journal(tmp_path / "attempt" / "nodes" / "node-0.json")
    made.path.parent.mkdir(parents=True)
    fifo = made.path.with_name(f".{made.path.name}.{os.getpid()}-fixed.tmp")
    os.mkfifo(fifo)
    for number in range(5):
        with pytest.raises(ReportWriteError, match="does not respond"):
            made.add([row(f"a.a{number}")])
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)  # the file system answers again
    while made._writing.is_set():
        time.sleep(0.01)
    os.close(reader)
    made.finish(complete=True)

    assert 2 == waits.call_count  # the write that hung, and the one after the file system answered
    assert 5 == len(load_node(made.data).observations)
    assert load_node(made.path.read_bytes()).node.complete
