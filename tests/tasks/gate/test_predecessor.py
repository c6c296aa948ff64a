"""A gate that continues a job of an earlier run says so, in a line that stays."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Mapping
from pathlib import Path

import pytest
from rich.console import Console

from tasks.gate.outcome import GateOutcome
from tasks.gate.progress import LISTENER, LiveProgress, Progress
from tasks.launchers.base import JobState, JobStatus, Placement
from tasks.provision import settle_lease
from tests.tasks.sessions import CHECK_JOB, TRAIN_JOB, FakeEngine, session

RUNS = JobStatus(JobState.RUNNING, "job 17 is RUNNING", "", {})
FAILED = JobStatus(JobState.FAILED, "job 17 is FAILED", "", {})
LINE = f"this gate continues job {TRAIN_JOB} of an earlier run, whose process is gone (running: job 17 is RUNNING)"


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
    heard = Heard()
    token = LISTENER.set(heard)
    try:
        with session(tmp_path, FakeEngine(placement, states=dict(states)), adopted=adopted) as one:
            asyncio.run(settle_lease(one))
    finally:
        LISTENER.reset(token)

    assert [progress.detail for progress in heard.lines if progress.stage == "adopt"] == said
    assert all(progress.lasting for progress in heard.lines if progress.stage == "adopt")


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
