"""The log of a run names each stage of its gate with its time, and what is no stage once."""

from __future__ import annotations

import inspect
import logging

import pytest
from prefect import flow_engine, states, task_engine
from prefect.logging import loggers
from prefect.states import Suspended

from tasks.gate.progress import Progress
from tasks.orchestration.stage_log import FINISHED, FLOWS, STOPPED, TASKS, EndLines, StageLog


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


def line(name: str, level: int, text: str) -> logging.LogRecord:
    """A line of Prefect's."""
    return logging.LogRecord(name, level, "engine.py", 1, text, None, None)


@pytest.mark.parametrize(
    ("name", "level", "text", "kept"),
    [
        (TASKS, logging.INFO, "Finished in state Completed()", None),
        (TASKS, logging.ERROR, "Finished in state Failed('boom')", "ERROR"),
        (FLOWS, logging.ERROR, "Finished in state Suspended('ASK local: ...')", "INFO"),
        (FLOWS, logging.ERROR, "Finished in state Paused()", "INFO"),
        (FLOWS, logging.ERROR, "Finished in state Running()", None),
        (FLOWS, logging.ERROR, "Finished in state Refused('NO-GO local: ...')", "ERROR"),
        (FLOWS, logging.ERROR, "Finished in state CannotTell()", "ERROR"),
        (FLOWS, logging.INFO, "Finished in state Passed('GO local')", "INFO"),
        (FLOWS, logging.ERROR, "Encountered an exception: Suspended(", "ERROR"),
        (TASKS, logging.ERROR, f"Crash detected! {STOPPED}", None),
        (TASKS, logging.ERROR, f"Finished in state Crashed('{STOPPED}')", None),
        (
            TASKS,
            logging.ERROR,
            "Crash detected! Execution was interrupted by an unexpected exception: MemoryError",
            "ERROR",
        ),
        (
            TASKS,
            logging.ERROR,
            "Finished in state Crashed('Execution was aborted by a termination signal.')",
            "ERROR",
        ),
        (FLOWS, logging.ERROR, f"Crash detected! {STOPPED}", "ERROR"),
        (FLOWS, logging.ERROR, f"Finished in state Crashed('{STOPPED}')", "ERROR"),
    ],
)
def test_what_is_no_error_is_not_logged_as_one(name: str, level: int, text: str, kept: str | None) -> None:
    """And what is one stays: a refusal, a task that failed, an exception, a run that was ended by nobody's cancellation."""
    record = line(name, level, text)

    assert (kept is not None) is EndLines().filter(record)
    assert kept in (None, record.levelname)


def test_prefect_still_writes_the_line_that_is_looked_for() -> None:
    """Another text would bring the errors back without a word."""
    for engine in (flow_engine, task_engine):
        assert 'f"Finished in state {display_state}"' in inspect.getsource(engine)
        assert 'f"Crash detected! {state.message}"' in inspect.getsource(engine)
    assert FINISHED.match(f"Finished in state {Suspended()}")
    assert STOPPED in inspect.getsource(states)
    names = inspect.getsource(loggers)
    assert all(f'"{name}"' in names for name in (FLOWS, TASKS))


def test_a_sentence_stands_in_place_of_a_runs_last_line() -> None:
    """Once, and of no other run; its level is Prefect's, so that a failure stays red."""
    ends, records = EndLines(), []
    ends.last["run-1"] = "reap looked at 1 run, and ended nothing: g: is alive"
    for run, level in (("run-2", logging.INFO), ("run-1", logging.ERROR), ("run-1", logging.INFO)):
        record = line(FLOWS, level, "Finished in state LeftAlone('g: is alive')")
        record.flow_run_id = run
        assert ends.filter(record)
        records.append((record.levelno, record.getMessage().partition("(")[0]))

    prefects = "Finished in state LeftAlone"
    said = "reap looked at 1 run, and ended nothing: g: is alive"
    assert [(logging.INFO, prefects), (logging.ERROR, said), (logging.INFO, prefects)] == records


def test_no_secret_is_logged(monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine may repeat one in its error."""
    monkeypatch.setenv("MY_TOKEN", "hunter22-of-the-test")
    said = list[str]()
    StageLog(said.append).progress(Progress("start", "refused: hunter22-of-the-test"))

    assert ["start: refused: [removed]"] == said
