"""A node's report carries what the watch of its machine left open, in the first write and as it is at the last one."""

from __future__ import annotations

import os
from pathlib import Path
from unittest.mock import Mock

import pytest

from checks import bundle as bundles
from checks.documents import open_findings as documents
from checks.documents.open_findings import FindingKey, OpenFinding, OpenFindings
from checks.documents.report import load_node
from checks.facts.builtin import builtin
from checks.judge.open_findings.prior_findings import CHECK
from checks.judge.verdict import decide
from checks.merge import merge
from checks.model import Action, Cause, Finding, FindingKind, Level, Profile
from checks.process.machine_state import FINDINGS, VARIABLE
from checks.runner import node_run
from checks.runner.journal import ReportJournal
from checks.runner.node_context import NodeContext
from checks.runner.single_node import declare, read_policy
from tests.checks.local_policy import lone_node

OPEN = OpenFinding(
    FindingKey("disk.smart", "nvme0", "failing", Cause.HARDWARE), Level.FAIL, Action.REPLACE, "has a failing disk", "",
    True, "watch", 100.0, 200.0, 0.0, "b",
)  # fmt: skip


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The machine's state."""
    folder = tmp_path / "state"
    folder.mkdir()
    monkeypatch.setenv(VARIABLE, str(folder))
    return folder


def context(tmp_path: Path) -> NodeContext:
    policy = read_policy(None, declare("cpu", 1, builtin()), announced=False)
    made = bundles.make("gate-1", declare("cpu", 1, builtin()), Profile.QUICK, policy, builtin())
    return lone_node(tmp_path, made)


def told(tmp_path: Path) -> list[Finding]:
    """What the verdict on the node's report says of what was open, through the file and the merge."""
    alone = context(tmp_path)
    journal = ReportJournal(tmp_path / "node-0.json", node_run.first_report(alone, "one"))
    journal.write()
    data = journal.path.read_bytes()
    assert load_node(data).node.open_findings == journal.report.node.open_findings
    report = merge(alone.bundle, "one", {"node-0": data}, "2026-11-26T08:00:00Z")
    found = decide(report, alone.bundle.policy, builtin()).findings
    return [one for one in found if one.kind is FindingKind.OPEN_BEFORE or one.check == CHECK]


def test_without_a_watch_there_is_nothing(tmp_path: Path, state: Path) -> None:
    """Nor anything that refuses where it found nothing."""
    assert [] == told(tmp_path)
    state.rmdir()
    assert [] == told(tmp_path)
    state.mkdir()
    (state / FINDINGS).write_bytes(documents.dump(OpenFindings(opened_total=5, closed_total={"gate": 5})))
    assert [] == told(tmp_path)


def test_open_finding_reaches_the_verdict(tmp_path: Path, state: Path) -> None:
    (state / FINDINGS).write_bytes(documents.dump(OpenFindings(open=(OPEN,))))
    [found] = told(tmp_path)

    assert (Level.FAIL, "disk.smart", "node-0") == (found.level, found.check, found.subject)


def test_finding_of_the_watch_during_the_checks_is_in_the_report(
    tmp_path: Path, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The report is as old as its last write, so that what was found before that would not count as found since."""
    findings = OpenFindings(open=(OPEN,))
    monkeypatch.setattr(node_run, "ForkServer", Mock())
    monkeypatch.setattr(
        node_run, "_run_stages", lambda *ignored: (state / FINDINGS).write_bytes(documents.dump(findings))
    )
    journal = node_run.run_beside(context(tmp_path), "one", tmp_path, Mock())

    assert documents.dump(findings).decode() == load_node(journal.data).node.open_findings


def test_a_file_that_does_not_answer_stops_no_gate(tmp_path: Path, state: Path) -> None:
    """A pipe without a writer blocks who opens it, as a disk that hangs does: the node cannot tell, and begins."""
    os.mkfifo(state / FINDINGS)
    [found] = told(tmp_path)

    assert (Cause.EVIDENCE, CHECK) == (found.cause, found.check)
    os.close(os.open(state / FINDINGS, os.O_WRONLY | os.O_NONBLOCK))  # the thread that waits ends


@pytest.mark.parametrize(
    "data", [b"", b"{", b"\xff\xfe", b'{"schema_version": 1, "open": [{"key": 5}]}', None]
)
def test_a_file_that_cannot_be_read_is_said(tmp_path: Path, state: Path, data: bytes | None) -> None:
    """Whatever is wrong with it, or a folder in its place."""
    if data is None:
        (state / FINDINGS).mkdir()
    else:
        (state / FINDINGS).write_bytes(data)
    [found] = told(tmp_path)

    assert (Level.FAIL, Cause.EVIDENCE, CHECK) == (found.level, found.cause, found.check)
    assert FINDINGS in found.message
