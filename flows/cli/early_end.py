"""The end of a command that has not begun: its words are wrong, or a signal came first.

No option was parsed yet, or none can be trusted, so the words themselves are asked for the files that a pipeline keeps.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Sequence
from pathlib import Path

from flows.cli.output import (
    annotate_end,
    json_text,
    say_rejected,
    stdout_has_something,
    write_cancelled,
    write_rejected,
    write_stdout,
)

# The commands that start a gate, and what is known of it if a signal ends them here.
GATES = {
    "gate": "before the gate began: nothing was started",
    "trigger": "before the run was followed: Prefect shows whether one was started",
}
FILES = ("junit", "summary", "html")


def asks_for_json(words: Sequence[str]) -> bool:
    """Whether one JSON document is to be printed."""
    return "json" in _values(words, "--format")


def write_early_rejection(words: Sequence[str], error: Exception) -> None:
    """Say the rejection, and write the files that the words ask for."""
    say_rejected(error)
    write_rejected(_files(words), _name(words), error)


def write_early_cancellation(words: Sequence[str], said: str) -> bool:
    """Write how a gate ended before it began, to stdout if JSON was asked for, and to the files; False for other commands."""
    if not words or words[0] not in GATES or stdout_has_something():
        return False
    from tasks.gate.outcome import CANCELLED, ending_json

    reason = f"{said} {GATES[words[0]]}"
    line = f"{CANCELLED} {_name(words)}: {reason}"
    if asks_for_json(words):
        write_stdout(json_text(ending_json(None, None, None, None, None, "", reason, line), by_name=False))
    write_cancelled(_files(words), _name(words), reason)
    annotate_end(line, 1, None)
    return True


def _files(words: Sequence[str]) -> argparse.Namespace:
    found = {name: _values(words, f"--{name}") for name in FILES}
    return argparse.Namespace(**{name: Path(paths[-1]) if paths else None for name, paths in found.items()})


def _values(words: Sequence[str], option: str) -> list[str]:
    behind = [value for name, value in itertools.pairwise(words) if name == option]
    return behind + [word.partition("=")[2] for word in words if word.startswith(f"{option}=")]


def _name(words: Sequence[str]) -> str:
    """The gate's name, as far as it is known: its file's."""
    if len(words) > 1 and words[0] == "gate" and not words[1].startswith("-"):
        return Path(words[1]).stem
    return words[0] if words else "prelaunch"
