"""What the preflights of all engines share: their lines, the order of their checks, and what a planned job needs on its nodes.

PyTorch is needed by rank checks, and by a training that torchrun starts; a training also needs the file that it starts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
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
    lines = (*launcher.preflight(plans), *dict.fromkeys(line for plan in plans for line in plan.unverified))
    scripts = [plan.job.script for plan in plans if plan.job.work.trains and is_relative(plan.job.script)]
    if not scripts or any(line.subject == SUBJECT for line in lines):
        return lines
    text = "it is a relative path, and a job begins in a folder of its own, which has no such file unless an image brings it"
    return (replace(missing_script(scripts[0], text), result=PreflightResult.WARNING), *lines)


def run_checks(
    lines: list[PreflightCheck],
    checks: Iterable[Callable[[], Iterable[PreflightCheck]]],
    explain: Callable[[LaunchError], PreflightCheck],
) -> tuple[PreflightCheck, ...]:
    """The lines with those of each check in turn. It ends by a deadline; `explain` is the line for a check that could not be made."""
    deadline = time.monotonic() + LONGEST_S
    for check in checks:
        if time.monotonic() > deadline or is_interrupted():
            reason = "because the gate is to end" if is_interrupted() else f"after {LONGEST_S:g} s"
            return (*lines, unseen("preflight", f"it was stopped {reason}"))
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


def for_people(lines: Sequence[PreflightCheck]) -> list[PreflightCheck]:
    """The lines, but one line at their end about everything that one fault hides."""
    hidden: dict[str, list[str]] = {}
    for line in lines:
        hidden.setdefault(line.hidden_by, []).append(line.subject)
    merged = [line for line in lines if not line.hidden_by]
    for cause, subjects in hidden.items():
        if cause:
            text = f"{', '.join(dict.fromkeys(subjects))} could not be looked at. See the line on {cause}."
            merged.append(unseen(f"what needs {cause}", text))
    return merged


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
        item.scope is Scope.RANK and item.skip is None and item.check not in bundle.skip for item in planned
    )


def starts_torchrun(job: JobSpec) -> bool:
    """Whether torchrun starts the training."""
    return job.work.trains and job.training[: len(TORCHRUN)] == TORCHRUN


def training_script(distributed: str, command: Sequence[str]) -> str:
    """The script of torchrun, or the program; of an interpreter's command its script. "" where an option is where it would be."""
    arguments = list(command)
    if arguments and distributed != "torchrun" and PYTHON.fullmatch(arguments[0]):
        arguments = arguments[1:]
    return "" if not arguments or arguments[0].startswith("-") else arguments[0]


def is_relative(script: str) -> bool:
    """Whether it is a relative path of a file, and neither a name on the PATH nor a word that only the node fills in."""
    has_path_form = "/" in script or script.endswith(".py")
    return bool(script) and has_path_form and "{" not in script and not Path(script).is_absolute()


def missing_script(script: str, reason: str) -> PreflightCheck:
    """The training would fail at its start, after the checks."""
    return PreflightCheck(SUBJECT, PreflightResult.WRONG, f"{script!r:.300}: {reason}", REMEDY, key=KEY)
