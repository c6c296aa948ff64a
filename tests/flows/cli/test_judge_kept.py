"""`prelaunch judge --kept` of a report in a gate's folder: the page begins with how the gate ended, as the gate's own page does."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from checks.documents.report import dump_plain
from checks.model import Answer, Report
from tasks.gate.outcome import Decision, Ending, GateOutcome, JudgedReport, Training, outcome_summary
from tasks.gate.question import AnswerChannel, ApprovalAction, ApprovalAnswer
from tasks.launchers.base import JobState
from tasks.store.folder import FolderStore
from tests.flows.cli.conftest import Run
from tests.flows.cli.test_judge import BAD
from tests.sample_reports import healthy, verdict_of
from tests.tasks.kept_gates import gate_id, keep

WHY = "node-1, rank 3: RuntimeError: my loss exploded"
FAILED = GateOutcome(
    gate_id(0), Ending.JOB_FAILED, Decision.LAUNCHED, None, Training("t-1", JobState.FAILED, "exit 1", WHY), WHY
)  # fmt: skip
NO = ApprovalAnswer(
    1, gate_id(0), "k", ApprovalAction.BLOCK, "ana", AnswerChannel.PREFECT, True, "not tonight", 1.0
)
HOSTILE = "<script>alert(1)</script>\x1b[31m [x](http://evil) " + "A" * 10_000


def folder_of(tmp_path: Path, report: Report, outcome: GateOutcome | None, **changes: object) -> Path:
    """The folder of a gate, as the gate keeps it."""
    store = FolderStore(tmp_path / "store")
    keep(store, 0, report)
    folder = store.root / "gates" / gate_id(0)
    if outcome is not None:
        judged = JudgedReport(report, verdict_of(report))
        summary = outcome_summary(replace(outcome, judged=judged))
        (folder / "outcome.json").write_bytes(dump_plain({**summary, "cluster": "c", "told": [], **changes}))
    return folder


def first_lines(run: Run, folder: Path) -> list[str]:
    return run("judge", "--kept", folder, "--format", "text").out.splitlines()


def test_a_training_that_failed_stands_at_the_head(run: Run, tmp_path: Path) -> None:
    """With its cause and what to do, in each format. The verdict before it is one of checks, and the exit code is the verdict's."""
    folder, page = folder_of(tmp_path, healthy(), FAILED), tmp_path / "page.html"
    text = run("judge", "--kept", folder, "--format", "text")
    markdown, junit = (run("judge", "--kept", folder, "--format", form).out for form in ("markdown", "junit"))
    run("judge", "--kept", folder, "--html", page)
    head = page.read_text().partition("<main>")[0]

    assert f"TRAINING FAILED sample: {WHY}" == text.out.splitlines()[0] and 0 == text.code
    assert "This condemns no node." in text.out and "Before that, the checks: PASS" in text.out
    assert "TRAINING FAILED sample" in markdown.splitlines()[0] and 'type="training"' in junit
    assert '<header class="answer fail">' in head and f">TRAINING FAILED sample: {WHY}</h1>" in head


@pytest.mark.parametrize(
    ("outcome", "first"),
    [
        (replace(FAILED, ending=Ending.CANCELLED, reason="cancelled by SIGTERM after the verdict GO", training=None),
         "CANCELLED sample: cancelled by SIGTERM after the verdict GO"),
        (replace(FAILED, ending=Ending.NO_CAPACITY, decision=Decision.NOT_LAUNCHED, reason="no machines", training=None),
         "NOT LAUNCHED sample: no machines"),
        (replace(FAILED, ending=Ending.VERDICT, decision=Decision.REFUSED, answer=NO, training=None,
                 reason="ana refused (not tonight)"),
         "NO-GO sample: ana refused (not tonight)"),
    ],
)  # fmt: skip
def test_every_other_end_is_the_first_line_too(
    run: Run, tmp_path: Path, outcome: GateOutcome, first: str
) -> None:
    """Cancelled, without machines, refused by a person."""
    assert first == first_lines(run, folder_of(tmp_path, healthy(), outcome))[0]


def test_a_refusal_says_that_the_training_was_not_started(run: Run, tmp_path: Path) -> None:
    """Where the request asked for it."""
    outcome = replace(FAILED, ending=Ending.VERDICT, decision=Decision.REFUSED, training=None)
    folder = folder_of(tmp_path, BAD, outcome)
    before = "\n".join(first_lines(run, folder))
    (folder / "request.json").write_text('{"gate_file": "g.toml", "launch": true}')

    assert "Training was not started." not in before
    assert "Training was not started." in "\n".join(first_lines(run, folder))


