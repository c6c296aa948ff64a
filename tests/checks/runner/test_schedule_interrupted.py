"""Ctrl-C while checks run side by side: their processes are ended, not waited for."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any
from unittest import mock

import pytest

from checks.check import Check
from checks.model import Observation, Outcome
from checks.runner import schedule
from tests.sample_reports import toy_check

Children = list[subprocess.Popen[bytes]]


def slow(children: Children) -> Callable[[Check], Observation]:
    """Checks that run in a child for ten minutes, but for "quick.one"."""

    def run(check: Check) -> Observation:
        if check.name != "quick.one":
            children.append(subprocess.Popen(("sleep", "600")))
            children[-1].wait()
        else:
            time.sleep(0.2)
        return Observation(check.name, "node-0", Outcome.MEASURED, 0.0, {"value": 1})

    return run


def interrupted(rows: Sequence[Observation]) -> None:
    """Ctrl-C as an observation comes."""
    raise KeyboardInterrupt


def run_all(*names: str) -> None:
    """Print how the checks' processes ended, once the interrupted schedule has raised."""
    children: Children = []
    with pytest.raises(KeyboardInterrupt):
        schedule.run_all([toy_check(name) for name in names], slow(children), interrupted)

    print([child.returncode for child in children])


def run_one_that_is_interrupted_at_its_start() -> None:
    """The same where Ctrl-C comes while the thread of a check runs and nobody has noted that."""
    begin = schedule._begun

    def begun_and_interrupted(*given: Any) -> Any:
        begin(*given)
        time.sleep(0.3)
        raise KeyboardInterrupt

    with mock.patch.object(schedule, "_begun", begun_and_interrupted):
        run_all("slow.one")


def of_its_own(call: str) -> str:
    """What a process prints that runs a function of this module: the schedule ends all children of its process."""
    code = f"from tests.checks.runner import test_schedule_interrupted as module; module.{call}"
    done = subprocess.run((sys.executable, "-c", code), capture_output=True, text=True)
    assert 0 == done.returncode, done.stderr
    return done.stdout.strip()


def test_an_interrupt_ends_what_the_checks_run_in() -> None:
    """The others would have run for ten minutes."""
    assert "[-9, -9]" == of_its_own("run_all('slow.one', 'quick.one', 'slow.two')")


def test_an_interrupt_as_a_check_is_started_ends_it_too() -> None:
    """Its thread runs, and nobody has noted that."""
    assert "[-9]" == of_its_own("run_one_that_is_interrupted_at_its_start()")
