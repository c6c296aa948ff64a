"""What becomes of a gate: who may launch, what the outcome is, and how Prefect shows it."""

from __future__ import annotations

import asyncio
import json
import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from checks.exit_codes import Exit
from checks.model import Answer
from tasks import finish, judge
from tasks.gate.lease.lease import LeaseError, LeaseHeld
from tasks.gate.outcome import Decision, Ending, GateOutcome, Training, outcome_summary
from tasks.gate.progress import LiveProgress
from tasks.gate.question import AnswerChannel, ApprovalAction
from tasks.gate.session import Session
from tasks.gate.submission import PreflightFailed
from tasks.gate_file.model import Mode
from tasks.launch import LaunchResult, PoolLost
from tasks.launchers.base import (
    EngineUnavailable,
    JobState,
    LaunchRejected,
    NoCapacity,
    NotSubmitted,
    QuotaExceeded,
    UnseenJob,
)
from tasks.publish import PublishedReport
from tasks.render.context import GateHistory
from tasks.store.base import StoreError, StoreFull
from tasks.store.layout import outcome_key
from tests.sample_reports import healthy, wrong_sums
from tests.tasks.orchestration.server.test_http_client import status_error
from tests.tasks.sessions import CHECK_JOB, TRAIN_JOB, FakeEngine, answer, judged, listening, session

GO = judged(healthy(2, 1))
NO_GO = judged(wrong_sums(healthy(2, 1), "node-1/rank-1"))
ASK = replace(GO, verdict=replace(GO.verdict, answer=Answer.ASK))
CANNOT_TELL = replace(NO_GO, verdict=replace(NO_GO.verdict, answer=Answer.CANNOT_TELL))
PUBLISHED = PublishedReport("report", "html")
RUNS = LaunchResult(Training(TRAIN_JOB, JobState.RUNNING))
YES, NO = answer(), answer(ApprovalAction.BLOCK)
WRONG = "node-1, rank 1 computes wrong sums (12 wrong values in all_reduce)"
COUNTS = "2 of 2 nodes, 2 of 2 ranks, 17 of 17 observations"
NO_APPROVER = "the answer of ada (Slack) is not valid: ada is no approver"


@pytest.mark.parametrize(
    ("found", "said", "on_fail", "expected"),
    [
        (GO, None, "refuse", True),
        (NO_GO, None, "refuse", False),
        (NO_GO, YES, "refuse", False),
        (NO_GO, YES, "ask", True),
        (NO_GO, None, "ask", False),
        (NO_GO, NO, "ask", False),
        (ASK, YES, "refuse", True),
        (ASK, NO, "refuse", False),
        (ASK, replace(YES, note="ada is no approver"), "refuse", False),
        (CANNOT_TELL, None, "ask", False),
    ],
)
def test_launch_needs_a_go_or_a_valid_answer_that_the_policy_allows(
    tmp_path: Path, found: Any, said: Any, on_fail: str, expected: bool
) -> None:
    """A GO may; anything else needs a valid answer to launch, about a verdict on which a person decides."""
    assert expected is finish.may_launch(session(tmp_path, on_fail=on_fail), found, said)


def test_observe_mode_launches_whatever_the_verdict_is(tmp_path: Path) -> None:
    """And says that it observed."""
    one = session(tmp_path, mode=Mode.OBSERVE)
    outcome = finish.launched_outcome(one, NO_GO, PUBLISHED, None, replace(RUNS, rechecked=NO_GO))

    assert finish.may_launch(one, NO_GO, None)
    assert (Decision.OBSERVED, Exit.GO) == (outcome.decision, outcome.code)


@pytest.mark.parametrize(
    ("found", "said", "decision", "code", "reason"),
    [
        (NO_GO, None, Decision.REFUSED, Exit.NO_GO, f"NO-GO local: {WRONG}"),
        (CANNOT_TELL, None, Decision.CANNOT_TELL, Exit.CANNOT_TELL, f"CANNOT TELL local: {WRONG}"),
        (ASK, None, Decision.AWAITING, Exit.NO_GO, "ASK local"),
        (ASK, NO, Decision.REFUSED, Exit.NO_GO, "ada (Slack) refused (it is the clock)"),
        (GO, NO, Decision.REFUSED, Exit.NO_GO, f"ada (Slack) refused (it is the clock); {COUNTS}"),
        (ASK, answer(via=AnswerChannel.NOBODY, reason="time is up"), Decision.REFUSED, Exit.NO_GO, "time is up"),
        (ASK, replace(YES, note="ada is no approver"), Decision.REFUSED, Exit.NO_GO, NO_APPROVER),
    ],
)  # fmt: skip
def test_a_refusal_says_who_refused(
    tmp_path: Path, found: Any, said: Any, decision: Decision, code: Exit, reason: str
) -> None:
    """A person's answer makes it a refusal, whatever is judged by now."""
    outcome = finish.refused_outcome(session(tmp_path), found, PUBLISHED, said, "more")

    assert (decision, code, f"{reason} (more)") == (outcome.decision, outcome.code, outcome.reason)
    assert ("report", "html") == (outcome.report, outcome.html)


