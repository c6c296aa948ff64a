"""What became of Xids: a decision for each line, and like decisions of one GPU as an incident."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from checks.kernel.answers import ACTIONS, NEEDS, Since
from checks.kernel.catalogue import Need, table
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
    def stays_open(self) -> bool:
        """Whether time alone does not answer it: it calls for an action, or nobody can tell that it does not.

        What a program did yesterday, what was handled, and what the catalogue answers with IGNORE or not at all calls for
        nothing today.
        """
        if self.need is Need.SUPPORT:
            row = table().get(self.code or 0)
            asked = row is not None and row.need is Need.SUPPORT and row.immediate not in ("", "IGNORE")
            return asked and self.action is not Action.RESTART_APP
        return self.need in (Need.ACT, Need.UNREAD, Need.UNKNOWN)

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

    @property
    def age_s(self) -> float | None:
        """Seconds since its last line; None where no line has a time."""
        return min((age for event in self.events if (age := event.line.age_s) is not None), default=None)


def graver(decisions: Iterable[Decision]) -> Decision:
    """The gravest; of equals the first. Raises ValueError for none."""
    return max(decisions, key=lambda decision: decision.rank)
