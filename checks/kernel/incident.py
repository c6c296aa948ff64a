"""What became of Xids: a decision for each line, and like decisions of one GPU as an incident."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from checks.kernel.answers import ACTIONS, NEEDS, Since
from checks.kernel.catalogue import Need
from checks.kernel.events import Event
from checks.model import Action, Cause, Level


@dataclass(frozen=True)
class Decision:
    """What one line calls for, why, and which row says so."""

    code: int | None
    pci: str
    need: Need
    action: Action
    why: str
    source: str

    @property
    def level(self) -> Level:
        """By the default policy."""
        return self.need.level

    @property
    def cause(self) -> Cause:
        """Whose fault it is, as a rule."""
        return self.need.cause

    @property
    def rank(self) -> tuple[int, int]:
        """How grave it is, among others."""
        return NEEDS.index(self.need), ACTIONS.index(self.action)


@dataclass(frozen=True)
class Incident:
    """Lines of one GPU that call for the same. `decision.need` says HANDLED where `since` mended it."""

    decision: Decision
    events: tuple[Event, ...]
    since: Since = Since.NOTHING

    @property
    def count(self) -> int:
        """How many lines."""
        return len(self.events)


def graver(decisions: Iterable[Decision]) -> Decision:
    """The gravest; of equals the first. Raises ValueError for none."""
    return max(decisions, key=lambda decision: decision.rank)
