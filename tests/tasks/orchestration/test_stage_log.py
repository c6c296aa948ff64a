"""The log of a run names each stage of its gate with its time, and what is no stage once."""

from __future__ import annotations

import inspect
import logging

import pytest
from prefect import flow_engine, states, task_engine
from prefect.logging import loggers
from prefect.states import Suspended

from tasks.gate.progress import Progress
from tasks.orchestration.stage_log import FINISHED, FLOWS, STOPPED, TASKS, StageLog, is_kept


def test_each_stage_has_a_line_as_it_begins_and_as_it_ends() -> None:
    """What changes within a stage is not logged each time; its last state is."""
    now, said = [0.0], list[str]()
    stages = StageLog(said.append, lambda: now[0])
    for at, progress in (
        (0, Progress("start", "job g-check-1 is being submitted (engine local)")),
        (2, Progress("checks", "pending")),
        (3, Progress("checks", "20 of 66 observations")),
        (4, Progress("adopt", "this gate continues a job", lasting=True)),
        (12, Progress("checks", "66 of 66 observations")),
        (14, Progress("verdict", "GO local: \x1b[31mall is well")),
        (15, Progress("end", "job x could not be ended", unended=True)),
    ):
        now[0] = float(at)
        stages.progress(progress)
    now[0] = 15.0
    stages.end()
    stages.end()

    assert said == [
        "start: job g-check-1 is being submitted (engine local)",
        "start: ended after 2 s",
        "checks: pending",
        "adopt: this gate continues a job",
        "checks: ended after 12 s: 66 of 66 observations",
        "verdict: GO local: \\x1b[31mall is well",
        "verdict: ended after 1 s",
    ]


def test_a_stage_that_says_one_thing_and_is_over_has_one_line() -> None:
    """A question that is asked by a process which then ends."""
    said = list[str]()
    stages = StageLog(said.append, lambda: 0.0)
    stages.progress(Progress("question", "ASK local: waiting for approval"))
    stages.end()

    assert ["question: ASK local: waiting for approval"] == said


@pytest.mark.parametrize(
    ("name", "level", "text", "kept"),
    [
        (TASKS, logging.INFO, "Finished in state Completed()", False),
        (TASKS, logging.ERROR, "Finished in state Failed('boom')", True),
        (TASKS, logging.ERROR, f"Crash detected! {STOPPED}", False),
        (TASKS, logging.ERROR, f"Finished in state Crashed('{STOPPED}')", False),
        (
            TASKS,
            logging.ERROR,
            "Crash detected! Execution was interrupted by an exception: MemoryError",
            True,
        ),
        (FLOWS, logging.ERROR, "Finished in state Suspended('ASK local: ...')", False),
        (FLOWS, logging.ERROR, "Finished in state Running()", False),
        (FLOWS, logging.ERROR, "Finished in state Refused('NO-GO local: ...')", True),
        (FLOWS, logging.INFO, "Finished in state Passed('GO local')", True),
        (FLOWS, logging.ERROR, "Encountered an exception: Suspended(", True),
        (FLOWS, logging.ERROR, f"Crash detected! {STOPPED}", True),
    ],
)
def test_what_is_no_error_is_not_logged_as_one(name: str, level: int, text: str, kept: bool) -> None:
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


def test_no_secret_is_logged(monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine may repeat one in its error."""
    monkeypatch.setenv("MY_TOKEN", "hunter22-of-the-test")
    said = list[str]()
    StageLog(said.append).progress(Progress("start", "refused: hunter22-of-the-test"))

    assert ["start: refused: [removed]"] == said
