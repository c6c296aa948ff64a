"""A line on stderr for people; what is behind it, a full disk or a reader that went away, costs the line alone."""

from __future__ import annotations

import os
import sys
import time


def say(message: str) -> None:
    """Say it, or go on in silence."""
    try:
        print(message, file=sys.stderr, flush=True)
    except (OSError, ValueError):
        silence()


def log(message: str) -> None:
    """Say it after the time of day; an empty message is left out."""
    if message:
        say(f"{time.strftime('%H:%M:%S')} {message}")


def silence() -> None:
    """Point stderr at nothing, so that the interpreter's last flush does not change the exit code."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    except OSError:
        return
