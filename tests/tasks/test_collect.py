"""From when the gate counts the checks' deadline, and when it waits no longer for nodes or for the engine."""

from __future__ import annotations

import asyncio
import math
import threading

import pytest

from tasks.collect import CheckDeadline
from tasks.gate.blocking_calls import ask_state, run_within
from tasks.launchers.base import Delays, JobState, JobStatus, Trouble


def test_waiting_for_machines_is_no_part_of_the_deadline() -> None:
    """It counts from the first report of a node."""
    clock = CheckDeadline(120.0, Delays(5.0), 3.0)
    clock.see(JobState.PENDING, False, 1000.0)
    waiting = clock.gives_up_at
    clock.see(JobState.RUNNING, False, 2000.0)
    clock.see(JobState.RUNNING, True, 2002.0)
    clock.see(JobState.RUNNING, True, 2050.0)

    assert (math.inf, 2002.0 + 120.0 + 3.0, 2002.0 + 120.0 + 5.0) == (
        waiting,
        clock.gives_up_at,
        clock.answer_by,
    )


def test_nodes_that_never_report_are_given_up_as_well() -> None:
    """All of them may have been stopped before their first word: then it counts from the engine's."""
    clock = CheckDeadline(120.0, Delays(5.0), 3.0)
    clock.see(JobState.RUNNING, False, 2000.0)

    assert 2000.0 + 5.0 + 120.0 + 3.0 == clock.gives_up_at


def test_an_engine_that_is_slow_to_say_that_a_job_ended_has_its_time_once_all_is_measured() -> None:
    """A pool that is cut off at its end would be lost for the training."""
    clock = CheckDeadline(120.0, Delays(300.0, reports_s=30.0, ends_s=900.0), 3.0)
    clock.see(JobState.RUNNING, True, 0.0)
    unfinished = clock.gives_up_at
    clock.complete = True

    assert (153.0, 1023.0) == (unfinished, clock.gives_up_at)


def test_what_does_not_answer_is_left_behind() -> None:
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


class Answers:
    """A fake engine that gives these states in turn, and the last one for ever; "absent" is an answer that it has no such job."""

    poll_s = 0.0

    def __init__(self, *words: str) -> None:
        self.words, self.asked = words, 0

    def state(self, name: str) -> JobStatus:
        """The next one."""
        word = self.words[min(self.asked, len(self.words) - 1)]
        self.asked += 1
        if word == "absent":
            return JobStatus(JobState.UNKNOWN, f"no job {name}", "", {}, absent=True)
        return JobStatus(JobState(word), word, "a1", {"n0": 0})


@pytest.mark.parametrize(
    ("before", "words", "state", "asked"),
    [
        ("running", ("absent",), JobState.CANCELLED, 4),
        ("pending", ("absent",), JobState.CANCELLED, 4),
        ("running", ("absent", "running"), JobState.RUNNING, 2),
        ("pending", ("absent", "absent", "absent", "pending"), JobState.PENDING, 4),
        ("running", ("absent", "unknown"), JobState.UNKNOWN, 2),
        ("running", ("absent", "succeeded"), JobState.SUCCEEDED, 2),
        ("running", ("failed",), JobState.FAILED, 1),
        ("unknown", ("absent",), JobState.UNKNOWN, 1),
        ("unknown", ("pending",), JobState.PENDING, 1),
    ],
)
def test_a_job_that_was_seen_and_that_its_engine_has_no_more_was_deleted(
    before: str, words: tuple[str, ...], state: JobState, asked: int
) -> None:
    """An engine that forgets it for a moment, or has not heard of it yet right after the submit, is not believed."""
    engine = Answers(*words)
    last = JobStatus(JobState(before), before, "a1", {"n0": 0})
    status = asyncio.run(ask_state(engine, "job", 5.0, last))  # type: ignore[arg-type]

    assert (state, asked) == (status.state, engine.asked)
    if state is JobState.CANCELLED:
        assert (Trouble.STOPPED, "a1", "somebody has deleted it: no job job") == (
            status.trouble,
            status.attempt,
            status.detail,
        )
