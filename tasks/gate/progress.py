"""Progress of a gate while it runs: a listener for whoever starts a flow in its own process, and live progress on stderr.

Nobody has to listen. On stderr a terminal gets one line that changes, and anything else gets plain lines.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from tasks.gate.outcome import Outcome
from tasks.notifiers.base import AnswerLine
from tasks.text.inert import one_line

if TYPE_CHECKING:
    from rich.status import Status
PLAIN_EVERY_S = 2.0


@dataclass(frozen=True)
class Progress:
    """The progress of a stage. `done` of `total` observations or 0 of 0; `detail` is a sentence for people.

    `answered` says who decided what and why where a question of the run has just been answered. A `lasting` detail is no state that
    the next one replaces: it stays on a terminal.
    """

    stage: str
    detail: str
    done: int = 0
    total: int = 0
    answered: AnswerLine | None = None
    lasting: bool = False

    @property
    def percent(self) -> float:
        """0 to 100."""
        return 100.0 * min(self.done, self.total) / self.total if self.total else 0.0


class ProgressListener(Protocol):
    """Receives a gate's progress. It is called from the flow's thread and must not block."""

    def progress(self, progress: Progress) -> None:
        """Take the newest progress."""
        ...

    def ended(self, outcome: Outcome) -> None:
        """Take the outcome; called once, before the flow's final state is set."""
        ...


LISTENER: ContextVar[ProgressListener | None] = ContextVar("prelaunch_listener", default=None)
BOARD: ContextVar[Callable[[Progress], None] | None] = ContextVar("prelaunch_board", default=None)


def report_progress(progress: Progress) -> None:
    """Hand the progress to the listener, and to the gate's messages."""
    listener, board = LISTENER.get(), BOARD.get()
    if listener is not None:
        listener.progress(progress)
    if board is not None:
        board(progress)


def report_end(outcome: Outcome) -> None:
    """Hand the gate's end to the listener."""
    listener = LISTENER.get()
    if listener is not None:
        listener.ended(outcome)


class LiveProgress:
    """Shows progress, and keeps how the flow ended."""

    def __init__(self, status: Status | None) -> None:
        self.outcome: Outcome | None = None
        self._status = status
        self._said, self._said_at, self._stage = "", 0.0, ""

    def progress(self, progress: Progress) -> None:
        """Show it; if the output is no terminal, at most every two seconds."""
        line = f"{progress.stage}: {one_line(progress.detail)}"
        if self._status is not None:
            from rich.markup import escape

            if progress.lasting:
                self._status.console.print(line, markup=False, highlight=False, soft_wrap=True)
                return
            share = f" ({progress.percent:.0f} %)" if progress.total else ""
            self._status.update(escape(line + share))
        elif line != self._said and (
            progress.lasting
            or progress.stage != self._stage
            or time.monotonic() - self._said_at > PLAIN_EVERY_S
        ):
            self._said, self._said_at, self._stage = line, time.monotonic(), progress.stage
            print(line, file=sys.stderr, flush=True)

    def ended(self, outcome: Outcome) -> None:
        """Keep the outcome for the command line."""
        self.outcome = outcome


@contextlib.contextmanager
def live_progress() -> Iterator[LiveProgress]:
    """Listen for the time of the block."""
    with contextlib.ExitStack() as stack:
        status = None
        if sys.stderr.isatty():
            from rich.console import Console

            status = stack.enter_context(Console(stderr=True).status("starting"))
        shown = LiveProgress(status)
        token = LISTENER.set(shown)
        stack.callback(LISTENER.reset, token)
        yield shown
