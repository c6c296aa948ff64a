"""What an engine says of a job without reports: an exit code each, and none of it condemns hardware."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from checks.model import Cause
from tasks.launchers.base import JobState, JobStatus, NoCapacity, Trouble
from tasks.troubles import require_reports
from tasks.watch import Times, Watched, pause_s
from tests.flows.driving import gate_it, play
from tests.flows.fake_engine import Engine
from tests.flows.pools import engine, fake_gate
from tests.prefect_backend import prefect_backend, template_dir

__all__ = ["engine", "play", "prefect_backend", "template_dir"]
FAILED = JobStatus(JobState.FAILED, "the engine's words", "", {}, history=("Starting", "Failed: why"))
needs_server = pytest.mark.usefixtures("prefect_backend", "play")


@needs_server
@pytest.mark.parametrize(
    ("trouble", "name", "code"),
    [
        (Trouble.CONFIGURATION, "Rejected", 2),
        (Trouble.NO_CAPACITY, "NoCapacity", 5),
        (Trouble.SERVICE, "NoCapacity", 5),
        (Trouble.ENDED, "CannotTell", 3),
        (Trouble.STOPPED, "CannotTell", 3),
        (Trouble.MAX_RUNTIME, "CannotTell", 3),
    ],
)
def test_a_job_without_reports_ends_as_the_engine_says(
    tmp_path: Path, engine: Engine, trouble: Trouble, name: str, code: int
) -> None:
    """The request is wrong, there are no machines, the service failed; else nobody can tell."""
    engine.endings = [dataclasses.replace(FAILED, trouble=trouble)]

    state, outcome = gate_it(fake_gate(tmp_path))

    assert (name, code) == (state.name, outcome.code)
    assert "the engine's words" in outcome.reason or outcome.judged is not None
    assert engine.idle
    if outcome.judged is not None:
        said = " ".join(outcome.judged.report.collection)
        assert "node-0: its command did not end; its log ends: the last words of node-0" in said
        assert (
            f"said of {outcome.gate_id}-check-1: Starting; Failed: why" in outcome.judged.report.collection[1]
        )
        assert {Cause.EVIDENCE} == {finding.cause for finding in outcome.judged.verdict.findings}


@needs_server
def test_capacity_that_fails_later_is_waited_for_as_well(tmp_path: Path, engine: Engine) -> None:
    """The engine took the request, and had no machines for it after all."""
    engine.endings = [dataclasses.replace(FAILED, trouble=Trouble.NO_CAPACITY)]

    _, outcome = gate_it(fake_gate(tmp_path, cluster="capacity_wait_minutes = 0.1"))

    assert (0, 3) == (outcome.code, engine.count("submit"))


def test_a_job_that_never_ran_found_no_machines() -> None:
    """It was given up while it waited for them."""
    waiting = JobStatus(JobState.PENDING, "Insufficient capacity error, retrying!", "", {})

    with pytest.raises(NoCapacity, match="retrying"):
        require_reports(Watched("j", waiting, "it did not run within 60 s and has been ended"))


def test_times_are_counted_by_state() -> None:
    """Waiting for machines, running, and silence are limited each by its own limit."""
    times = Times()
    for state, seconds in (
        (JobState.PENDING, 50.0),
        (JobState.RUNNING, 3.0),
        (JobState.UNKNOWN, 2.0),
        (JobState.UNKNOWN, 2.0),
    ):
        times.add(state, seconds)

    assert Times(0.0, 7.0, 4.0) == times


def test_what_takes_long_is_asked_more_seldom() -> None:
    """From the launcher's own pace to three times that, or five seconds."""
    assert [0.2, 1.0, 5.0] == [pause_s(0.2, seconds) for seconds in (0.0, 100.0, 9000.0)]
    assert [5.0, 15.0] == [pause_s(5.0, seconds) for seconds in (0.0, 9000.0)]
