"""Why a command does not start behind its gate."""

from __future__ import annotations

from dataclasses import dataclass

EXIT_REFUSED = 1
EXIT_CANNOT_TELL = 3


@dataclass(frozen=True)
class Refusal:
    """The reason, and the exit code that says the same."""

    code: int
    reason: str
