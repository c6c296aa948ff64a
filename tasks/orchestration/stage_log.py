"""Writes one line into the log of a run in Prefect when a stage of the gate begins, and one with its time when it ends.

Prefect's own lines say "Finished in state Completed()" of each task, and name no stage. They are left out, and what is no error is
none: a run that waits for a person ends its process, and Prefect logs that as an error; a task of a run that is cancelled "crashes".
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import time
from collections.abc import Callable, Iterator

from prefect.exceptions import MissingContextError
from prefect.logging import get_run_logger

from tasks.gate.progress import STAGES, Progress
from tasks.text.inert import one_line
from tasks.text.redact import redact

DETAIL = 500
# A stage that was shorter has no line about its end.
NOTED_S = 1.0
FLOWS, TASKS = "prefect.flow_runs", "prefect.task_runs"
# Prefect 3.8.8 (flow_engine.py, task_engine.py) logs this at the end of a flow's or a task's process, as an error unless it completed.
FINISHED = re.compile(r"Finished in state (\w+)\(")
# It says this of a task around which its flow is cancelled; the flow's own line says what became of the run.
STOPPED = "Execution was cancelled by the runtime environment."
# A run that waits for a person, or is cancelled from outside, ends its process in these: the state that it gets is not known here.
NO_END = ("Suspended", "Paused", "Running", "Cancelling", "Cancelled")


class StageLog:
    """What is logged of the progress: `say` writes a line."""

    def __init__(self, say: Callable[[str], None], clock: Callable[[], float] = time.monotonic) -> None:
        self._say, self._clock = say, clock
        self._stage, self._detail, self._first, self._begun = "", "", "", clock()

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
            self._stage, self._first, self._begun = progress.stage, detail, self._clock()
            self._say(f"{progress.stage}: {detail}")
        self._detail = detail

    def end(self) -> None:
        """Log the end of the last stage, with its last state where that is another than its first."""
        took_s = self._clock() - self._begun
        if self._stage and (took_s >= NOTED_S or self._detail != self._first):
            last = f": {self._detail}" if self._detail != self._first else ""
            self._say(f"{self._stage}: ended after {took_s:.0f} s{last}")
        self._stage = ""


def is_kept(record: logging.LogRecord) -> bool:
    """Whether a line of Prefect's about the end of a process is kept: not that of a task that completed or was stopped, and
    not that of a run that waits, goes on elsewhere or was cancelled, which Prefect logs as an error.
    """
    text = str(record.msg)
    found = FINISHED.match(text)
    if record.name == TASKS:
        return STOPPED not in text and (found is None or record.levelno > logging.INFO)
    return found is None or found[1] not in NO_END


def filter_end_lines() -> None:
    """Filter Prefect's lines about the ends of processes, for good: the flow's own line comes after its code."""
    for name in (FLOWS, TASKS):
        logging.getLogger(name).addFilter(is_kept)


@contextlib.contextmanager
def logged_stages() -> Iterator[None]:
    """Log the stages of the gate for the time of the block."""
    try:
        log = get_run_logger()
    except MissingContextError:  # outside of a run
        yield
        return
    filter_end_lines()
    stages = StageLog(log.info)
    token = STAGES.set(stages.progress)
    try:
        yield
    finally:
        STAGES.reset(token)
        stages.end()