def test_a_gate_that_was_asked_for_a_verdict_only(tmp_path: Path) -> None:
    """GO is PASSED and exits with 0; anything else is what a refusal is."""
    one = session(tmp_path, launches=False)
    passed, refused = (finish.checked_outcome(one, found, PUBLISHED) for found in (GO, NO_GO))

    assert (Decision.PASSED, Exit.GO) == (passed.decision, passed.code)
    assert (Decision.REFUSED, Exit.NO_GO) == (refused.decision, refused.code)


def ended(state: JobState) -> LaunchResult:
    """A training that ended so."""
    return LaunchResult(Training(TRAIN_JOB, state, "exit 7"))


@pytest.mark.parametrize(
    ("seen", "said", "decision", "code", "reason"),
    [
        (RUNS, None, Decision.LAUNCHED, Exit.GO, None),
        (RUNS, YES, Decision.LAUNCHED, Exit.GO, None),
        (RUNS, replace(YES, override=True), Decision.OVERRIDDEN, Exit.GO, None),
        (replace(RUNS, ran=False), None, Decision.NOT_LAUNCHED, Exit.NO_GO, None),
        (replace(RUNS, rechecked=GO), None, Decision.LAUNCHED, Exit.GO, None),
        (replace(RUNS, rechecked=NO_GO), None, Decision.REFUSED, Exit.NO_GO, None),
        (replace(RUNS, rechecked=CANNOT_TELL), None, Decision.CANNOT_TELL, Exit.CANNOT_TELL, None),
        # Its heading says that a training failed; where it did something else, the reason says what.
        (ended(JobState.FAILED), None, Decision.LAUNCHED, Exit.JOB_FAILED, "exit 7"),
        (ended(JobState.CANCELLED), None, Decision.LAUNCHED, Exit.JOB_FAILED, "cancelled: exit 7"),
        (ended(JobState.UNKNOWN), None, Decision.LAUNCHED, Exit.JOB_FAILED, "unknown: exit 7"),
        (ended(JobState.SUCCEEDED), None, Decision.LAUNCHED, Exit.GO, None),
    ],
)
def test_the_outcome_of_a_training(
    tmp_path: Path, seen: LaunchResult, said: Any, decision: Decision, code: Exit, reason: str | None
) -> None:
    """It launched, it failed, or its own nodes refused it; the training is named in each."""
    outcome = finish.launched_outcome(session(tmp_path), GO, PUBLISHED, said, seen)

    assert (decision, code, seen.training) == (outcome.decision, outcome.code, outcome.training)
    assert reason in (None, outcome.reason)


def test_a_launch_against_the_verdict_names_the_person(tmp_path: Path) -> None:
    """And a PASS that was reused names its gate."""
    by = finish.launched_outcome(session(tmp_path / "a"), NO_GO, PUBLISHED, replace(YES, override=True), RUNS)
    reused = finish.launched_outcome(session(tmp_path / "b"), replace(GO, reused="g-0"), PUBLISHED, YES, RUNS)

    assert "(launched against the verdict, approved by ada (Slack): it is the clock)" in by.reason
    assert "(PASS of g-0 reused) (launched approved by ada (Slack): it is the clock)" in reused.reason


