"""What is kept of a gate that somebody cancelled."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock, MagicMock, Mock

import pytest

from flows import gate
from tasks import cancel, page
from tasks.cancel import end_cancelled_gate, note_interruption
from tasks.gate import session as sessions
from tasks.gate.cancellation import RunCancelled
from tasks.gate.outcome import Decision, Ending, GateOutcome, cancelled_by
from tasks.gate.progress import LiveProgress
from tasks.gate.session import Session
from tasks.gate_file.request import GateRequest
from tasks.launchers.base import JobState, JobStatus, LaunchError, Placement
from tasks.notifiers.base import Audience, Notification
from tasks.store.layout import lease_key, outcome_key, report_key, summary_key
from tests.tasks.sessions import CHECK_JOB, TRAIN_JOB, FakeEngine, listening, session
from tests.tasks.test_finish import GO, NO_GO

MAY, TRAINING = "its job, which may have trained,", "the training that it had started was"


@pytest.fixture(autouse=True)
def no_event(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is no Prefect server."""
    monkeypatch.setattr(cancel, "emit_cancelled", lambda session, why: None)


def cancelled(one: Session) -> str:
    """The message of a run that was cancelled in Prefect; its session is over."""
    with one:
        return str(asyncio.run(end_cancelled_gate(one)).message)


def training(folder: Path, engine: FakeEngine | None = None) -> Session:
    """A session that has started its training after a GO."""
    one = session(folder, engine)
    one.judged, one.training = GO, TRAIN_JOB
    one.remember(TRAIN_JOB)
    return one


def stored_outcome(one: Session) -> Any:
    """The outcome that is kept of the gate."""
    return json.loads(one.context.store.get(outcome_key(one.gate_id)) or b"null")


@pytest.mark.parametrize(
    ("judged_as", "job", "decision", "end"),
    [
        (None, None, None, "in Prefect; no job had been started"),
        (GO, None, None, "in Prefect after the verdict GO; no training was started"),
        (NO_GO, None, None, "in Prefect after the verdict NO-GO; no training was started"),
        (GO, "runs", "launched", f"in Prefect after the verdict GO; {TRAINING} ended"),
        (GO, "let go", "launched", f"in Prefect after the verdict GO; {TRAINING} left alone"),
    ],
)
def test_a_cancelled_run_keeps_how_it_ended(
    tmp_path: Path, judged_as: Any, job: str | None, decision: str | None, end: str
) -> None:
    """With the verdict where there was one. A training is ended before its log is kept, unless it is to outlive its gate."""
    one = session(tmp_path)
    one.judged, one.training = judged_as, TRAIN_JOB if job else ""
    if job == "runs":
        one.remember(TRAIN_JOB)
    one.context.store.put(report_key(one.gate_id), b"{}")
    with one:
        state = asyncio.run(end_cancelled_gate(one))
    summary = one.context.store.get(summary_key(one.gate_id))

    assert state.is_cancelled() and state.message is not None and state.message.endswith(f"cancelled {end}")
    ended = stored_outcome(one)
    assert ("cancelled", decision, 130) == (ended["ending"], ended["decision"], ended["exit_code"])
    assert (None if judged_as is None else state.message) == (
        summary.decode().splitlines()[0].removeprefix("# ") if summary else None
    )
    assert [("cancel", TRAIN_JOB)] * (job == "runs") == one.context.launcher.calls  # type: ignore[attr-defined]


@pytest.mark.parametrize("judged_as", [GO, NO_GO])
@pytest.mark.parametrize("by_command", [False, True])
@pytest.mark.parametrize(
    ("there", "here", "error", "end"),
    [
        ("t1/started/node-0", "", None, f"{TRAINING} ended"),
        ("", "t1/started/node-0", LaunchError("AccessDenied"), f"{TRAINING} ended"),
        ("", "t1/agent/node-0.json", LaunchError("AccessDenied"), f"{MAY} was ended"),
        ("", "", None, "no training was started"),
    ],
)
def test_nodes_that_decided_by_themselves_may_have_trained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, judged_as: Any, by_command: bool,
    there: str, here: str, error: LaunchError | None, end: str,
) -> None:  # fmt: skip
    """Whoever believes that nothing was started starts it twice. Their files count, and what is not known is said as that."""
    engine = FakeEngine(Placement.IN_JOB, files={there: b""} if there else {})
    if error is not None:
        monkeypatch.setattr(engine, "fetch", lambda name, into: (_ for _ in ()).throw(error))
    one = session(tmp_path, engine)
    one.judged = judged_as
    one.remember(TRAIN_JOB)
    if here:
        (one.folder / TRAIN_JOB / here).parent.mkdir(parents=True)
        (one.folder / TRAIN_JOB / here).touch()
    said = interrupted(one) if by_command else cancelled(one)

    assert said.endswith(end) and ("cancel", TRAIN_JOB) in engine.calls


def test_a_cancellation_waits_for_no_file_of_its_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The jobs end first: what was trained is found out for the gate's other ends."""
    calls: list[str] = []

    async def fetches(*_: Any) -> None:
        calls.append("fetch")

    async def stops(*_: Any) -> None:
        raise RunCancelled("the run was cancelled")

    monkeypatch.setattr(gate, "note_training", fetches)
    monkeypatch.setattr(gate, "_first_start", stops)
    request: Any = SimpleNamespace(advanced=SimpleNamespace(ask_minutes=0))
    with pytest.raises(RunCancelled):
        asyncio.run(gate._run_in_job(SimpleNamespace(), request))  # type: ignore[arg-type]

    assert [] == calls


