"""The log of a run in Prefect: the stages of its gate, and no error where there is none."""

from __future__ import annotations

import inspect
import logging
from types import SimpleNamespace

import pytest
from prefect import flow_engine, states, task_engine
from prefect.logging import loggers
from prefect.states import Suspended

from tasks.gate.progress import Progress, report_progress
from tasks.orchestration import stage_log
from tasks.orchestration.stage_log import FINISHED, FLOWS, STOPPED, TASKS, is_kept, logged_stages


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
