"""Writes lines to stderr for people. If that fails, because of a full disk or a reader that is gone, only the line is lost."""

from __future__ import annotations

import os
import sys
import time


def say(message: str) -> None:
    """Writes the message. Errors are ignored."""
    try:
        print(message, file=sys.stderr, flush=True)
    except (OSError, ValueError):
        silence()


def log(message: str) -> None:
    """Writes the time of day and the message; an empty message is not written."""
    if message:
        say(f"{time.strftime('%H:%M:%S')} {message}")


def silence() -> None:
    """Redirects stderr to nothing, so that the interpreter's last flush does not change the exit code."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    except OSError:
        return
