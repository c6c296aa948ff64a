"""The file that a training starts, as far as its command says it, and what preflight says where it is missing (pure)."""

from __future__ import annotations

from collections.abc import Sequence

from tasks.launchers.base import PreflightCheck, PreflightResult
from tasks.text.interpreters import PYTHON

SUBJECT = "training script"


def training_script(distributed: str, command: Sequence[str]) -> str:
    """The script of torchrun, or the program; of an interpreter's command its script. "" where an option is where it would be."""
    words = list(command)
    if words and distributed != "torchrun" and PYTHON.fullmatch(words[0]):
        words = words[1:]
    return "" if not words or words[0].startswith("-") else words[0]


def missing_script(script: str, why: str) -> PreflightCheck:
    """The training would fail at its start, after the checks."""
    remedy = "Write its path into command of [training]: an absolute one, or {here}/... below the gate file's folder."
    return PreflightCheck(SUBJECT, PreflightResult.WRONG, f"{script!r:.300}: {why}", remedy)