@pytest.mark.parametrize(
    ("error", "found", "ending", "decision", "code"),
    [
        (StoreError("full"), GO, Ending.VERDICT, Decision.CANNOT_TELL, Exit.CANNOT_TELL),
        (StoreError("full"), None, Ending.VERDICT, Decision.CANNOT_TELL, Exit.CANNOT_TELL),
        (StoreError("full"), NO_GO, Ending.VERDICT, Decision.REFUSED, Exit.NO_GO),
        (LeaseError("lost"), GO, Ending.VERDICT, Decision.CANNOT_TELL, Exit.CANNOT_TELL),
        (PreflightFailed("no quota"), None, Ending.REJECTED, None, Exit.REJECTED),
        (PreflightFailed("no quota"), GO, Ending.REJECTED, None, Exit.REJECTED),
        (LaunchRejected("wrong"), None, Ending.REJECTED, None, Exit.REJECTED),
        (NoCapacity("none"), None, Ending.NO_CAPACITY, None, Exit.NO_CAPACITY),
        (EngineUnavailable("down"), None, Ending.NO_CAPACITY, None, Exit.NO_CAPACITY),
        (EngineUnavailable("down"), NO_GO, Ending.VERDICT, Decision.REFUSED, Exit.NO_GO),
        (LaunchRejected("wrong"), GO, Ending.JOB_FAILED, Decision.NOT_LAUNCHED, Exit.JOB_FAILED),
        (NoCapacity("none"), GO, Ending.NO_CAPACITY, Decision.NOT_LAUNCHED, Exit.NO_CAPACITY),
        (QuotaExceeded("quota"), GO, Ending.NO_CAPACITY, Decision.NOT_LAUNCHED, Exit.NO_CAPACITY),
        (PoolLost("taken"), GO, Ending.JOB_FAILED, Decision.NOT_LAUNCHED, Exit.JOB_FAILED),
        (NotSubmitted("down"), GO, Ending.JOB_FAILED, Decision.NOT_LAUNCHED, Exit.JOB_FAILED),
        # Whoever reads "not launched" starts it a second time.
        (EngineUnavailable("down"), GO, Ending.JOB_FAILED, Decision.LAUNCHED, Exit.JOB_FAILED),
        (UnseenJob("it may run"), GO, Ending.JOB_FAILED, Decision.LAUNCHED, Exit.JOB_FAILED),
        (UnseenJob("it may run"), None, Ending.VERDICT, Decision.CANNOT_TELL, Exit.CANNOT_TELL),
    ],
)  # fmt: skip
def test_the_outcome_of_a_failure(
    tmp_path: Path, error: Exception, found: Any, ending: Ending, decision: Decision | None, code: Exit
) -> None:
    """By what failed and what was judged before; never a GO."""
    one = session(tmp_path)
    one.judged = found
    outcome = finish.failed_outcome(one, error, None if found is None else PUBLISHED)

    assert (ending, decision, code) == (outcome.ending, outcome.decision, outcome.code)
    assert str(error) in outcome.reason


@pytest.mark.parametrize(
    ("error", "facts", "decision", "code"),
    [
        (EngineUnavailable("down"), {"judged": GO, "trained": True}, Decision.LAUNCHED, Exit.JOB_FAILED),
        (status_error(503), {"judged": GO, "training": TRAIN_JOB, "trained": True}, Decision.LAUNCHED, Exit.JOB_FAILED),
        (PoolLost("gone"), {"judged": GO, "waiting_since": 1.0}, Decision.NOT_LAUNCHED, Exit.NO_CAPACITY),
        (LaunchRejected("wrong"), {"judged": NO_GO, "answer": YES}, Decision.NOT_LAUNCHED, Exit.JOB_FAILED),
        (LaunchRejected("wrong"), {"judged": NO_GO, "answer": NO}, Decision.REFUSED, Exit.NO_GO),
        (LaunchRejected("wrong"), {"judged": NO_GO, "mode": Mode.OBSERVE}, Decision.NOT_LAUNCHED, Exit.JOB_FAILED),
    ],
)  # fmt: skip
def test_failure_outcome_depends_on_the_progress_of_the_gate(
    tmp_path: Path, error: Exception, facts: dict[str, Any], decision: Decision, code: Exit
) -> None:
    """A training that ran was launched; a pool that expires while it waits is a lack of machines; an approval, or observe mode, makes
    the failure one of the launch.
    """
    one = session(tmp_path, mode=facts.get("mode", Mode.ENFORCE))
    for name in facts.keys() - {"mode"}:
        setattr(one, name, facts[name])
    outcome = finish.failed_outcome(one, error, PUBLISHED)

    assert (decision, code) == (outcome.decision, outcome.code)


