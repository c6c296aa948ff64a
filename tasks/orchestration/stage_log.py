"""Writes one line into the log of a run in Prefect when a stage of the gate begins, and one with its time when it ends.

Prefect's own lines say "Finished in state Completed()" of each task, and name no stage. They are left out, and what is no error is
none: a run that waits for a person ends its process, and Prefect logs that as an error; a task of a run that is cancelled "crashes".
"""

from __future__ import annotations

import contextlib
import logging
import re
from collections.abc import Iterator

from prefect.exceptions import MissingContextError
from prefect.logging import get_run_logger

from tasks.gate.progress import STAGES, LiveProgress
from tasks.text.redact import redacted

FLOWS, TASKS = "prefect.flow_runs", "prefect.task_runs"
# Prefect 3.8.8 (flow_engine.py, task_engine.py) logs this at the end of a flow's or a task's process, as an error unless it completed.
FINISHED = re.compile(r"Finished in state (\w+)\(")
# It says this of a task around which its flow is cancelled; the flow's own line says what became of the run.
STOPPED = "Execution was cancelled by the runtime environment."
# A run that waits for a person, or is cancelled from outside, ends its process in these: the state that it gets is not known here.
NO_END = ("Suspended", "Paused", "Running", "Cancelling", "Cancelled")


def is_kept(record: logging.LogRecord) -> bool:
    """Whether a line of Prefect's about the end of a process is kept: not that of a task that completed or was stopped, and
    not that of a run that waits, goes on elsewhere or was cancelled, which Prefect logs as an error.
    """
    text = str(record.msg)
    match = FINISHED.match(text)
    if record.name == TASKS:
        return STOPPED not in text and (match is None or record.levelno > logging.INFO)
    return match is None or match[1] not in NO_END


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
    stages = LiveProgress(None, say=lambda line: log.info(redacted(line)), stage="")
    token = STAGES.set(stages.progress)
    try:
        yield
    finally:
        STAGES.reset(token)
        stages.end_stage()