def test_another_verdict_with_which_the_gate_ended_is_said(run: Run, tmp_path: Path) -> None:
    """The nodes of the training were other ones and were checked again: verdict.json is of the first ones."""
    why = "the training got other machines than those that passed; they were checked again: NO-GO sample: node-1 is slow"
    outcome = replace(FAILED, ending=Ending.VERDICT, decision=Decision.REFUSED, training=None, reason=why)
    lines = first_lines(run, folder_of(tmp_path, healthy(), outcome, answer="no_go"))

    assert f"NO-GO sample: {why}" == lines[0] and "Before that, the checks: PASS" in "\n".join(lines)


def test_a_page_by_another_policy_says_the_end_beside_the_gates_own_answer(run: Run, tmp_path: Path) -> None:
    """Its headline is the new answer."""
    from tests.sample_reports import POLICY

    policy = tmp_path / "other.json"
    policy.write_bytes(dump_plain(replace(POLICY, name="other")))
    lines = run(
        "judge", "--kept", folder_of(tmp_path, healthy(), FAILED), "--policy", policy, "--format", "text"
    ).out.splitlines()

    assert lines[0].startswith("GO sample") and f"The gate itself ended as TRAINING FAILED: {WHY}" in lines[1]


def test_a_report_alone_and_a_gate_that_goes_on_are_as_before(run: Run, tmp_path: Path) -> None:
    """Nothing is said of an end that nobody kept."""
    folder = folder_of(tmp_path, healthy(), None)
    running = first_lines(run, folder)
    (folder / "verdict.json").unlink()
    alone = first_lines(run, folder)
    (folder / "outcome.json").write_bytes(b"{}")

    assert running[0].startswith("GO sample") and alone == first_lines(run, folder)
    assert not any("ended" in line for line in (*running[:4], *alone[:4]))


@pytest.mark.parametrize(
    ("written", "said"),
    [
        (b"{", "cannot be read"),
        (b"[1]", "cannot be read"),
        (b'{"ending": ["verdict"], "gate_id": "g"}', "cannot be read"),
        (b"\xff" * 100, "cannot be read"),
        (b"[" * 100_000, "cannot be read"),
        ({"gate_id": "another-gate"}, "is of another gate (another-gate)"),
        ({"gate_id": HOSTILE}, "is of another gate (&lt;script&gt;"),
        ({"training": {"state": "exploded"}}, "cannot be read"),
    ],
)  # fmt: skip
def test_a_damaged_or_foreign_end_is_not_believed(
    run: Run, tmp_path: Path, written: bytes | Mapping[str, object], said: str
) -> None:
    """The page is there, and says that nobody knows how the gate ended."""
    folder, page = folder_of(tmp_path, healthy(), FAILED), tmp_path / "page.html"
    kept = json.loads((folder / "outcome.json").read_text())
    data = written if isinstance(written, bytes) else json.dumps({**kept, **written}).encode()
    (folder / "outcome.json").write_bytes(data)
    run("judge", "--kept", folder, "--html", page)
    head = page.read_text().partition("<main>")[0]

    assert f"How the gate ended is not known: outcome.json beside the report {said}" in head.replace(
        "\n", " "
    )
    assert "TRAINING FAILED" not in head and "<script>alert" not in page.read_text()


@pytest.mark.parametrize(
    "written",
    [
        {"decision": "launched", "ending": "verdict", "answer": "no_go"},
        {"decision": "passed", "ending": "verdict", "answer": "go"},
        {"decision": "overridden", "ending": "verdict", "answer": "no_go"},
        {"decision": "refused", "ending": "verdict", "answer": "go", "reason": "all is well"},
    ],
)
def test_an_end_that_the_verdict_does_not_allow_is_not_believed(
    run: Run, tmp_path: Path, written: Mapping[str, object]
) -> None:
    """A refusal stays one."""
    lines = first_lines(run, folder_of(tmp_path, BAD, replace(FAILED, ending=Ending.VERDICT), **written))

    assert verdict_of(BAD).answer is Answer.NO_GO and lines[0].startswith("NO-GO sample: ")
    assert "outcome.json beside the report contradicts the verdict." in lines[1]


def test_a_page_of_a_kept_verdict_says_how_old_its_measurement_was(run: Run, tmp_path: Path) -> None:
    """When the gate judged is in its record; without one nobody knows the age, and today's is not taken for it."""
    folder = folder_of(tmp_path, replace(healthy(), measured_at="2025-11-18T08:00:00Z"), None)
    said = "The nodes were measured 3 days before this verdict, 2025-11-18 08:00 UTC."
    with_record = run("judge", "--kept", folder, "--format", "text").out
    for record in (tmp_path / "store" / "records").glob("*.json"):
        record.unlink()

    assert (
        said in with_record
        and "before this verdict" not in run("judge", "--kept", folder, "--format", "text").out
    )
