"""A job that was never submitted is not ended, one that may have been is, and one of an earlier run is continued and named."""

from __future__ import annotations

import asyncio
import errno
import io
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from rich.console import Console

from tasks.collect import _end_late
from tasks.gate import jobs, submission
from tasks.gate import session as sessions
from tasks.gate.blocking_calls import run_to_end
from tasks.gate.jobs import JobEnd, cancel_jobs
from tasks.gate.lease.lease import TTL_S, LeaseLost
from tasks.gate.outcome import GateOutcome
from tasks.gate.predecessor import PredecessorJobs, find_jobs, report_takeover
from tasks.gate.progress import LiveProgress, Progress
from tasks.gate.session import Session
from tasks.gate.submission import doubts_of, submit_job
from tasks.in_job import _end_job
from tasks.launchers.base import (
    EngineUnavailable,
    JobState,
    JobStatus,
    LaunchError,
    LaunchRejected,
    NoCapacity,
    NotSubmitted,
    Placement,
    PreflightCheck,
    PreflightResult,
    QuotaExceeded,
)
from tasks.launchers.interruption import pause, tell_silence
from tasks.provision import settle_lease
from tasks.store.base import StoreError
from tasks.store.layout import lease_key, preflight_key
from tests.tasks.sessions import CHECK_JOB, NOW, TRAIN_JOB, FakeEngine, listening, session

JOB: Any = SimpleNamespace(name=CHECK_JOB)

RUNS = JobStatus(JobState.RUNNING, "job 17 is RUNNING", "", {})
FAILED = JobStatus(JobState.FAILED, "job 17 is FAILED", "", {})
LINE = f"this gate continues job {TRAIN_JOB} of an earlier run, whose process is gone (running: job 17 is RUNNING)"


class Engine(FakeEngine):
    """An engine that takes no job: `errors` are what it says."""

    errors: tuple[Exception, ...] = ()

    def plan(self, job: Any) -> Any:
        """A plan is its job here."""
        return SimpleNamespace(job=job)

    def submit(self, plan: Any) -> None:
        """Never a job."""
        self.calls.append(("submit", plan.job.name))
        raise self.errors[len(self.calls) - 1]


class SilentEngine(Engine):
    """One that is asked six times before it is given up."""

    def submit(self, plan: Any) -> None:
        """Never a job."""
        for tried_s in (5.0, 8.0, 10.0, 15.0, 19.0, 120.0):
            tell_silence("slurmctld does not answer", tried_s, 120.0)
        raise NotSubmitted("it was not submitted")


class SlowEngine(Engine):
    """One that waits for an answer for an hour, unless it is told to stop."""

    def submit(self, plan: Any) -> None:
        """Never a job."""
        self.calls.append(("submit", plan.job.name))
        pause(3600.0)
        raise NotSubmitted("it was not submitted")


