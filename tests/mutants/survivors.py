"""The mutants that are known to survive, and why."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

KNOWN = Path(__file__).with_name("survivors.toml")


@dataclass(frozen=True)
class Survivor:
    """A mutant, identified by its own line and not by a line number, and the reason why it may live."""

    module: str
    original: str
    change: str
    reason: str
    occurrence: int = 0

    @property
    def key(self) -> tuple[str, str, str, int]:
        """The same as that of its Mutant."""
        return self.module, self.original, self.change, self.occurrence


def load(path: Path) -> tuple[Survivor, ...]:
    """The list. Raises TypeError for an unknown key."""
    return tuple(
        Survivor(**row) for row in tomllib.loads(path.read_text(encoding="utf-8")).get("survivor", ())
    )