def test_a_defect_is_no_verdict(tmp_path: Path) -> None:
    """Whatever broke, nothing is launched because of it."""
    outcome = finish.defect_outcome(session(tmp_path), KeyError("x"))

    assert (Decision.CANNOT_TELL, Exit.CANNOT_TELL, None) == (outcome.decision, outcome.code, outcome.judged)
    assert "KeyError" in outcome.reason


@pytest.mark.parametrize(
    ("ending", "decision", "found", "name", "level"),
    [
        (Ending.VERDICT, Decision.LAUNCHED, GO, "Launched", logging.INFO),
        (Ending.VERDICT, Decision.PASSED, GO, "Passed", logging.INFO),
        (Ending.VERDICT, Decision.OVERRIDDEN, NO_GO, "Overridden", logging.WARNING),
        (Ending.VERDICT, Decision.OBSERVED, NO_GO, "Observed", logging.WARNING),
        (Ending.VERDICT, Decision.REFUSED, NO_GO, "Refused", logging.ERROR),
        (Ending.VERDICT, Decision.CANNOT_TELL, CANNOT_TELL, "CannotTell", logging.WARNING),
        (Ending.VERDICT, Decision.AWAITING, ASK, "Awaiting", logging.WARNING),
        (Ending.VERDICT, None, None, "CannotTell", logging.WARNING),
        (Ending.NO_CAPACITY, Decision.NOT_LAUNCHED, GO, "NoCapacity", logging.WARNING),
        (Ending.NO_CAPACITY, None, None, "NoCapacity", logging.WARNING),
        (Ending.REJECTED, None, None, "Rejected", logging.WARNING),
        (Ending.JOB_FAILED, Decision.LAUNCHED, GO, "TrainingFailed", logging.ERROR),
        (Ending.JOB_FAILED, Decision.NOT_LAUNCHED, GO, "NotLaunched", logging.ERROR),
        (Ending.JOB_FAILED, Decision.REFUSED, GO, "Refused", logging.ERROR),
    ],
)
def test_prefect_shows_the_outcome_by_name(
    monkeypatch: pytest.MonkeyPatch, ending: Ending, decision: Any, found: Any, name: str, level: int
) -> None:
    """Green exactly where the exit code is 0; the last line of the log is the state's sentence, as loud as the end."""
    said: list[tuple[int, str]] = []
    monkeypatch.setattr(finish.LOG, "log", lambda loud, text: said.append((loud, text)))
    outcome = GateOutcome("g-1", ending, decision, found, None, "why")
    state = finish.failed_state(outcome, "local")

    assert (name, outcome.code is Exit.GO) == (state.name, state.is_completed())
    assert state.is_completed() or isinstance(state.data, finish.NotLaunched)
    assert [(level, state.message)] == said


@pytest.mark.parametrize(("error", "busy"), [(LeaseHeld("locked"), True), (LeaseError("broken"), False)])
def test_a_request_that_cannot_run_is_rejected(error: Exception, busy: bool) -> None:
    """A locked cluster is told apart from a mistake."""
    shown = LiveProgress(None)
    with listening(shown):
        state = finish.reject_request(error)

    assert ("Rejected", busy) == (state.name, isinstance(state.data, finish.ClusterBusy))
    assert shown.outcome is not None and shown.outcome.code is Exit.REJECTED


def test_outcome_summary_keeps_decision_answer_and_training() -> None:
    """What a later reader needs to know who decided what; nothing is invented where nothing was judged."""
    training = Training(TRAIN_JOB, JobState.FAILED, "exit 7", node="node-1")
    ended = GateOutcome("g-1", Ending.JOB_FAILED, Decision.LAUNCHED, GO, training, "why", answer=YES)
    full, empty = (
        outcome_summary(ended),
        outcome_summary(GateOutcome("g-1", Ending.REJECTED, None, None, None, "")),
    )

    assert (4, Answer.GO, YES) == (full["exit_code"], full["answer"], full["approval"])
    kept = {"job_id": TRAIN_JOB, "state": JobState.FAILED, "detail": "exit 7", "node": "node-1"}
    assert kept == full["training"]
    assert (2, None, "", None) == tuple(empty[key] for key in ("exit_code", "answer", "reused", "training"))


def test_capacity_failure_states_the_cost_of_the_waiting_machines(tmp_path: Path) -> None:
    """Somebody pays for them."""
    one = session(tmp_path)
    one.judged = GO
    one.ended(CHECK_JOB)
    outcome = finish.failed_outcome(one, NoCapacity("none"), PUBLISHED)

    assert "2 nodes waited for it for 0.0 minutes (0 USD)" in outcome.reason


