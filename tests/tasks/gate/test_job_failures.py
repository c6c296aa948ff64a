"""What is said of the end of a job, and which error it is, where no node reported."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tasks.gate.job_failures import end_said, require_reports, starts_said
from tasks.gate.jobs import JobEnd
from tasks.launchers.base import (
    EngineUnavailable,
    JobState,
    JobStatus,
    LaunchError,
    LaunchRejected,
    NoCapacity,
    QuotaExceeded,
    Trouble,
)

LATE = "it did not start within 60 s and was ended"


def end(state: JobState, trouble: Trouble = Trouble.NONE, late: str = "") -> JobEnd:
    """A job that ended so."""
    return JobEnd("job", JobStatus(state, "AssocGrpNodeLimit", "", {}, trouble), late)


@pytest.mark.parametrize(
    ("watched", "said"),
    [
        (end(JobState.SUCCEEDED), "its job succeeded"),
        (end(JobState.FAILED, Trouble.ENDED), "its job failed by itself"),
        (end(JobState.FAILED, Trouble.SERVICE), "its job failed because the engine failed"),
        (end(JobState.CANCELLED, Trouble.STOPPED), "its job was cancelled because somebody stopped it"),
        (end(JobState.FAILED, Trouble.NO_CAPACITY), "its job failed because the engine had no machines"),
        (end(JobState.PENDING, late=LATE), "its job never got its machines"),
        (end(JobState.RUNNING, late="its checks were stopped at their deadline of 120 s"), ""),
        (end(JobState.RUNNING), ""),
    ],
)
def test_a_job_that_has_ended_is_not_said_to_run(watched: JobEnd, said: str) -> None:
    """ "its process did not end" is for one that the gate stopped waiting for."""
    assert said == end_said(watched)


@pytest.mark.parametrize(
    ("watched", "kind"),
    [
        (end(JobState.PENDING, late=LATE), NoCapacity),
        (end(JobState.PENDING, Trouble.QUOTA, LATE), QuotaExceeded),
        (end(JobState.FAILED, Trouble.QUOTA), QuotaExceeded),
        (end(JobState.FAILED, Trouble.CONFIGURATION), LaunchRejected),
        (end(JobState.FAILED, Trouble.NO_CAPACITY), NoCapacity),
        (end(JobState.FAILED, Trouble.SERVICE), EngineUnavailable),
    ],
)
def test_no_capacity_is_said_only_where_waiting_can_help(watched: JobEnd, kind: type[LaunchError]) -> None:
    """What the engine said last is in the message."""
    with pytest.raises(kind, match="AssocGrpNodeLimit") as caught:
        require_reports(watched)
    assert kind is type(caught.value)


@pytest.mark.parametrize(
    ("starts", "said"),
    [
        ((("n0", "n1"),), ""),
        ((("n0", "n1"), ("n0", "n2")), "start 2 of 2; n1 was lost"),
        ((("n0", "n1"), ("n2", "n3")), "start 2 of 2; n0, n1 were lost"),
        ((("n0", "n1"), ("n0", "n2"), ("n0", "n3")), "start 3 of 3; n2 was lost"),
        ((("node-0", "node-1"), ("node-0", "node-1")), "start 2 of 2"),
        ((("n0", "n1"), ()), "start 2 of 2"),
    ],
)
def test_a_job_that_was_started_again_says_which_node_was_lost(
    tmp_path: Path, starts: tuple[tuple[str, ...], ...], said: str
) -> None:
    """By the records of its agents. Where the engine gives its nodes the same names again, nobody knows which one it replaced."""
    tokens = [f"start{number}" for number in range(len(starts))]
    for token, nodes in zip(tokens, starts, strict=True):
        for node in nodes:
            (tmp_path / token / "agent").mkdir(parents=True, exist_ok=True)
            (tmp_path / token / "agent" / f"{node}.json").touch()
    status = JobStatus(JobState.RUNNING, "", tokens[-1], {}, earlier=tuple(tokens[:-1]))

    assert said == "".join(starts_said(tmp_path, status))
    assert () == starts_said(tmp_path, replace(status, attempt=tokens[0]))
