"""The file that a training starts, as far as its command says it, and what preflight says where it is missing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tasks.launchers.base import Launcher, Plan, PreflightCheck, PreflightResult
from tasks.text.interpreters import PYTHON

SUBJECT, KEY = "training script", "training.command"
REMEDY = "Write its path into command of [training]: an absolute one, or one from the gate file's folder, such as {here}/../train.py."


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


def preflight(launcher: Launcher, plans: tuple[Plan, ...]) -> tuple[PreflightCheck, ...]:
    """What the launcher's preflight says, and a warning for a script with a relative path of which it says nothing."""
    said = launcher.preflight(plans)
    scripts = dict.fromkeys(plan.job.script for plan in plans if plan.job.work.trains)
    found = [script for script in scripts if is_relative(script)]
    if not found or any(line.subject == SUBJECT for line in said):
        return said
    why = "it is a relative path, and a job begins in a folder of its own, which has no such file unless an image brings it"
    return (
        PreflightCheck(SUBJECT, PreflightResult.WARNING, f"{found[0]!r:.300}: {why}", REMEDY, key=KEY),
        *said,
    )
