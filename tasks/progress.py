"""What a person sees while it runs. Whoever starts a flow in its own process may listen; nobody has to."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Protocol

from tasks.outcome import Outcome


@dataclass(frozen=True)
class Progress:
    """How far a stage is. `done` of `total` observations or 0 of 0; `detail` is a sentence for people.

    `answered` says who decided what and why, where a question of the run has just been answered.
    """

    stage: str
    detail: str
    done: int = 0
    total: int = 0
    answered: str = ""

    @property
    def percent(self) -> float:
        """0 to 100."""
        return 100.0 * min(self.done, self.total) / self.total if self.total else 0.0


class Listener(Protocol):
    """Whoever wants to know. It is called from the flow's thread and must not block."""

    def progress(self, progress: Progress) -> None:
        """How far it is."""
        ...

    def ended(self, outcome: Outcome) -> None:
        """How it ended; called once, before the flow's final state is set."""
        ...


LISTENER: ContextVar[Listener | None] = ContextVar("prelaunch_listener", default=None)
BOARD: ContextVar[Callable[[Progress], None] | None] = ContextVar("prelaunch_board", default=None)


def tell(progress: Progress) -> None:
    """Tell whoever listens, and whoever follows the gate's messages, how far it is."""
    listener, board = LISTENER.get(), BOARD.get()
    if listener is not None:
        listener.progress(progress)
    if board is not None:
        board(progress)


def tell_end(outcome: Outcome) -> None:
    """Tell whoever listens how it ended."""
    listener = LISTENER.get()
    if listener is not None:
        listener.ended(outcome)
