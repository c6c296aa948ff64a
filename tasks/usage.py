"""The command line as a parser, and the ways in which it ends a verb.

UsageError          the command line is wrong: exit 2
Terminated          SIGTERM came
"""

from __future__ import annotations

import argparse
from typing import NoReturn


class UsageError(Exception):
    """The command line is wrong. `usage` is the line that shows how it goes."""

    def __init__(self, message: str, usage: str) -> None:
        super().__init__(message)
        self.usage = usage


class Terminated(KeyboardInterrupt):
    """SIGTERM: the same way out as Ctrl-C, with its own exit code."""


class Parser(argparse.ArgumentParser):
    """Raises UsageError instead of ending the process."""

    def error(self, message: str) -> NoReturn:
        """Raise UsageError."""
        raise UsageError(message, self.format_usage().strip())