def nobody_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """A gate ends without messages, without a page, and without a Prefect server."""

    async def later(*ignored: object) -> str:
        return ""

    for name in ("publish_ending", "notify_outcome", "publish_end"):
        monkeypatch.setattr(finish, name, later)
    monkeypatch.setattr(finish, "send_notification", lambda *ignored: "")
    monkeypatch.setattr(finish, "emit_end", lambda *ignored: None)


@pytest.mark.parametrize(
    ("decision", "ending", "reason", "shown"),
    [
        (Decision.LAUNCHED, Ending.JOB_FAILED, "exit code 1", "TRAINING FAILED local: exit code 1"),
        (Decision.NOT_LAUNCHED, Ending.NO_CAPACITY, "no machines", "NOT LAUNCHED local: no machines"),
        (Decision.LAUNCHED, Ending.VERDICT, "", ""),
    ],
)
def test_the_pages_say_how_the_gate_ended_where_that_is_more_than_the_verdict(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    decision: Decision,
    ending: Ending,
    reason: str,
    shown: str,
) -> None:
    """They are written again, headed by the line that every channel shows; of a GO that was launched they stand."""
    pages: list[str] = []

    async def written(one: Session, found: Any) -> str:
        pages.append(f"{found.context.first_line}|{found.context.failed}")
        return ""

    nobody_is_told(monkeypatch)
    monkeypatch.setattr(finish, "publish_ending", written)
    training = Training(TRAIN_JOB, JobState.FAILED) if decision is Decision.LAUNCHED else None
    made = GateOutcome("g-1", ending, decision, GO, training, reason, html="html")
    asyncio.run(finish.finish_gate(session(tmp_path), made))

    assert pages == ([f"{shown}|{reason}"] if shown else [])


@pytest.mark.parametrize(("decision", "voided"), [(Decision.LAUNCHED, False), (Decision.REFUSED, True)])
def test_a_gate_that_ends_badly_voids_an_older_pass(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, decision: Decision, voided: bool
) -> None:
    """It proves less than it did. Kept machines are released first, and the outcome that is stored says so."""
    voids: list[Session] = []

    nobody_is_told(monkeypatch)
    monkeypatch.setattr(judge, "void_pass", voids.append)
    one = session(tmp_path, FakeEngine(released="released after 3 min"))
    one.ended(CHECK_JOB)
    made = GateOutcome("g-1", Ending.VERDICT, decision, GO, None, "why", placement=one.placed)
    state = asyncio.run(finish.finish_gate(one, made))
    kept = json.loads(one.context.store.get(outcome_key("g-1")) or b"")

    assert (voided, not voided) == (voids == [one], state.is_completed())
    assert (decision.value, ["released after 3 min"]) == (kept["decision"], kept["placement"]["proof"])


def test_the_outcome_shows_what_the_page_shows_of_earlier_gates(tmp_path: Path) -> None:
    """A gate that published nothing of the past keeps what it had."""
    past = GateHistory(reports=3)
    found = finish.checked_outcome(session(tmp_path), GO, replace(PUBLISHED, past=past))
    assert found.judged is not None and found.judged.context.past is past

    had = replace(GO, context=replace(GO.context, past=past))
    kept = finish.checked_outcome(session(tmp_path / "other"), had, PUBLISHED)
    assert kept.judged is not None and kept.judged.context.past is past


def test_a_report_that_cannot_be_stored_is_told_with_what_was_observed(tmp_path: Path) -> None:
    """One sentence, the remedy of the store, and where the report is instead; no word about a cut report. A refusal stands."""
    one = session(tmp_path)
    one.judged = NO_GO
    error = StoreFull("the store /s is full (No space left on device). Free space there.", "It is in /tmp/x.")
    outcome = finish.failed_outcome(one, error, None)

    assert outcome.judged is not None
    (finding,) = (finding for finding in outcome.judged.verdict.findings if finding.check == "report")
    assert f"the report could not be stored: {error}" == finding.message == outcome.reason
    assert "It is in /tmp/x." == finding.evidence
    assert "Run the gate again when the store can be written." == finding.remedy
    assert NO_GO.verdict.coverage == outcome.judged.verdict.coverage
    assert (("node-1",), Answer.NO_GO) == (outcome.judged.verdict.condemned, outcome.judged.verdict.answer)
