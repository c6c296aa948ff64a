"""The warning about a training script with a relative path, on engines whose preflight cannot see it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import cast

import pytest

from tasks.launchers.base import Launcher, Plan, PreflightCheck, PreflightResult, Work
from tasks.launchers.preflight import for_people, missing_script, preflight

SEEN = PreflightCheck("slurmctld", PreflightResult.OK, "it is up")


@dataclass
class Engine:
    """What its preflight says, whatever the plans are."""

    said: tuple[PreflightCheck, ...] = (SEEN,)

    def preflight(self, plans: tuple[Plan, ...]) -> tuple[PreflightCheck, ...]:
        """The lines of the test."""
        return self.said


def lines(
    script: str, *said: PreflightCheck, work: Work = Work.CONFIRM, unverified: tuple[PreflightCheck, ...] = ()
) -> tuple[PreflightCheck, ...]:
    """The preflight of one job with this script."""
    job = SimpleNamespace(script=script, work=work)
    plan = cast("Plan", SimpleNamespace(job=job, unverified=unverified))
    return preflight(cast("Launcher", Engine(said or (SEEN,))), (plan, plan))


@pytest.mark.parametrize("script", ["train.py", "src/train.py", "./run", "../train.py"])
def test_a_relative_path_is_a_warning(script: str) -> None:
    """The paid checks would run first, and then the training would not find it."""
    first, *rest = lines(script)

    assert [SEEN] == rest
    assert (PreflightResult.WARNING, "training.command") == (first.result, first.key)
    assert repr(script) in first.text and "{here}" in first.remedy


@pytest.mark.parametrize("script", ["", "/fsx/train.py", "python3", "bash", "{script}.py"])
def test_script_that_is_no_relative_path_has_no_warning(script: str) -> None:
    """An absolute path, a program of the PATH, and a word that the node fills in."""
    assert (SEEN,) == lines(script)


def test_script_warning_of_the_engine_is_not_repeated() -> None:
    """It knows more; and a job that only checks trains nothing."""
    known = missing_script("train.py", "no such file")

    assert (known,) == lines("train.py", known)
    assert (SEEN,) == lines("train.py", work=Work.CHECK)


def test_unverifiable_plan_line_is_reported_once() -> None:
    """Such as what an image contains."""
    unknown = PreflightCheck("tools in the image", PreflightResult.UNSEEN, "it may lack them")

    assert (SEEN, unknown) == lines("", unverified=(unknown,))


def test_what_one_fault_hides_is_one_line() -> None:
    """A login that is missing hides eight things of SageMaker, and is said once."""
    login = PreflightCheck("credentials", PreflightResult.WRONG, "there are none")
    hidden = [replace(SEEN, subject=name, hidden_by="credentials") for name in ("image", "quota", "image")]

    first, last = for_people([login, *hidden])
    said = "what needs credentials: image, quota could not be looked at. See the line on credentials."
    assert (login, said) == (first, last.text)
