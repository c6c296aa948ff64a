"""From when the gate counts the checks' deadline, and when it waits no longer for nodes or for the engine.

What it does with a job of which nothing is heard: a training goes on, a check is given up, and no sentence claims too much.
"""

from __future__ import annotations

import asyncio
import itertools
import math
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock, Mock

import pytest

from checks.model import Answer
from tasks import collect, in_job, launch
from tasks.collect import CheckDeadline, follow_job
from tasks.finish import defect_outcome, failed_outcome
from tasks.gate import job_times
from tasks.gate.blocking_calls import ask_state, run_within
from tasks.gate.jobs import JobEnd
from tasks.gate.lease import lease as leases
from tasks.gate.session import Session
from tasks.launch import training_result
from tasks.launchers.base import (
    Delays,
    EngineUnavailable,
    JobState,
    JobStatus,
    Launcher,
    LaunchError,
    Placement,
)
from tasks.launchers.kubernetes.launcher import KubernetesLauncher
from tasks.launchers.local.launcher import LocalLauncher
from tasks.launchers.sagemaker.launcher import SageMakerLauncher
from tasks.launchers.slurm.launcher import SlurmLauncher
from tasks.store.base import StoreError
from tests.sample_reports import healthy
from tests.tasks.gate.test_submission import Heard
from tests.tasks.sessions import TRAIN_JOB, FakeEngine, cancelled, judged, listening, session


def test_waiting_for_machines_is_no_part_of_the_deadline() -> None:
    """It counts from the first report of a node."""
    clock = CheckDeadline(120.0, Delays(5.0), 3.0)
    clock.see(JobState.PENDING, "", 1000.0)
    waiting = clock.gives_up_at
    clock.see(JobState.RUNNING, "", 2000.0)
    clock.see(JobState.RUNNING, "a1", 2002.0)
    clock.see(JobState.RUNNING, "a1", 2050.0)

    assert math.inf == waiting
    assert (2002.0 + 120.0 + 3.0, 2002.0 + 120.0 + 5.0) == (clock.gives_up_at, clock.answer_by)


def test_a_job_that_is_started_again_has_its_whole_time_for_checks_again() -> None:
    """It was requeued, or lost its machines: reports of the start before are no sign of the new one."""
    clock = CheckDeadline(120.0, Delays(5.0), 3.0)
    clock.see(JobState.RUNNING, "a1", 2000.0)
    clock.see(JobState.PENDING, "a1", 2100.0)
    waiting = clock.gives_up_at
    clock.see(JobState.RUNNING, "a1", 9000.0)
    joining = clock.gives_up_at
    clock.see(JobState.RUNNING, "a2", 9004.0)

    assert (math.inf, 9000.0 + 5.0 + 120.0 + 3.0) == (waiting, joining)
    assert 9004.0 + 120.0 + 3.0 == clock.gives_up_at


def test_nodes_that_never_report_are_given_up_as_well() -> None:
    """All of them may have been stopped before their first word: then it counts from the engine's."""
    clock = CheckDeadline(120.0, Delays(5.0), 3.0)
    clock.see(JobState.RUNNING, "", 2000.0)

    assert 2000.0 + 5.0 + 120.0 + 3.0 == clock.gives_up_at


def test_an_engine_that_is_slow_to_say_that_a_job_ended_has_its_time_once_all_is_measured() -> None:
    """A pool that is cut off at its end would be lost for the training."""
    clock = CheckDeadline(120.0, Delays(300.0, reports_s=30.0, ends_s=900.0), 3.0)
    clock.see(JobState.RUNNING, "a1", 0.0)
    unfinished = clock.gives_up_at
    clock.complete = True

    assert (153.0, 1023.0) == (unfinished, clock.gives_up_at)


