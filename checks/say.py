"""A line on stderr for people; what is behind it, a full disk or a reader that went away, costs the line alone."""

from __future__ import annotations

import os
import sys


def say(message: str) -> None:
    """Say it, or go on in silence."""
    try:
        print(message, file=sys.stderr, flush=True)
    except (OSError, ValueError):
        silence()


def silence() -> None:
    """Point stderr at nothing, so that the interpreter's last flush does not change the exit code."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    except OSError:
        return
