"""The last state of a job, as a launcher keeps it beside the job."""

from __future__ import annotations

from checks.documents.decode import decode, parse_json
from checks.documents.report import dump_plain
from checks.value_types import DecodeError
from tasks.launchers.base import JobStatus

MOST_BYTES = 1 << 24


def dump_state(status: JobStatus) -> bytes:
    """The state as JSON."""
    return dump_plain(status)


def parse_state(text: str | bytes) -> JobStatus | None:
    """The state that was kept; None where that is not one."""
    try:
        return decode(JobStatus, parse_json(text, MOST_BYTES))
    except DecodeError:
        return None
