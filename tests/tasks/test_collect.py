"""From when the gate counts the checks' deadline, and when it waits no longer for nodes or for the engine."""

from __future__ import annotations

import asyncio
import math
import threading

import pytest

from tasks.collect import CheckDeadline
from tasks.gate.blocking_calls import run_within
from tasks.launchers.base import Delays, JobState


def test_waiting_for_machines_is_no_part_of_the_deadline() -> None:
    """It counts from the first report of a node."""
    clock = CheckDeadline(120.0, Delays(5.0), 3.0)
    clock.see(JobState.PENDING, "", 1000.0)
    waiting = clock.gives_up_at
    clock.see(JobState.RUNNING, "", 2000.0)
    clock.see(JobState.RUNNING, "a1", 2002.0)
    clock.see(JobState.RUNNING, "a1", 2050.0)

    assert math.inf == waiting
    assert (2002.0 + 120.0 + 3.0, 2002.0 + 120.0 + 5.0) == (clock.gives_up_at, clock.answer_by)


def test_a_job_that_is_started_again_has_its_whole_time_for_checks_again() -> None:
    """It was requeued, or lost its machines: reports of the start before are no sign of the new one."""
    clock = CheckDeadline(120.0, Delays(5.0), 3.0)
    clock.see(JobState.RUNNING, "a1", 2000.0)
    clock.see(JobState.PENDING, "a1", 2100.0)
    waiting = clock.gives_up_at
    clock.see(JobState.RUNNING, "a1", 9000.0)
    joining = clock.gives_up_at
    clock.see(JobState.RUNNING, "a2", 9004.0)

    assert (math.inf, 9000.0 + 5.0 + 120.0 + 3.0) == (waiting, joining)
    assert 9004.0 + 120.0 + 3.0 == clock.gives_up_at


def test_nodes_that_never_report_are_given_up_as_well() -> None:
    """All of them may have been stopped before their first word: then it counts from the engine's."""
    clock = CheckDeadline(120.0, Delays(5.0), 3.0)
    clock.see(JobState.RUNNING, "", 2000.0)

    assert 2000.0 + 5.0 + 120.0 + 3.0 == clock.gives_up_at


def test_an_engine_that_is_slow_to_say_that_a_job_ended_has_its_time_once_all_is_measured() -> None:
    """A pool that is cut off at its end would be lost for the training."""
    clock = CheckDeadline(120.0, Delays(300.0, reports_s=30.0, ends_s=900.0), 3.0)
    clock.see(JobState.RUNNING, "a1", 0.0)
    unfinished = clock.gives_up_at
    clock.complete = True

    assert (153.0, 1023.0) == (unfinished, clock.gives_up_at)


def test_call_that_does_not_answer_is_left_behind() -> None:
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