def test_call_that_does_not_answer_is_left_behind() -> None:
    """The loop goes on, and ends, though the call never does; what answers or raises in time passes."""
    release = threading.Event()

    async def ask() -> int:
        with pytest.raises(TimeoutError):
            await run_within(0.2, release.wait)
        with pytest.raises(ZeroDivisionError):
            await run_within(5.0, lambda: 1 // 0)
        return await run_within(5.0, lambda: 7)

    answer = asyncio.run(ask())
    release.set()

    assert 7 == answer


RUNS = JobStatus(JobState.RUNNING, "Training", "t1", {})
ENDED = JobStatus(JobState.SUCCEEDED, "Completed", "t1", {"node-0": 0})
FAILED = JobStatus(JobState.FAILED, "Failed", "t1", {"node-0": 7})
SILENT = JobStatus(JobState.UNKNOWN, "no answer", "t1", {})
EXPIRED = replace(SILENT, detail="ExpiredTokenException: renew the credentials")
WAITS = replace(RUNS, state=JobState.PENDING, detail="Interrupted")
ABSENT = JobStatus(JobState.UNKNOWN, "no such job", "", {}, absent=True)
LIMIT_S, STEP_S = 5 * 3600.0, 30.0  # the clock is read twice at each look


@dataclass
class Engine(FakeEngine):
    """One whose answers follow each other, a minute apart."""

    start_s: float = 120.0
    silence_s: float = 300.0
    said: Iterable[JobStatus] = field(default_factory=list)

    def state(self, name: str) -> JobStatus:
        """The next answer."""
        return next(self.said)  # type: ignore[call-overload, no-any-return]


@pytest.fixture
def pages(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A clock that moves by a minute at each look at a job, and the pages that the owner gets."""
    told: list[str] = []
    now = itertools.count(1000.0, STEP_S)
    monkeypatch.setattr(collect, "time", SimpleNamespace(monotonic=lambda: next(now)))
    monkeypatch.setattr(collect, "poll_pause_s", lambda poll_s, since_s: 0.0)
    monkeypatch.setattr(
        job_times, "page_owner", lambda gate, file, store, gate_id, title, lines: told.append(title)
    )
    monkeypatch.setattr("tasks.gate.session.notify_unreleased", lambda context, gate_id, lines: None)
    return told


def followed(
    folder: Path, *said: JobStatus, trains: bool = True, **more: Any
) -> tuple[JobEnd, Session, list[str]]:
    """How a job with these answers is followed to its end, and the lines that last."""
    engine = Engine(said=iter([*said, *itertools.repeat(said[-1], 10**5)]), **more)
    one, heard = session(folder, engine), Heard()
    one.remember(TRAIN_JOB)

    async def look(status: JobStatus) -> None:
        """Nothing."""

    with listening(heard):
        end = asyncio.run(follow_job(one, TRAIN_JOB, LIMIT_S, look, trains=trains))
    return end, one, [line.detail for line in heard.lines if line.lasting]


@pytest.mark.parametrize(
    ("silent", "before"),
    [(SILENT, ()), (EXPIRED, ()), (SILENT, (RUNS,)), (EXPIRED, (RUNS,)), (WAITS, (RUNS,))],
)
@pytest.mark.parametrize("last", [ENDED, FAILED])
@pytest.mark.parametrize("minutes", [1, 6, 200])
def test_neither_silence_nor_another_wait_for_machines_ends_a_training(
    tmp_path: Path, pages: list[str], silent: JobStatus, before: tuple[JobStatus, ...], last: JobStatus, minutes: int
) -> None:  # fmt: skip
    """However long it is, and whatever its cause (spot machines were taken away, a queue took them back, a job was requeued): what
    ended is what the engine says has ended.
    """
    end, one, _ = followed(tmp_path, *before, *[silent] * minutes, last)

    assert (end.status, end.late, cancelled(one)) == (last, "", False)


def test_silence_is_said_once_then_hourly_and_paged_after_an_hour(tmp_path: Path, pages: list[str]) -> None:
    """Once; and again where it begins anew after an answer. After fifty minutes the training's people still sleep."""
    followed(tmp_path / "short", RUNS, *[SILENT] * 50, ENDED)
    assert pages == []

    _, _, lines = followed(tmp_path, RUNS, *[SILENT] * 150, RUNS, *[EXPIRED] * 70, ENDED)

    assert [line.split(" (")[0] for line in lines] == [
        f"nothing has been heard of job {TRAIN_JOB}",
        f"nothing has been heard of job {TRAIN_JOB} for 1 h",
        f"nothing has been heard of job {TRAIN_JOB} for 2 h",
        f"the engine answers again about job {TRAIN_JOB}",
        f"nothing has been heard of job {TRAIN_JOB}",
        f"nothing has been heard of job {TRAIN_JOB} for 1 h",
        f"the engine answers again about job {TRAIN_JOB}",
    ]
    assert "renew the credentials" in lines[-2] and "it is not ended" in lines[-2]
    assert [f"gate local: {line}" for line in (lines[1], lines[5])] == pages


def test_a_training_that_waits_for_machines_again_is_said_hourly_and_paged_after_an_hour(
    tmp_path: Path, pages: list[str]
) -> None:
    """Silence in between is told as such. A job whose nodes have decided has run."""
    _, _, lines = followed(tmp_path, *[WAITS] * 130, SILENT, RUNS, ENDED, placement=Placement.IN_JOB)

    assert [line.split(" (")[0] for line in lines] == [
        f"job {TRAIN_JOB} ran, and waits for machines again",
        f"job {TRAIN_JOB} ran, and waits for machines again for 1 h",
        f"job {TRAIN_JOB} ran, and waits for machines again for 2 h",
        f"the engine no longer says that job {TRAIN_JOB} waits",
        f"nothing has been heard of job {TRAIN_JOB}",
        f"the engine answers again about job {TRAIN_JOB}",
    ]
    assert "(Interrupted)" in lines[0] and [f"gate local: {lines[1]}"] == pages


LAUNCHERS = (LocalLauncher, SageMakerLauncher, SlurmLauncher, KubernetesLauncher)


@pytest.mark.parametrize("launcher", LAUNCHERS)
@pytest.mark.parametrize("minutes", [1, 5, 9])
@pytest.mark.parametrize("between", [(), (SILENT,)])
def test_an_engine_that_forgets_a_training_for_minutes_does_not_lose_it(
    tmp_path: Path, pages: list[str], launcher: type[Launcher], minutes: int, between: tuple[JobStatus, ...]
) -> None:
    """A controller that fails over, or an API server that is restored, lists it again; silence before it changes nothing."""
    forgets = [*between, *[ABSENT] * minutes]
    end, one, _ = followed(tmp_path, RUNS, *forgets, RUNS, ENDED, silence_s=launcher.silence_s)

    assert (end.status, end.late, cancelled(one)) == (ENDED, "", False)


@pytest.mark.parametrize("launcher", LAUNCHERS)
@pytest.mark.parametrize(("trains", "seconds"), [(True, 600), (False, 60)])
@pytest.mark.parametrize("between", [(), (SILENT,)])
def test_a_job_that_its_engine_no_longer_has_is_over(
    tmp_path: Path, pages: list[str], launcher: type[Launcher], trains: bool, seconds: int, between: tuple[JobStatus, ...]
) -> None:  # fmt: skip
    """The engine has answered; nothing was ended by the gate, and nobody says so. A minute is enough for a job that only checks."""
    end, one, _ = followed(tmp_path, RUNS, *between, ABSENT, trains=trains, silence_s=launcher.silence_s)

    assert (end.late, end.may_run, end.status.state, cancelled(one)) == ("", False, JobState.CANCELLED, False)
    assert end.status.attempt == "t1" and "so somebody has deleted it: no such job" in end.status.detail
    assert f"no such job for {seconds} s" in end.status.detail


@pytest.mark.parametrize(
    ("statuses", "trains", "broken", "late", "may_run"),
    [
        ([SILENT], False, False, "the engine reported nothing about it for 300 s, so it was ended", False),
        ([SILENT], False, True, "the engine reported nothing about it for 300 s; it could not be ended, and may run on", True),
        ([SILENT], True, True, "it was still unknown after 18000 s; it could not be ended, and may run on", True),
        ([SILENT], True, False, "it was still unknown after 18000 s, so it was ended", False),
        ([RUNS], True, False, "it was still running after 18000 s, so it was ended", False),
        ([RUNS], True, True, "it was still running after 18000 s; it could not be ended, and may run on", True),
        ([RUNS, *[WAITS] * 6, ENDED], False, False, "it did not start within 120 s, so it was ended", False),
        ([*[WAITS] * 6, ENDED], True, False, "it did not start within 120 s, so it was ended", False),
    ],
)  # fmt: skip
def test_silent_job_is_reported_as_ended_only_if_it_was(
    tmp_path: Path, pages: list[str], statuses: list[JobStatus], trains: bool, broken: bool, late: str, may_run: bool
) -> None:  # fmt: skip
    """The checks' job has its bounded wait, and so has the first one of a training for machines; a training has its own limit. An
    engine that ends nothing is told as that.
    """
    end, one, _ = followed(tmp_path, *statuses, trains=trains, broken={TRAIN_JOB} if broken else set())

    assert (end.late, end.may_run, cancelled(one)) == (late, may_run, True)


def test_a_training_that_could_not_be_ended_is_of_unknown_state(tmp_path: Path) -> None:
    """It is not called a failure: it may run on."""
    end = JobEnd(TRAIN_JOB, SILENT, "it may run on", may_run=True)
    found = training_result(session(tmp_path), judged(healthy(2, 1)), end)

    assert (found.training.state, found.training.cause) == (JobState.UNKNOWN, "it may run on")


Ends = Callable[[Session], Any]


@pytest.mark.parametrize("end", [
    lambda one: failed_outcome(one, StoreError("the store does not answer"), None),
    lambda one: failed_outcome(one, EngineUnavailable("down"), None),
    lambda one: failed_outcome(one, LaunchError("down"), None),
    lambda one: defect_outcome(one, RuntimeError("Prefect does not answer")),
])  # fmt: skip
@pytest.mark.parametrize("store", [True, False])
@pytest.mark.parametrize(
    ("answer", "trained", "goes_on"),
    [(Answer.GO, True, True), (Answer.GO, False, False), (Answer.CANNOT_TELL, True, False)],
)
def test_a_gate_that_breaks_off_leaves_a_training_that_it_has_not_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pages: list[str],
    end: Ends, store: bool, answer: Answer, trained: bool, goes_on: bool,
) -> None:  # fmt: skip
    """Silence of the store, of the engine or of Prefect ends what was not seen to run, and never a training; its owner reads both.
    What is judged last counts, also of a job that trained before.
    """
    engine = FakeEngine()
    with session(tmp_path, engine) as one:
        one.judged, one.trained = judged(healthy(2, 1), answer=answer), trained
        one.remember(TRAIN_JOB)
        one.statuses[TRAIN_JOB] = RUNS
        outcome = end(one)
        if not store:
            for call in ("renew", "release"):
                monkeypatch.setattr(leases, call, Mock(side_effect=StoreError("no answer")))

    assert (("cancel", TRAIN_JOB) in engine.calls) is not goes_on
    assert ("is not ended (the engine said last: running: Training)" in outcome.reason) is goes_on


def test_both_ways_to_follow_a_training_say_that_it_trains(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pages: list[str]
) -> None:
    """That of a job of its own, and that of the job whose nodes checked before."""
    said: list[dict[str, Any]] = []

    async def follow(*_: Any, **more: Any) -> JobEnd:
        said.append(more)
        raise EngineUnavailable("enough")

    for module in (launch, in_job):
        monkeypatch.setattr(module, "follow_job", follow)
    one, found = session(tmp_path), judged(healthy(2, 1))
    for run in (
        launch.follow_training.fn(one, found, TRAIN_JOB, "finished"),
        in_job.follow_start(one, found, in_job.JobStarts(), "finished"),
    ):
        with pytest.raises(EngineUnavailable):
            asyncio.run(run)

    assert [{"trains": True}] * 2 == said


@pytest.mark.parametrize(("statuses", "looks", "pause_s"), [
    ([WAITS, RUNS, RUNS, ENDED], [5.0, 36000.0, 36005.0, 36010.0], 0.0),  # the gate stood still for a night
    ([RUNS, ABSENT, RUNS, ENDED], [5.0, 905.0, 1805.0, 2705.0], 900.0),  # looks are rare after a day
])  # fmt: skip
def test_a_long_gap_between_two_looks_ends_no_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pages: list[str],
    statuses: list[JobStatus], looks: list[float], pause_s: float,
) -> None:  # fmt: skip
    """What the job did meanwhile nobody knows: it is not that it was all the time what it is now."""
    now = itertools.chain([0.0], *([at, at] for at in looks))
    monkeypatch.setattr(collect, "time", SimpleNamespace(monotonic=lambda: next(now)))
    monkeypatch.setattr(collect, "poll_pause_s", lambda poll_s, since_s: pause_s)
    monkeypatch.setattr(asyncio, "sleep", AsyncMock())
    end, one, _ = followed(tmp_path, *statuses)

    assert (end.status, end.late, cancelled(one)) == (ENDED, "", False)


def test_an_engine_that_cannot_be_seen_for_a_moment_keeps_the_start_that_was_seen() -> None:
    """The reports of that start are what is judged."""
    unknown = JobStatus(JobState.UNKNOWN, "the mount fails", "", {})
    last = replace(unknown, state=JobState.RUNNING, attempt="start-2", exit_codes={"n1": 0})
    engine: Any = SimpleNamespace(state=lambda job: unknown)

    status = asyncio.run(ask_state(engine, "job", 5.0, last))
    assert ("start-2", {"n1": 0}, "the mount fails") == (status.attempt, status.exit_codes, status.detail)
