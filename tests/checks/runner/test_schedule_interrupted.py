"""Ctrl-C while checks run side by side: their processes are ended, not waited for."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from checks.check import Check
from checks.model import Observation, Outcome
from checks.runner import schedule
from tests.sample_reports import toy_check

Children = list[subprocess.Popen[bytes]]


def slow(children: Children) -> Callable[[Check], Observation]:
    """Checks that run in a child for a minute, but for "quick.one"."""

    def run(check: Check) -> Observation:
        if check.name != "quick.one":
            children.append(subprocess.Popen(("sleep", "60")))
            children[-1].wait()
        else:
            time.sleep(0.2)
        return Observation(check.name, "node-0", Outcome.MEASURED, 0.0, {"value": 1})

    return run


def interrupted(rows: Sequence[Observation]) -> None:
    """Ctrl-C as an observation comes."""
    raise KeyboardInterrupt


def test_an_interrupt_ends_what_the_checks_run_in() -> None:
    """The others would have run for a minute."""
    children: Children = []
    checks = [toy_check("slow.one"), toy_check("quick.one"), toy_check("slow.two")]
    begun = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        schedule.run_all(checks, slow(children), interrupted)

    assert time.monotonic() - begun < 20
    assert [-9, -9] == [child.returncode for child in children]


def test_an_interrupt_as_a_check_is_started_ends_it_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its thread runs, and nobody has noted that."""
    begin = schedule._begun

    def begun_and_interrupted(*given: Any) -> Any:
        begin(*given)
        time.sleep(0.3)
        raise KeyboardInterrupt

    children: Children = []
    monkeypatch.setattr(schedule, "_begun", begun_and_interrupted)
    begun = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        schedule.run_all([toy_check("slow.one")], slow(children), interrupted)

    assert time.monotonic() - begun < 20
    assert [-9] == [child.returncode for child in children]
