"""What is kept of a gate that somebody cancelled."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from flows import gate
from tasks import cancel
from tasks.cancel import end_cancelled_gate, note_interruption
from tasks.gate import session as sessions
from tasks.gate.cancellation import RunCancelled
from tasks.gate.outcome import Decision, Ending, GateOutcome, cancelled_by
from tasks.gate.progress import LiveProgress
from tasks.gate.session import Session
from tasks.launchers.base import JobState, JobStatus, LaunchError, Placement
from tasks.store.layout import lease_key, outcome_key, report_key, summary_key
from tests.sample_reports import healthy, wrong_sums
from tests.tasks.sessions import CHECK_JOB, TRAIN_JOB, FakeEngine, judged, listening, session

MAY = "its job, which may have trained,"
GO = judged(healthy(2, 1))
NO_GO = judged(wrong_sums(healthy(2, 1), "node-1/rank-1"))


@pytest.mark.parametrize(
    ("judged_as", "trains", "decision", "end"),
    [
        (None, False, None, "in Prefect; no job had been started"),
        (GO, False, None, "in Prefect after the verdict GO; no training was started"),
        (NO_GO, False, None, "in Prefect after the verdict NO-GO; no training was started"),
        (GO, True, "launched", "in Prefect after the verdict GO; the training that it had started was ended"),
    ],
)
def test_a_cancelled_run_keeps_how_it_ended(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    judged_as: Any,
    trains: bool,
    decision: str | None,
    end: str,
) -> None:
    """With the verdict where there was one; the job of the training is ended before its log is kept."""
    monkeypatch.setattr(cancel, "emit_cancelled", lambda session, why: None)
    one = session(tmp_path)
    one.judged, one.training = judged_as, TRAIN_JOB if trains else ""
    if trains:
        one.remember(TRAIN_JOB)
    one.context.store.put(report_key(one.gate_id), b"{}")
    state = asyncio.run(end_cancelled_gate(one))
    kept = json.loads(one.context.store.get(outcome_key(one.gate_id)) or b"")
    summary = one.context.store.get(summary_key(one.gate_id))

    assert state.is_cancelled() and state.message is not None and state.message.endswith(f"cancelled {end}")
    assert ("cancelled", decision, 130) == (kept["ending"], kept["decision"], kept["exit_code"])
    assert (None if judged_as is None else state.message) == (
        summary.decode().splitlines()[0].removeprefix("# ") if summary else None
    )
    assert (("cancel", TRAIN_JOB) in one.context.launcher.calls) is trains  # type: ignore[attr-defined]


@pytest.mark.parametrize("judged_as", [GO, NO_GO])
@pytest.mark.parametrize("by_command", [False, True])
@pytest.mark.parametrize(
    ("there", "here", "error", "end"),
    [
        ("t1/started/node-0", "", None, "the training that it had started was ended"),
        ("", "t1/started/node-0", LaunchError("AccessDenied"), "the training that it had started was ended"),
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
    if by_command:
        shown = LiveProgress(None)
        with listening(shown), one:
            note_interruption(one)
        assert shown.outcome is not None
        said = cancelled_by(shown.outcome, "cancelled by SIGTERM").reason
    else:
        said = cancelled(one, monkeypatch)

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


def test_cancellation_counts_a_job_whose_submission_is_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job whose submission is not known to have failed may run, and was ended."""
    one = session(tmp_path)
    one.remember(CHECK_JOB)

    assert cancelled(one, monkeypatch).endswith("in Prefect; the jobs that it had started were ended")


