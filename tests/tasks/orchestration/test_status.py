"""What a run's artifact and its log in Prefect say while it runs: its stages, that it waits for a person, and no error without one."""

from __future__ import annotations

import asyncio
import dataclasses
import inspect
import logging
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock
from uuid import UUID

import pytest
from prefect import flow_engine, states, task_engine
from prefect.client.schemas.objects import FlowRun, State
from prefect.logging import loggers
from prefect.states import Pending, Running, Suspended

from tasks.gate.outcome import Decision, Ending, GateOutcome
from tasks.gate.progress import Progress, report_progress
from tasks.gate.session import Session
from tasks.orchestration import follow, stage_log, status
from tasks.orchestration.stage_log import FINISHED, FLOWS, STOPPED, TASKS, is_kept, logged_stages
from tasks.orchestration.status import RUNS, StatusError, publish_state, read_status
from tests.tasks.sessions import session

RUN, ARTIFACT = UUID(int=7), UUID(int=9)
RAISED = "Execution was interrupted by an exception: MemoryError"


class Server:
    """A client of a server that has one artifact of the run. A fake."""

    def __init__(self, known: bool = True) -> None:
        self.known, self.updated = known, list[tuple[UUID, str, str]]()

    async def __aenter__(self) -> Server:
        return self

    async def __aexit__(self, *of: object) -> None:
        return None

    async def read_artifacts(self, artifact_filter: Any, sort: Any, limit: int) -> list[Any]:
        """The run's own."""
        assert artifact_filter.flow_run_id.any_ == [RUN]
        return [SimpleNamespace(id=ARTIFACT)] if self.known else []

    async def update_artifact(self, artifact: UUID, update: Any) -> None:
        """Keep it."""
        self.updated.append((artifact, update.description, update.data))


def run_session(folder: Path) -> Session:
    """A session whose lock is that of the run."""
    one = session(folder)
    one.context.address = str(folder)  # type: ignore[misc]
    held = one.renewal._held
    owner = dataclasses.replace(held.lease.owner, flow_run_id=str(RUN))
    one.renewal._held = dataclasses.replace(held, lease=dataclasses.replace(held.lease, owner=owner))
    return one


@pytest.mark.parametrize("continues", [True, False])
def test_a_run_that_waits_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, continues: bool) -> None:
    """And that it goes on once it was answered, also in another process; programs read that it runs."""
    server = Server()
    monkeypatch.setattr(status, "get_client", lambda: server)
    one = run_session(tmp_path)
    one.announcement = None if continues else ARTIFACT

    asyncio.run(publish_state(one, "The gate waits for a person. ASK local."))
    asyncio.run(publish_state(one))

    assert [ARTIFACT] * 2 == [artifact for artifact, _, _ in server.updated]
    assert ["The gate waits for a person. ASK local.", RUNS] == [said for _, said, _ in server.updated]
    assert server.updated[0][2].startswith("The gate waits for a person")
    published = read_status(server.updated[0][2])
    assert ("g-1", None) == (published.gate_id, published.code)
    assert ARTIFACT == one.announcement


def test_a_status_with_any_code_of_a_gate_is_read_and_with_another_it_is_refused() -> None:
    """Exit code 0 needs a verdict as well, and has none here."""
    codes = {GateOutcome("", end, done, None, None, "").code for end in Ending for done in (*Decision, None)}
    about = {"schema_version": 1, **dict.fromkeys(("gate_id", "gate", "cluster", "store"), "x")}
    ends = [status._end({"verdict": None}, code) for code in (*codes, 9)]  # type: ignore[arg-type]
    texts = {end["exit_code"]: status._text("The gate ended.", {**about, **end}) for end in ends}

    assert codes - {0} == {read_status(texts[code]).code for code in codes - {0}}
    for code, reason in ((0, "without a verdict"), (9, "exit code 9 is not valid")):
        with pytest.raises(StatusError, match=reason):
            read_status(texts[code])