@pytest.fixture(autouse=True)
def no_notification(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody is told anything."""
    monkeypatch.setattr("tasks.gate.session.notify_unreleased", lambda context, gate_id, lines: None)


def gate(folder: Path, engine: Engine) -> Session:
    """A session whose preflight is done."""
    one = session(folder, engine)
    one.preflight_done = True
    return one


@pytest.mark.parametrize(
    ("errors", "ended"),
    [
        ((LaunchRejected("denied"),), False),
        ((QuotaExceeded("the quota is 0"),), False),
        ((NoCapacity("no machines"),), False),
        ((NotSubmitted("away"),), False),
        ((EngineUnavailable("the answer was lost"), LaunchRejected("denied")), True),
        ((EngineUnavailable("the answer was lost"), NotSubmitted("away")), True),
        ((EngineUnavailable("it is not known"),) * 2, True),
    ],
)
def test_submission_failure_cancels_only_a_job_that_may_run(
    tmp_path: Path, errors: tuple[LaunchError, ...], ended: bool
) -> None:
    """An engine that refused a job started nothing, and nobody is told of it. One that may have taken the job is asked twice, and only
    that job is ended: the end waits for no answer about the rest.
    """
    engine = Engine(Placement.NONE, broken={CHECK_JOB})
    engine.errors = errors
    with pytest.raises(LaunchError), gate(tmp_path, engine) as one:
        submit_job(one, JOB)

    assert [*[("submit", CHECK_JOB)] * len(errors), *[("cancel", CHECK_JOB)] * ended] == engine.calls
    assert (int(ended), {CHECK_JOB} if ended else set()) == (len(one.unreleased), one.begun)


@pytest.mark.parametrize(("is_known", "stood_s"), [(True, 0.0), (False, TTL_S + 1.0), (False, 0.0)])
def test_a_gate_that_lost_its_lock_submits_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_known: bool, stood_s: float
) -> None:
    """It stood still, and another gate has the cluster: nobody would follow the job, or end it."""
    engine = Engine(Placement.NONE)
    monkeypatch.setattr(submission, "time", Mock(time=lambda: NOW + stood_s))
    with pytest.raises(LeaseLost), gate(tmp_path, engine) as one:
        one.context.store.put(lease_key("c"), b"{}")
        assert not (is_known and one.renewal.ours())
        submit_job(one, JOB)

    assert ([], set()) == (engine.calls, one.begun)


def test_an_engine_that_does_not_answer_is_said_with_how_long_it_is_asked(tmp_path: Path) -> None:
    """A person who waits sees why, and for how long at most; then each time that it took twice as long."""
    shown = Heard()
    engine = SilentEngine(Placement.NONE)
    with listening(shown), pytest.raises(NotSubmitted), gate(tmp_path, engine) as one:
        submit_job(one, JOB)

    said = [one.detail.partition("): job ")[0] for one in shown.lines if "): job " in one.detail]
    begins = "slurmctld does not answer (tried for"
    assert [f"{begins} {tried_s} s, at most 120 s" for tried_s in (5, 10, 120)] == said
    assert {"start"} == {one.stage for one in shown.lines}


def test_preflight_lines_keep_the_remedy_after_a_long_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """However long its reason is, what to do is not cut off."""
    reason = "it does not answer: " + "x " * 300
    long = PreflightCheck("slurmctld", PreflightResult.UNSEEN, reason, "Start slurmctld.")
    warned = replace(long, subject="this machine", result=PreflightResult.WARNING)
    monkeypatch.setattr(submission, "preflight", lambda launcher, plans: (long, warned))
    monkeypatch.setattr(submission, "planned_jobs", lambda context: ())
    with listening(LiveProgress(None)), session(tmp_path, Engine(Placement.NONE)) as one:
        submission.run_preflight(one)
    said = capsys.readouterr().err.splitlines()

    first, second = said
    assert first.startswith("preflight: could not check slurmctld: it does not answer: x x")
    assert second.startswith("preflight: warning: this machine: it does not answer: x x")
    assert all(line.endswith("Start slurmctld.") for line in said)


@pytest.mark.parametrize("in_preflight", [False, True])
def test_a_gate_that_is_cancelled_ends_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_preflight: bool
) -> None:
    """It waited for an engine that did not answer: it is not asked a second time, and there is nothing to end. During the preflight
    nothing was submitted.
    """
    engine, looks = SlowEngine(Placement.NONE), list[Session]()

    def preflight(one: Session) -> None:
        looks.append(one)
        if in_preflight:
            pause(3600.0)

    monkeypatch.setattr(submission, "run_preflight", preflight)

    async def cancelled() -> None:
        with gate(tmp_path, engine) as one:
            running = asyncio.create_task(run_to_end(submit_job, one, JOB))
            while not (looks if in_preflight else engine.calls):
                await asyncio.sleep(0.01)
            running.cancel()
            await running

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(asyncio.wait_for(cancelled(), 60))

    assert [("submit", CHECK_JOB)] * (not in_preflight) == engine.calls


def test_preflight_warning_becomes_a_doubt_of_the_gate(tmp_path: Path) -> None:
    """Also of another process that goes on with the gate: the store has it. What is no warning explains nothing."""
    one = session(tmp_path, Engine())
    warned = PreflightCheck("this machine", PreflightResult.WARNING, "it is no g5.xlarge", "Declare it.")
    assert () == doubts_of(one)
    submission._keep(one, (replace(warned, result=PreflightResult.OK), warned))

    assert ("Before the checks: this machine: it is no g5.xlarge. Declare it.",) == doubts_of(one)
    one.context.store.put(preflight_key(one.gate_id), b"cut")
    assert () == doubts_of(one)


class Heard:
    """A listener that keeps what it was told."""

    def __init__(self) -> None:
        self.lines: list[Progress] = []

    def progress(self, progress: Progress) -> None:
        """Keep it."""
        self.lines.append(progress)

    def ended(self, outcome: GateOutcome) -> None:
        """Nothing ends here."""
        raise AssertionError(outcome)


@pytest.mark.parametrize(
    ("adopted", "placement", "states", "said"),
    [
        (True, Placement.IN_JOB, {TRAIN_JOB: RUNS}, [LINE]),
        (True, Placement.PINNED, {CHECK_JOB: RUNS}, [LINE.replace(TRAIN_JOB, CHECK_JOB)]),
        (True, Placement.PINNED, {CHECK_JOB: RUNS, TRAIN_JOB: RUNS}, [LINE]),
        (True, Placement.IN_JOB, {TRAIN_JOB: FAILED}, []),
        (True, Placement.PINNED, {}, []),
        (False, Placement.IN_JOB, {TRAIN_JOB: RUNS}, []),
    ],
)
def test_a_gate_says_which_job_it_continues(
    tmp_path: Path, adopted: bool, placement: Placement, states: Mapping[str, JobStatus], said: list[str]
) -> None:
    """By the job's name and the engine's own words; not where the job begins anew, or was never there."""
    heard, engine = Heard(), FakeEngine(placement, states=dict(states))
    with listening(heard), session(tmp_path, engine, adopted=adopted) as one:
        asyncio.run(settle_lease(one))

    assert [progress.detail for progress in heard.lines if progress.stage == "adopt"] == said
    assert all(progress.lasting for progress in heard.lines if progress.stage == "adopt")


@pytest.mark.parametrize(
    ("train", "trained"),
    [
        (RUNS, True),
        (replace(RUNS, state=JobState.PENDING, attempt="t1"), True),
        (replace(RUNS, state=JobState.PENDING), False),
        (replace(FAILED, attempt="t1"), False),
    ],
)
def test_a_gate_knows_of_a_training_that_it_continues_whether_it_ran(
    tmp_path: Path, train: JobStatus, trained: bool
) -> None:
    """One that has the token of a start and waits has lost its machines."""
    one = session(tmp_path, FakeEngine(Placement.PINNED))
    report_takeover(one, PredecessorJobs(RUNS, train))

    assert one.trained is trained


def test_lasting_progress_line_stays_on_a_terminal() -> None:
    """Below it the state goes on changing."""
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=200)
    with console.status("starting") as status:
        shown = LiveProgress(status)
        shown.progress(Progress("adopt", "this gate continues [job] 17", lasting=True))
        shown.progress(Progress("checks", "1 of 2"))

    assert "adopt: this gate continues [job] 17\n" in screen.getvalue()
    assert str(shown.__rich__()) == "checks: 1 of 2 (0 s)"


class StaleEngine(Engine):
    """Its jobs' folder is on a mount that fails, or that hangs where a job is to be ended."""

    silence_s = 0.0

    def state(self, name: str) -> JobStatus:
        """Never."""
        raise OSError(errno.ESTALE, "Stale file handle")

    def cancel(self, name: str) -> None:
        """Ten minutes."""
        time.sleep(600)


def test_jobs_of_a_dead_gate_that_cannot_be_looked_at_are_left_with_the_lock(tmp_path: Path) -> None:
    """One of them may train for days; people are told that it runs on."""
    one = session(tmp_path, StaleEngine(Placement.PINNED), adopted=True)
    with pytest.raises(EngineUnavailable, match=r"Stale file handle\. They are left as they are"), one:
        asyncio.run(find_jobs(one))

    assert one.parked and one.context.store.get(lease_key("c")) is not None


def test_an_engine_that_hangs_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And people are told that the job may run on: by the gate itself, and by the next one."""
    engine, told = StaleEngine(Placement.NONE), list[str]()
    monkeypatch.setattr(sessions, "notify_unreleased", lambda *about: told.extend(about[2]))
    monkeypatch.setattr(jobs, "launcher_of", lambda address: engine)
    for module in (jobs, sessions):
        monkeypatch.setattr(module, "ENDING_S", 0.05)
    with session(tmp_path, engine) as one:
        one.remember(TRAIN_JOB)
        with pytest.raises(LaunchError, match=r"did not end within 0.1 s.*did not end within 0.1 s"):
            cancel_jobs(one.renewal.lease)

    assert [f"job {TRAIN_JOB} could not be ended"] == [line.partition(";")[0] for line in told]


@pytest.mark.parametrize("end", [
    Session.begin_again, Session.train_again,
    lambda one: _end_late(one, JobEnd(TRAIN_JOB, RUNS, "its time is up")),
    lambda one: asyncio.run(_end_job(one)),
    lambda one: (one.end_soon(TRAIN_JOB), one.ends(), one.require_lock()),
])  # fmt: skip
def test_a_gate_that_lost_its_lock_ends_no_job(tmp_path: Path, end: Callable[[Session], object]) -> None:
    """Another gate has adopted it, and this one has not noticed yet."""
    engine = Engine(Placement.NONE)
    with pytest.raises(LeaseLost), gate(tmp_path, engine) as one:
        one.remember(TRAIN_JOB)
        one.context.store.put(lease_key("c"), b"{}")
        end(one)

    assert [] == engine.calls


def test_a_lock_that_is_known_to_be_lost_stays_lost_where_the_store_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another gate's jobs have the same names."""
    one = session(tmp_path)
    one.renewal.lost.set()
    monkeypatch.setattr(one.renewal, "ours", Mock(side_effect=StoreError("no answer")))

    with pytest.raises(LeaseLost):
        one.require_lock()
