"""How far a gate follows the training that it started, and what it shows meanwhile."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tasks import launch
from tasks.gate.jobs import JobEnd
from tasks.gate.progress import Progress
from tasks.gate.session import Session
from tasks.launch import LaunchResult, pool_cost_now
from tasks.launchers.base import JobState, JobStatus, Placement, Trouble
from tests.tasks.sessions import CHECK_JOB, READY, TRAIN_JOB, FakeEngine, session
from tests.tasks.test_launch import ENDED, FAILED, OURS, PASSED, RUNNING

WAITS = replace(RUNNING, state=JobState.PENDING)
STOPPED = replace(FAILED, attempt="", exit_codes={}, trouble=Trouble.STOPPED)


@pytest.mark.parametrize(
    ("wait", "statuses", "state", "ran"),
    [
        ("verdict", [], JobState.PENDING, True),
        ("started", [WAITS, RUNNING, ENDED], JobState.RUNNING, True),
        ("finished", [RUNNING, ENDED], JobState.SUCCEEDED, True),
        ("finished", [STOPPED], JobState.FAILED, False),
    ],
)
def test_the_gate_follows_the_training_as_far_as_it_was_asked_to(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    wait: str,
    statuses: list[JobStatus],
    state: JobState,
    ran: bool,
) -> None:
    """One that goes on is left running; one that ended before it ran did not run."""
    engine = FakeEngine(holds=[OURS], files={f"abcdef12/started/node-{index}": b"" for index in (0, 1)})
    one = session(tmp_path, engine)
    one.remember(TRAIN_JOB)
    found = followed(one, monkeypatch, statuses, wait)

    assert (state, ran) == (found.training.state, found.ran)
    assert one.trained is any(status.state is JobState.RUNNING for status in statuses)
    with one:
        pass
    assert (wait == "finished") is (("cancel", TRAIN_JOB) in engine.calls)


def followed(one: Session, patch: pytest.MonkeyPatch, statuses: list[JobStatus], wait: str) -> LaunchResult:
    """What the gate says of its training, of which the engine says this."""

    async def follow(one: Any, job: str, limit: float, look: Any, enough: Any, trains: bool) -> JobEnd:
        for status in statuses:
            await look(status)
            if enough(status):
                return JobEnd(job, status, ran=one.trained)
        return JobEnd(job, statuses[-1], ran=one.trained)

    patch.setattr(launch, "follow_job", follow)
    one.judged = PASSED
    return asyncio.run(launch.follow_training.fn(one, PASSED, TRAIN_JOB, wait))


def test_pool_cost_shows_only_while_training_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And no longer: a pool that the training has taken waits for nobody."""
    one = session(tmp_path, FakeEngine(holds=[READY, READY, OURS], log=""))
    one.ended(CHECK_JOB)
    shown: list[Progress] = []
    monkeypatch.setattr(launch, "report_progress", shown.append)
    cost = pool_cost_now(one)
    followed(one, monkeypatch, [WAITS, RUNNING], "finished")

    assert [f"pending {cost}", "running"] == [each.detail for each in shown[:2]]


@pytest.mark.parametrize(("placement", "limit_s"), [(Placement.POOLED, 990.0), (Placement.IN_JOB, 1050.0)])
def test_a_training_that_ended_may_be_uploaded(tmp_path: Path, placement: Placement, limit_s: float) -> None:
    """SageMaker says that a job ended once its model is in S3; a job that hangs is ended after that time."""
    assert limit_s == launch.run_limit_s(session(tmp_path, FakeEngine(placement)))
