"""What runs beside what; and on Ctrl-C the processes of all checks are ended, not waited for."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any
from unittest import mock

import pytest

from checks.check import Check, Resource
from checks.model import Observation, Outcome
from checks.runner import schedule
from tests.sample_reports import toy_check


def _check(name: str, *uses: Resource) -> Check:
    return replace(toy_check(name), uses=uses)


def _row(check: Check) -> Observation:
    return Observation(check.name, "node-0", Outcome.MEASURED, 0.0, {"value": 1})


CPU, DISK = _check("cpu.stress", Resource.CPU), _check("disk.io", Resource.DISK)
SECOND_CPU, LIGHT = _check("cpu.again", Resource.CPU, Resource.MEMORY), _check("kernel.xid")


@pytest.mark.parametrize(
    ("running", "most", "expected"),
    [
        ((), 4, "cpu.again"),
        ((CPU,), 4, "disk.io"),
        ((CPU, DISK), 4, "kernel.xid"),
        ((CPU, DISK, LIGHT), 3, None),
    ],
)
def test_schedule_picks_the_first_waiting_check_with_free_resources(
    running: tuple[Check, ...], most: int, expected: str | None
) -> None:
    """The first waiting check whose resources nobody holds, within the bound."""
    waiting = [check for check in (SECOND_CPU, DISK, LIGHT) if check not in running]
    found = schedule.next_of(waiting, running, most)

    assert (found.name if found else None) == expected


def test_no_two_hold_one_resource_and_everything_runs_once() -> None:
    """Watched from inside: those that need the CPU never overlap, the others do."""
    lock, held, overlaps, ran = threading.Lock(), set[str](), list[set[str]](), list[str]()

    def run(check: Check) -> Observation:
        with lock:
            held.add(check.name)
            overlaps.append(set(held))
        time.sleep(0.02)
        with lock:
            held.discard(check.name)
        return _row(check)

    checks = [CPU, SECOND_CPU, DISK, LIGHT]
    schedule.run_all(checks, run, lambda rows: ran.extend(row.check for row in rows))

    assert sorted(ran) == sorted(check.name for check in checks)
    assert not any({"cpu.stress", "cpu.again"} <= together for together in overlaps)
    assert any(len(together) > 1 for together in overlaps)


def test_schedule_runs_the_other_checks_when_one_raises() -> None:
    """A crash of the caller's own is raised when the rows of all others have been kept."""
    kept: list[Observation] = []

    def run(check: Check) -> Observation:
        if check.name == "bad.one":
            raise RuntimeError("can't start new thread")
        return _row(check)

    checks = [_check(name) for name in ("bad.one", "a.b", "c.d", "e.f")]
    with pytest.raises(RuntimeError):
        schedule.run_all(checks, run, kept.extend, most=2)

    assert ["a.b", "c.d", "e.f"] == sorted(row.check for row in kept)


def test_a_row_that_cannot_be_kept_does_not_cost_the_others() -> None:
    """Whoever is told of each check stumbles once."""
    kept: list[str] = []

    def keep(rows: Sequence[Observation]) -> None:
        kept.extend(row.check for row in rows)
        if "a.b" in kept[-1:]:
            raise OSError("no space left")

    with pytest.raises(OSError, match="no space"):
        schedule.run_all([_check(name) for name in ("a.b", "c.d", "e.f")], _row, keep, most=1)

    assert ["a.b", "c.d", "e.f"] == kept


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
    code = f"from tests.checks.runner import test_schedule as module; module.{call}"
    done = subprocess.run((sys.executable, "-c", code), capture_output=True, text=True)
    assert 0 == done.returncode, done.stderr
    return done.stdout.strip()


def test_an_interrupt_ends_what_the_checks_run_in() -> None:
    """The others would have run for ten minutes."""
    assert "[-9, -9]" == of_its_own("run_all('slow.one', 'quick.one', 'slow.two')")


def test_an_interrupt_as_a_check_is_started_ends_it_too() -> None:
    """Its thread runs, and nobody has noted that."""
    assert "[-9]" == of_its_own("run_one_that_is_interrupted_at_its_start()")