def test_a_training_that_had_failed_on_a_node_before_says_what_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever cancels a training that only seems to go on learns why it did not."""
    log = "Traceback (most recent call last):\n  x\nRuntimeError: my loss exploded\n"
    one = session(tmp_path, FakeEngine(log=log))
    one.judged, one.training = GO, TRAIN_JOB
    one.remember(TRAIN_JOB)
    one.statuses[TRAIN_JOB] = JobStatus(JobState.RUNNING, "node-1 exited 1", "abcdef12", {"node-1": 1})
    said = cancelled(one, monkeypatch)
    kept = json.loads(one.context.store.get(outcome_key(one.gate_id)) or b"")

    assert said.endswith(
        "the training that it had started was ended. Before, it had failed: node-1: RuntimeError: my loss exploded; "
        "node-1 ended with exit code 1"
    )
    assert (
        "node-1: RuntimeError: my loss exploded; node-1 ended with exit code 1" == kept["training"]["detail"]
    )


def cancelled(one: Session, monkeypatch: pytest.MonkeyPatch) -> str:
    """The message of a run that was cancelled in Prefect; its session is over."""
    monkeypatch.setattr(cancel, "emit_cancelled", lambda session, why: None)
    with one:
        return str(asyncio.run(end_cancelled_gate(one)).message)


@pytest.mark.parametrize("job", [CHECK_JOB, TRAIN_JOB])
def test_the_jobs_are_ended_before_anything_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, job: str
) -> None:
    """A store that hangs must not leave machines running."""
    one, engine = session(tmp_path), FakeEngine()
    one.context.launcher = engine  # type: ignore[assignment, misc]
    one.remember(job)
    ended: list[list[tuple[str, str]]] = []
    put = one.context.store.put

    def kept(key: str, data: bytes) -> None:
        ended.append(list(engine.calls))
        put(key, data)

    monkeypatch.setattr(one.context.store, "put", kept)
    cancelled(one, monkeypatch)

    assert ended and all(("cancel", job) in calls for calls in ended)


def test_cancellation_reports_jobs_it_could_not_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message of the run, what is kept of it, and a notification: machines may still be billed."""
    notified: list[str] = []
    monkeypatch.setattr(sessions, "notify_unreleased", lambda context, gate_id, lines: notified.extend(lines))
    one = session(tmp_path, FakeEngine(broken={TRAIN_JOB}))
    one.judged, one.training = GO, TRAIN_JOB
    one.remember(TRAIN_JOB)
    said = cancelled(one, monkeypatch)
    kept = json.loads(one.context.store.get(outcome_key(one.gate_id)) or b"")

    assert f"job {TRAIN_JOB} could not be ended" in said and "was ended" not in said
    assert f"job {TRAIN_JOB} could not be ended" in kept["reason"]
    assert "unknown" == kept["training"]["state"]
    assert 1 == len(notified) and TRAIN_JOB in notified[0]


@pytest.mark.parametrize("by_command", [False, True])
def test_a_gate_whose_lock_was_taken_away_leaves_the_jobs_and_their_end_to_the_other_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by_command: bool
) -> None:
    """Another run has adopted both: a training that goes on is not ended, and not called cancelled in the store."""
    engine = FakeEngine()
    one = session(tmp_path, engine)
    one.judged, one.training = GO, TRAIN_JOB
    one.remember(TRAIN_JOB)
    one.context.store.put(lease_key("c"), b"{}")
    assert not one.renewal.ours()
    shown = LiveProgress(None)
    if by_command:
        with listening(shown), one:
            note_interruption(one)
        said = "; ".join(shown.unended)
    else:
        said = cancelled(one, monkeypatch)

    assert "another run has the lock" in said and "was ended" not in said
    assert [] == engine.calls
    assert one.context.store.get(outcome_key(one.gate_id)) is None


def test_a_training_that_is_to_outlive_its_gate_is_not_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was let go a moment before somebody cancelled the gate."""
    engine = FakeEngine()
    one = session(tmp_path, engine)
    one.judged, one.training = GO, TRAIN_JOB
    said = cancelled(one, monkeypatch)

    assert [] == engine.calls
    assert said.endswith("after the verdict GO; the training that it had started was left alone")


def test_a_gate_that_had_ended_is_kept_as_it_ended(tmp_path: Path) -> None:
    """Only its last messages were interrupted; what was kept before them stays."""
    one = session(tmp_path)
    refused = GateOutcome(one.gate_id, Ending.VERDICT, Decision.REFUSED, NO_GO, None, "why")
    note_interruption(one, refused)
    first = json.loads(one.context.store.get(outcome_key(one.gate_id)) or b"")
    note_interruption(one, replace(refused, reason="another"))

    assert ("verdict", "refused", 1, "why") == tuple(
        first[key] for key in ("ending", "decision", "exit_code", "reason")
    )
    assert first == json.loads(one.context.store.get(outcome_key(one.gate_id)) or b"")
