"""What the preflights of all engines share: their lines, the order of their checks, and what a planned job needs on its nodes.

PyTorch is needed by rank checks, and by a training that torchrun starts; a training also needs the file that it starts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from checks import bundle as bundles
from checks.check import CatalogError
from checks.model import Scope
from checks.value_types import DecodeError
from tasks.launchers.base import JobSpec, Launcher, LaunchError, Plan, PreflightCheck, PreflightResult, Work
from tasks.launchers.interruption import is_interrupted
from tasks.text.interpreters import PYTHON

LONGEST_S = 60.0
FOR_CHECKS = "PyTorch for the rank checks"
FOR_TRAINING = "PyTorch for the training, which torchrun starts"
TORCHRUN = ("{python}", "-m", "torch.distributed.run")
SUBJECT, KEY = "training script", "training.command"
REMEDY = "Write its path into command of [training]: an absolute one, or one from the gate file's folder, such as {here}/../train.py."


def preflight(launcher: Launcher, plans: tuple[Plan, ...]) -> tuple[PreflightCheck, ...]:
    """What the launcher's preflight says, what no preflight can find out about the plans, and a warning for a script with a relative
    path of which it says nothing.
    """
    unverified = dict.fromkeys(line for plan in plans for line in plan.unverified)
    lines = (*launcher.preflight(plans), *unverified)
    scripts = [plan.job.script for plan in plans if plan.job.work.trains and is_relative(plan.job.script)]
    if not scripts or any(line.subject == SUBJECT for line in lines):
        return lines
    why = "it is a relative path, and a job begins in a folder of its own, which has no such file unless an image brings it"
    warning = PreflightCheck(SUBJECT, PreflightResult.WARNING, f"{scripts[0]!r:.300}: {why}", REMEDY, key=KEY)
    return (warning, *lines)


def run_checks(
    lines: list[PreflightCheck],
    checks: Iterable[Callable[[], Iterable[PreflightCheck]]],
    explain: Callable[[LaunchError], PreflightCheck],
) -> tuple[PreflightCheck, ...]:
    """The lines with those of each check in turn. It ends by a deadline; `explain` is the line for a check that could not be made."""
    deadline = time.monotonic() + LONGEST_S
    for check in checks:
        if time.monotonic() > deadline or is_interrupted():
            why = "because the gate is to end" if is_interrupted() else f"after {LONGEST_S:g} s"
            return (*lines, unseen("preflight", f"it was stopped {why}"))
        try:
            lines += check()
        except LaunchError as error:
            lines.append(explain(error))
    return tuple(dict.fromkeys(lines))


def ok(subject: str, message: str) -> PreflightCheck:
    """What is as the plan needs it."""
    return PreflightCheck(subject, PreflightResult.OK, message)


def wrong(subject: str, message: str, remedy: str = "") -> PreflightCheck:
    """What has to be corrected before a gate can start."""
    return PreflightCheck(subject, PreflightResult.WRONG, message, remedy)


def no_capacity(subject: str, message: str, remedy: str = "") -> PreflightCheck:
    """Nothing is wrong, and there are no machines for it now."""
    return PreflightCheck(subject, PreflightResult.NO_CAPACITY, message, remedy)


def unseen(subject: str, message: str, remedy: str = "") -> PreflightCheck:
    """What could not be checked, which keeps no gate from starting."""
    return PreflightCheck(subject, PreflightResult.UNSEEN, message, remedy)


def unanswered(subject: str, message: str, remedy: str) -> PreflightCheck:
    """The engine itself gave no answer."""
    return PreflightCheck(subject, PreflightResult.UNSEEN, message, remedy, unreachable=True)


def has_rank_checks(job: JobSpec) -> bool:
    """Whether a check of a rank is planned and not skipped."""
    if job.work not in (Work.CHECK, Work.GATE):
        return False
    try:
        bundle = bundles.load(job.files["bundle.json"])
        _, planned = bundles.plan_of(bundle)
    except (KeyError, DecodeError, CatalogError):
        return False  # the node says what is wrong with it
    return any(
        row.scope is Scope.RANK and row.skip is None and row.check not in bundle.skip for row in planned
    )


def starts_torchrun(job: JobSpec) -> bool:
    """Whether torchrun starts the training."""
    return job.work.trains and job.behind[: len(TORCHRUN)] == TORCHRUN


def training_script(distributed: str, command: Sequence[str]) -> str:
    """The script of torchrun, or the program; of an interpreter's command its script. "" where an option is where it would be."""
    words = list(command)
    if words and distributed != "torchrun" and PYTHON.fullmatch(words[0]):
        words = words[1:]
    return "" if not words or words[0].startswith("-") else words[0]


def is_relative(script: str) -> bool:
    """Whether it is a relative path of a file, and neither a name on the PATH nor a word that only the node fills in."""
    named = "/" in script or script.endswith(".py")
    return bool(script) and named and "{" not in script and not Path(script).is_absolute()


def missing_script(script: str, why: str) -> PreflightCheck:
    """The training would fail at its start, after the checks."""
    return PreflightCheck(SUBJECT, PreflightResult.WRONG, f"{script!r:.300}: {why}", REMEDY, key=KEY)