def test_cancellation_counts_a_job_whose_submission_is_unknown(tmp_path: Path) -> None:
    """A job whose submission is not known to have failed may run, and was ended."""
    one = session(tmp_path)
    one.remember(CHECK_JOB)

    assert cancelled(one).endswith("in Prefect; the jobs that it had started were ended")


def test_a_training_that_had_failed_on_a_node_before_says_what_is_known(tmp_path: Path) -> None:
    """Whoever cancels a training that only seems to go on learns why it did not."""
    log = "Traceback (most recent call last):\n  x\nRuntimeError: my loss exploded\n"
    one = training(tmp_path, FakeEngine(log=log))
    one.statuses[TRAIN_JOB] = JobStatus(JobState.RUNNING, "node-1 exited 1", "abcdef12", {"node-1": 1})
    why = "node-1: RuntimeError: my loss exploded; node-1 ended with exit code 1"

    said = cancelled(one)
    assert f"the training had failed ({why}); then " in said and said.endswith(f"{TRAINING} ended")
    assert why == stored_outcome(one)["training"]["detail"]


@pytest.mark.parametrize("job", [CHECK_JOB, TRAIN_JOB])
def test_the_jobs_are_ended_before_anything_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, job: str
) -> None:
    """A store that hangs must not leave machines running."""
    engine = FakeEngine()
    one = session(tmp_path, engine)
    one.remember(job)
    ended: list[list[tuple[str, str]]] = []
    monkeypatch.setattr(one.context.store, "put", lambda key, data: ended.append(list(engine.calls)))
    cancelled(one)

    assert ended and all(("cancel", job) in calls for calls in ended)


def test_cancellation_reports_jobs_it_could_not_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message of the run, what is kept of it, and a notification: machines may still be billed."""
    notified: list[str] = []
    monkeypatch.setattr(sessions, "notify_unreleased", lambda context, gate_id, lines: notified.extend(lines))
    one = training(tmp_path, FakeEngine(broken={TRAIN_JOB}))
    said = cancelled(one)

    assert f"job {TRAIN_JOB} could not be ended" in said and "was ended" not in said
    assert f"job {TRAIN_JOB} could not be ended" in stored_outcome(one)["reason"]
    assert "unknown" == stored_outcome(one)["training"]["state"]
    assert 1 == len(notified) and TRAIN_JOB in notified[0]


@pytest.mark.parametrize("by_command", [False, True])
def test_a_gate_whose_lock_was_taken_away_leaves_the_jobs_and_their_end_to_the_other_run(
    tmp_path: Path, by_command: bool
) -> None:
    """Another run has adopted both: a training that goes on is not ended, and not called cancelled in the store."""
    engine = FakeEngine()
    one = training(tmp_path, engine)
    one.context.store.put(lease_key("c"), b"{}")
    assert not one.renewal.ours()
    said = interrupted(one) if by_command else cancelled(one)

    assert "another run has the lock" in said and "was ended" not in said
    assert ([], None) == (engine.calls, stored_outcome(one))


@pytest.mark.parametrize("by_command", [False, True])
def test_a_cancelled_gate_notifies_people_of_a_refusal_that_was_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by_command: bool
) -> None:
    """Its checks had begun again without the node. The jobs are ended first, and of the cancellation nobody is notified."""
    engine, notified = FakeEngine(), list[tuple[object, ...]]()

    def deliver(notify: object, store: object, note: Notification) -> None:
        notified.append((note.culprits, note.audience, ("cancel", CHECK_JOB) in engine.calls))

    monkeypatch.setattr(page, "deliver", deliver)
    opened = session(tmp_path, engine)
    opened.judged = NO_GO
    opened.begin_again()
    engine.calls.clear()
    opened.remember(CHECK_JOB)
    (interrupted if by_command else cancelled)(opened)

    assert [(("node-1",), Audience.ONCALL, True)] == notified


def interrupted(one: Session) -> str:
    """How a command that was interrupted ends: what it left, or else its reason."""
    shown = LiveProgress(None)
    with listening(shown), one:
        note_interruption(one)
    assert shown.outcome is not None
    return "; ".join(shown.unended) or cancelled_by(shown.outcome, "cancelled by SIGTERM").reason


def test_a_gate_that_had_ended_is_kept_as_it_ended(tmp_path: Path) -> None:
    """Only its last messages were interrupted; what was kept before them stays."""
    one = session(tmp_path)
    refused = GateOutcome(one.gate_id, Ending.VERDICT, Decision.REFUSED, NO_GO, None, "why")
    note_interruption(one, refused)
    first = stored_outcome(one)
    note_interruption(one, replace(refused, reason="another"))

    assert ("verdict", "refused") == (first["ending"], first["decision"])
    assert (1, "why") == (first["exit_code"], first["reason"])
    assert first == stored_outcome(one)


def test_the_jobs_are_ended_before_the_last_message_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """A chat service that does not answer leaves no machines running."""
    left: list[str] = []
    opened, messages = MagicMock(open_question=None), MagicMock()
    opened.__exit__.side_effect = lambda *_: left.append("session")
    messages.__exit__.side_effect = lambda *_: left.append("messages")
    for name, value in (("was_resumed", False), ("open_session", opened), ("live_messages", messages)):
        monkeypatch.setattr(gate, name, Mock(return_value=value))
    monkeypatch.setattr(gate, "publish_start", AsyncMock(side_effect=asyncio.CancelledError))
    monkeypatch.setattr(gate, "note_interruption", Mock())
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(gate._gate(GateRequest(gate_file="g.toml")))

    assert ["session", "messages"] == left
