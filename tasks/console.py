"""Live progress on stderr: one changing line in a terminal, plain lines elsewhere."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from tasks.outcome import Outcome
from tasks.progress import LISTENER, Progress
from tasks.render.clean import one_line

if TYPE_CHECKING:
    from rich.status import Status

PLAIN_EVERY_S = 2.0


class Live:
    """Shows progress, and keeps how the flow ended."""

    def __init__(self, status: Status | None) -> None:
        self.outcome: Outcome | None = None
        self._status = status
        self._said, self._said_at, self._stage = "", 0.0, ""

    def progress(self, progress: Progress) -> None:
        """Show it; where nothing can be overwritten, at most every two seconds."""
        line = f"{progress.stage}: {one_line(progress.detail)}"
        if self._status is not None:
            from rich.markup import escape

            share = f" ({progress.percent:.0f} %)" if progress.total else ""
            self._status.update(escape(line + share))
        elif line != self._said and (
            progress.stage != self._stage or time.monotonic() - self._said_at > PLAIN_EVERY_S
        ):
            self._said, self._said_at, self._stage = line, time.monotonic(), progress.stage
            print(line, file=sys.stderr, flush=True)

    def ended(self, outcome: Outcome) -> None:
        """Keep it."""
        self.outcome = outcome


@contextlib.contextmanager
def live() -> Iterator[Live]:
    """Listen for the time of the block."""
    with contextlib.ExitStack() as stack:
        status = None
        if sys.stderr.isatty():
            from rich.console import Console

            status = stack.enter_context(Console(stderr=True).status("starting"))
        shown = Live(status)
        token = LISTENER.set(shown)
        stack.callback(LISTENER.reset, token)
        yield shown