def test_a_run_that_published_nothing_publishes_no_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its end is published anew."""
    server = Server(known=False)
    monkeypatch.setattr(status, "get_client", lambda: server)
    one = run_session(tmp_path)

    asyncio.run(publish_state(one))

    assert (None, []) == (one.announcement, server.updated)


@pytest.mark.parametrize(
    ("state", "age_s", "stage", "said", "waits"),
    [
        (Running(), -5, "checks", "66 of 66 observations", False),
        (Running(), 60, "run", "running again, after it waited", False),
        (Suspended(message="ASK local"), 60, "run", "Suspended: ASK local", True),
        (Pending(), 60, "waiting", "Pending", True),
    ],
)
def test_a_run_that_was_answered_does_not_show_the_checks_of_before(
    state: State[Any], age_s: float, stage: str, said: str, waits: bool
) -> None:
    """Their progress is older than the run's state; while it waits for somebody, that is said, and seldom repeated."""

    at = state.timestamp - timedelta(seconds=age_s)
    checks = SimpleNamespace(data=100.0, description="66 of 66 observations", updated=at)
    client: Any = SimpleNamespace(read_artifacts=AsyncMock(return_value=[checks]))
    run = FlowRun(id=UUID(int=7), flow_id=UUID(int=7), state=state)
    shown = asyncio.run(follow._progress(client, run, ""))

    assert (stage, said, waits) == (shown.stage, shown.detail, shown.waits)


@pytest.mark.parametrize(
    ("name", "level", "text", "kept"),
    [
        (TASKS, logging.INFO, "Finished in state Completed()", False),
        (TASKS, logging.ERROR, "Finished in state Failed('boom')", True),
        (TASKS, logging.ERROR, f"Crash detected! {STOPPED}", False),
        (TASKS, logging.ERROR, f"Finished in state Crashed('{STOPPED}')", False),
        (TASKS, logging.ERROR, f"Crash detected! {RAISED}", True),
        (FLOWS, logging.ERROR, "Finished in state Suspended('ASK local: ...')", False),
        (FLOWS, logging.ERROR, "Finished in state Running()", False),
        (FLOWS, logging.ERROR, "Finished in state Refused('NO-GO local: ...')", True),
        (FLOWS, logging.INFO, "Finished in state Passed('GO local')", True),
        (FLOWS, logging.ERROR, "Encountered an exception: Suspended(", True),
        (FLOWS, logging.ERROR, f"Crash detected! {STOPPED}", True),
    ],
)
def test_stage_log_keeps_real_errors_only(name: str, level: int, text: str, kept: bool) -> None:
    """And what is one stays: a refusal, a task that failed, an exception, a run that was ended by nobody's cancellation."""
    assert kept is is_kept(logging.LogRecord(name, level, "engine.py", 1, text, None, None))


def test_prefect_still_writes_the_line_that_is_looked_for() -> None:
    """Another text would bring the errors back without a word."""
    for engine in (flow_engine, task_engine):
        assert 'f"Finished in state {display_state}"' in inspect.getsource(engine)
        assert 'f"Crash detected! {state.message}"' in inspect.getsource(engine)
    assert FINISHED.match(f"Finished in state {Suspended()}")
    assert STOPPED in inspect.getsource(states)
    names = inspect.getsource(loggers)
    assert all(f'"{name}"' in names for name in (FLOWS, TASKS))


def test_the_log_of_a_run_has_its_stages_and_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine may repeat one in its error. What lasts turns no terminal."""
    monkeypatch.setenv("MY_TOKEN", "hunter22-of-the-test")
    said = list[str]()
    monkeypatch.setattr(stage_log, "get_run_logger", lambda: SimpleNamespace(info=said.append))
    with logged_stages():
        report_progress(Progress("start", "refused: hunter22-of-the-test"))
        report_progress(Progress("adopt", "this gate continues a \x1b job", lasting=True))
        report_progress(Progress("checks", "pending"))

    assert [
        "start: refused: [removed] (0 s)",
        r"adopt: this gate continues a \x1b job",
        "checks: pending (0 s)",
    ] == said
