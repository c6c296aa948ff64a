"""Checks for the tests of rounds: one that measures, one that hangs, one that dies with its process, one that compares."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import pytest

from checks.check import CheckError, Context, Measurement, check
from checks.model import Scope
from checks.watch import round_child
from checks.watch.rounds import Rounds

COUNTER = "TOY_COUNTER"


@check("toy.steady", Scope.NODE, timeout_s=5, metrics=("value",), beside_job=True)
def steady(context: Context) -> Measurement:
    """Measures what the environment says."""
    return Measurement({"value": int(os.environ.get("TOY_VALUE", "0"))})


@check("toy.hangs", Scope.NODE, timeout_s=1, metrics=("value",), beside_job=True)
def hangs(context: Context) -> Measurement:
    """Never ends, if the environment says so."""
    if os.environ.get("TOY_HANGS"):
        time.sleep(3600)
    return Measurement({"value": 0})


@check("toy.dies", Scope.NODE, timeout_s=5, metrics=("value",), beside_job=True)
def dies(context: Context) -> Measurement:
    """Ends or stops its process, if the environment says so."""
    if number := os.environ.get("TOY_SIGNAL"):
        os.kill(os.getpid(), int(number))
        if int(number) == signal.SIGSTOP:
            time.sleep(3600)
    return Measurement({"value": 0})


def first_look(context: Context) -> Mapping[str, object]:
    """The counter, from a file."""
    try:
        return {"count": int(Path(os.environ[COUNTER]).read_text())}
    except ValueError as error:
        raise CheckError("the counter cannot be read") from error


@check("toy.compares", Scope.NODE, timeout_s=5, metrics=("grown",), before=first_look, beside_job=True)
def compares(context: Context) -> Measurement:
    """How much the counter grew since the first look."""
    if context.before is None:
        raise CheckError("there is nothing to compare with")
    return Measurement({"grown": int(first_look(context)["count"]) - int(context.before["count"])})  # type: ignore[call-overload]


@check("toy.leaves", Scope.NODE, timeout_s=5, metrics=("value",), beside_job=True)
def leaves(context: Context) -> Measurement:
    """Leaves a process behind, in a session of its own, if the environment says so."""
    if seconds := os.environ.get("TOY_LEAVES"):
        subprocess.Popen(("sleep", seconds), start_new_session=True)
    return Measurement({"value": 0})


CHECKS = (steady, hangs, dies, compares, leaves)


def in_forks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rounds whose child is a fork of the test, which has imported all that a Python of its own would import first."""

    def run(rounds: Rounds, path: Path) -> tuple[str, bool]:
        files = [str(rounds.scratch / name) for name in ("bundle.json", "roster.json")]
        child = os.fork()
        if child == 0:
            with suppress(BaseException):
                os.setsid()
                round_child.main([*files, rounds.node, str(rounds.scratch), str(path), *rounds.paths])
            os._exit(1)
        os.waitpid(child, 0)
        return "", True

    monkeypatch.setattr(Rounds, "_run", run)
