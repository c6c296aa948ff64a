"""A job that was never submitted is not ended, and one that may have been is; a gate that is to end submits nothing."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tasks.gate import submission
from tasks.gate.blocking_calls import run_to_end
from tasks.gate.session import Session
from tasks.gate.submission import submit_job
from tasks.launchers.base import EngineUnavailable, NotSubmitted, Placement
from tasks.launchers.interruption import pause
from tests.tasks.sessions import CHECK_JOB, FakeEngine, session

JOB: Any = SimpleNamespace(name=CHECK_JOB)


class Engine(FakeEngine):
    """An engine that takes no job: `error` is what it says."""

    error: Exception = EngineUnavailable("it does not answer")

    def plan(self, job: Any) -> Any:
        """A plan is its job here."""
        return SimpleNamespace(job=job)

    def submit(self, plan: Any) -> None:
        """Never a job."""
        self.calls.append(("submit", plan.job.name))
        raise self.error


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
    monkeypatch.setattr("tasks.gate.session.notify_unreleased", lambda setting, gate_id, lines: None)


def gate(folder: Path, engine: Engine) -> Session:
    """A session whose preflight is done."""
    one = session(folder, engine)
    one.preflight_done = True
    return one


@pytest.mark.parametrize(
    ("error", "ended"),
    [
        (NotSubmitted("it was not submitted"), []),
        (EngineUnavailable("it is not known"), [("cancel", CHECK_JOB)]),
    ],
)
def test_what_may_run_is_ended_and_nothing_else(
    tmp_path: Path, error: Exception, ended: list[tuple[str, str]]
) -> None:
    """The engine is asked twice, and only what it may have taken is ended: the end waits for no answer about the rest."""
    engine = Engine(Placement.NONE)
    engine.error = error
    with pytest.raises(EngineUnavailable), gate(tmp_path, engine) as one:
        submit_job(one, JOB)

    assert [("submit", CHECK_JOB), ("submit", CHECK_JOB), *ended] == engine.calls
    assert one.begun == ({CHECK_JOB} if ended else set())


def test_a_gate_that_is_cancelled_ends_at_once(tmp_path: Path) -> None:
    """It waited for an engine that did not answer; it is not asked a second time, and there is nothing to end."""
    engine = SlowEngine(Placement.NONE)

    async def cancelled() -> None:
        with gate(tmp_path, engine) as one:
            running = asyncio.create_task(run_to_end(submit_job, one, JOB))
            while not engine.calls:
                await asyncio.sleep(0.01)
            running.cancel()
            await running

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(asyncio.wait_for(cancelled(), 60))

    assert [("submit", CHECK_JOB)] == engine.calls


def test_a_preflight_that_was_interrupted_submits_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The signal came while it looked."""
    engine, begun = Engine(Placement.NONE), []

    def looks(one: Session) -> None:
        begun.append(one)
        pause(3600.0)

    monkeypatch.setattr(submission, "run_preflight", looks)

    async def cancelled() -> None:
        with gate(tmp_path, engine) as one:
            running = asyncio.create_task(run_to_end(submit_job, one, JOB))
            while not begun:
                await asyncio.sleep(0.01)
            running.cancel()
            await running

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(asyncio.wait_for(cancelled(), 60))

    assert [] == engine.calls
