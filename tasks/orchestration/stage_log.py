"""Writes one line into the log of a run in Prefect when a stage of the gate begins, and one with its time when it ends.

Prefect's own lines say "Finished in state Completed()" of each task, and name no stage.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator

from prefect.exceptions import MissingContextError
from prefect.logging import get_run_logger

from tasks.gate.progress import STAGES, Progress
from tasks.text.inert import one_line
from tasks.text.redact import redact

DETAIL = 500


class StageLog:
    """What is logged of the progress: `say` writes a line."""

    def __init__(self, say: Callable[[str], None], clock: Callable[[], float] = time.monotonic) -> None:
        self._say, self._clock = say, clock
        self._stage, self._detail, self._begun = "", "", clock()

    def progress(self, progress: Progress) -> None:
        """Log it if a stage begins with it, or if it says something that is no state."""
        if progress.unended:
            return
        detail = one_line(redact(progress.detail, os.environ), DETAIL)
        if progress.lasting:
            self._say(f"{progress.stage}: {detail}")
            return
        if progress.stage != self._stage:
            self.end()
            self._stage, self._begun = progress.stage, self._clock()
            self._say(f"{progress.stage}: {detail}")
        self._detail = detail

    def end(self) -> None:
        """Log the end of the last stage."""
        if self._stage:
            took_s = self._clock() - self._begun
            self._say(f"{self._stage}: ended after {took_s:.0f} s: {self._detail}")
        self._stage = ""


@contextlib.contextmanager
def logged_stages() -> Iterator[None]:
    """Log the stages of the gate for the time of the block."""
    try:
        log = get_run_logger()
    except MissingContextError:  # outside of a run
        yield
        return
    stages = StageLog(log.info)
    token = STAGES.set(stages.progress)
    try:
        yield
    finally:
        STAGES.reset(token)
        stages.end()
