"""Which starts of a job that checks and trains count as refusals: those that trained nothing, and no interrupted training."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock

import pytest

from checks.documents.report import dump
from checks.model import Answer
from tasks import in_job
from tasks.finish import failed_outcome, with_possible_training
from tasks.gate.jobs import JobEnd
from tasks.gate.outcome import NOT_STARTED, Decision, Ending, GateOutcome, Training, without_training
from tasks.gate.session import Session
from tasks.in_job import JobStarts, follow_start, note_training, wait_for_restart
from tasks.launch import LaunchResult
from tasks.launchers.base import EngineUnavailable, JobState, JobStatus, Placement
from tasks.store.base import StoreError
from tasks.store.layout import attempt_report_key
from tests.sample_reports import healthy
from tests.tasks.sessions import TRAIN_JOB, FakeEngine, cancelled, judged, session

BOTH = ("s1/started/node-0", "s1/started/node-1")
REFUSED = ("s1/failure/node-0", "s1/failure/node-1")
# The engine started the job again: after a spot interruption or a repair of its cluster, as another pod, by a requeue of Slurm.
AGAIN = [
    JobStatus(JobState.PENDING, "InProgress/Interrupted: its spot instances were taken away", "s2", {}, earlier=("s1",)),
    JobStatus(JobState.RUNNING, "InProgress/Training", "s2", {}, earlier=("s1",)),
    JobStatus(JobState.RUNNING, "it was started again once; before, it ended with 1", "s2", {}, earlier=("s1",)),
    JobStatus(JobState.PENDING, "job 5 is REQUEUED", "s2", {}, earlier=("s1",)),
]  # fmt: skip


@dataclass
class Engine(FakeEngine):
    """One whose files can be read only where it is not `denied`."""

    placement: Placement = Placement.IN_JOB
    denied: bool = False

    def fetch(self, name: str, into: Path) -> None:
        """The files of the test."""
        if self.denied:
            raise EngineUnavailable("AccessDenied")
        super().fetch(name, into)


def gate(folder: Path, status: JobStatus, patch: pytest.MonkeyPatch, **more: Any) -> Session:
    """A session whose job was judged, after which the engine says this of it."""
    one = session(folder, Engine(**more))
    one.remember(TRAIN_JOB)

    async def follow(one: Any, job: str, limit: float, look: Any, enough: Any, **_: Any) -> JobEnd:
        assert enough(status)
        return JobEnd(job, status)

    patch.setattr(in_job, "follow_job", follow)
    result = LaunchResult(Training(TRAIN_JOB, JobState.FAILED))
    patch.setattr(in_job, "training_result", lambda one, found, end: result)
    return one


FILES = [
    (BOTH, False, False),  # it trained
    (BOTH[:1], False, True),  # one node left its gate, the other did not: nothing trained
    ((), False, True),
    (REFUSED, False, True),
    (BOTH, True, False),  # nobody knows
    ((), True, False),
]


@pytest.mark.parametrize("status", AGAIN)
@pytest.mark.parametrize(("files", "denied", "counts"), FILES)
def test_an_interrupted_training_is_no_refusal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: JobStatus, files: Any, denied: bool, counts: bool
) -> None:
    """The files of a start tell, and they are fetched when the question comes up; where they cannot be, nothing is ended for it."""
    one = gate(tmp_path, status, monkeypatch, files=dict.fromkeys(files, b""), denied=denied)
    found, starts = judged(replace(healthy(2, 1), attempt="s1")), JobStarts()
    starts.judged("s1")

    result = asyncio.run(follow_start(one, found, starts, "finished"))

    assert (result is not None, cancelled(one), starts.no_gos) == (counts, counts, int(counts))
    assert one.trained is (files == BOTH and not denied)


@pytest.mark.parametrize(("files", "denied", "counts"), FILES)
def test_a_training_that_the_gate_could_not_judge_is_no_refusal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: Any, denied: bool, counts: bool
) -> None:
    """Its machines were taken away before the reports had come. What nobody can read counts here: without a GO the wait is bounded."""
    one = gate(tmp_path, AGAIN[1], monkeypatch, files=dict.fromkeys(files, b""), denied=denied)
    found, starts = judged(replace(healthy(2, 1), attempt="s1"), answer=Answer.CANNOT_TELL), JobStarts()
    starts.judged("s1")

    goes_on = asyncio.run(wait_for_restart(one, found, starts))

    assert (goes_on, starts.no_gos) == (not (counts or denied), int(counts or denied))


@pytest.mark.parametrize(
    ("adopted", "token", "kept"),
    [(True, "attempt-1", True), (True, "s2", False), (False, "attempt-1", False)],
)
def test_start_that_a_dead_gate_judged_keeps_its_verdict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, adopted: bool, token: str, kept: bool
) -> None:
    """Its training may run, and the log that had the report of a node may be gone. Every other start is judged by its files."""
    starting = gate(tmp_path, JobStatus(JobState.FAILED, "", token, {}), monkeypatch)
    starting.renewal.change(adopted=adopted)
    report = replace(healthy(2, 1), gate_id="g-1")
    starting.context.store.put(attempt_report_key("g-1", report.attempt), dump(report))
    poor = replace(report, attempt=token, nodes=report.nodes[1:])
    monkeypatch.setattr(in_job, "merge_reports", lambda session, end: poor)
    monkeypatch.setattr(in_job, "ProgressArtifact", lambda cluster: AsyncMock())
    judged = asyncio.run(in_job.next_start.fn(starting, TRAIN_JOB, starts := JobStarts()))

    assert (judged.verdict.answer is Answer.GO, starts.tokens) == (
        kept,
        [token],
    ) and starting.judged is judged


@pytest.mark.parametrize(
    ("files", "denied", "begun", "decision", "said"),
    [
        (BOTH, False, True, Decision.CANNOT_TELL, "The nodes had started the training."),
        (BOTH[:1], False, True, Decision.REFUSED, "The nodes had started the training."),
        ((), True, True, Decision.CANNOT_TELL, "It is not known whether the training was started"),
        ((), False, True, Decision.CANNOT_TELL, ""),
        (REFUSED, False, True, Decision.REFUSED, ""),
        ((), True, False, Decision.CANNOT_TELL, ""),
        (BOTH, False, True, Decision.LAUNCHED, ""),
    ],
)
@pytest.mark.parametrize("state", [JobState.RUNNING, JobState.SUCCEEDED, JobState.UNKNOWN])
def test_outcome_denies_a_training_only_when_its_absence_is_known(
    tmp_path: Path, files: Any, denied: bool, begun: bool, decision: Decision, said: str, state: JobState
) -> None:
    """By the files of the nodes, if they can be read; a job that was never submitted trained nothing. The engine's word is added."""
    status = JobStatus(state, "in the engine's words", "s1", {})
    engine = Engine(files=dict.fromkeys(files, b""), denied=denied, states={TRAIN_JOB: status})
    one, found = session(tmp_path, engine), judged(healthy(2, 1), answer=Answer.CANNOT_TELL)
    if begun:
        one.remember(TRAIN_JOB)
    before = GateOutcome("g-1", Ending.VERDICT, decision, found, None, "why it ended")

    ended = with_possible_training(one, before)
    shown = without_training(ended, True).judged
    assert shown is not None
    if not said:
        launched = decision is Decision.LAUNCHED
        assert (ended, shown.context.training) == (before, "" if launched else NOT_STARTED)
        return
    assert ended.training == Training(TRAIN_JOB, state, "in the engine's words")
    assert shown.context.training.startswith(said)
    assert f"The engine says of job {TRAIN_JOB}: {state.value}: in the engine" in shown.context.training


@pytest.mark.parametrize("adopted", [True, False])
def test_an_adopted_job_is_not_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, adopted: bool) -> None:
    """It may have trained for days, while the store and what its nodes wrote are silent for a moment."""
    monkeypatch.setattr("tasks.gate.session.notify_unreleased", lambda context, gate_id, lines: None)
    with session(tmp_path, Engine(denied=True), adopted=adopted) as one:
        one.remember(TRAIN_JOB)
        asyncio.run(note_training(one))  # what the gate does then
        outcome = failed_outcome(one, StoreError("no answer"), None)

    assert (not adopted, adopted) == (cancelled(one), "is not ended" in outcome.reason)
