"""What is shown while the training waits for its machines."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tasks import launch
from tasks.gate.jobs import JobEnd
from tasks.gate.progress import Progress
from tasks.launch import follow_training, pool_cost_now
from tasks.launchers.base import Hold, JobState, JobStatus, Keeping
from tests.sample_reports import healthy
from tests.tasks.sessions import CHECK_JOB, TRAIN_JOB, FakeEngine, judged, session

PASSED = judged(healthy(2, 1))
READY, OURS = Hold(Keeping.READY), Hold(Keeping.TAKEN, by=TRAIN_JOB)
RUNNING = JobStatus(JobState.RUNNING, "", "abcdef12", {})


def test_what_a_waiting_pool_costs_is_shown_while_the_training_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And no longer: a pool that the training has taken waits for nobody."""
    one = session(tmp_path, FakeEngine(holds=[READY, READY, OURS]))
    one.setting.gate.training = SimpleNamespace(max_runtime_minutes=1)  # type: ignore[misc, assignment]
    one.ended(CHECK_JOB)
    shown: list[Progress] = []
    monkeypatch.setattr(launch, "report_progress", shown.append)

    async def follow(_one: Any, _job: str, _limit_s: float, look: Any, _enough: Any, trains: bool) -> JobEnd:
        for status in (replace(RUNNING, state=JobState.PENDING), RUNNING):
            await look(status)
        raise InterruptedError

    monkeypatch.setattr(launch, "follow_job", follow)
    with pytest.raises(InterruptedError):
        asyncio.run(follow_training.fn(one, PASSED, TRAIN_JOB, "finished"))

    assert [f"pending {pool_cost_now(one)}", "running"] == [each.detail for each in shown]
