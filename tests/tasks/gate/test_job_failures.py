"""What is said of the end of a job, and which error it is, where no node reported."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from checks import bundle as bundles
from checks.facts.builtin import builtin
from checks.model import Declared, Profile
from tasks.collect import merge_reports
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
from tests.sample_reports import POLICY
from tests.tasks.sessions import CHECK_JOB, FakeEngine, session

CPU = bundles.make("g-1", Declared("cpu", 2, 0, 1, ("node-0", "node-1")), Profile.QUICK, POLICY, builtin())
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


NO_AGENT = (
    "/usr/bin/python3: No module named container.agent",
    "python3: Error while finding module specification for 'container.agent' (ModuleNotFoundError: No module named 'container')",
)


@pytest.mark.parametrize("trouble", [Trouble.NONE, Trouble.ENDED])
@pytest.mark.parametrize("where", ["log", "engine"])
@pytest.mark.parametrize("words", [*NO_AGENT, "Traceback ...\n" + NO_AGENT[1] + "\n"])
def test_an_image_without_the_agent_is_a_wrong_request(
    tmp_path: Path, trouble: Trouble, where: str, words: str
) -> None:
    """From the log of a node, or from the engine's own words; with the remedy, and without a verdict on any machine."""
    one = session(tmp_path, FakeEngine(log=words if where == "log" else ""))
    one.setting.bundle = lambda gate_id: CPU  # type: ignore[method-assign]
    status = JobStatus(
        JobState.FAILED, words if where == "engine" else "exit code 1", "", {"node-0": 1}, trouble
    )

    with pytest.raises(LaunchRejected, match=r"no container\.agent.*create-image\.sh"):
        merge_reports(one, JobEnd(CHECK_JOB, status))


@pytest.mark.parametrize(
    "words", ["No module named 'torch'", "No module named 'containers'", "mycontainer.agent is missing"]
)
def test_another_missing_module_is_not_the_agent(words: str) -> None:
    """It is what it was: no reports, so nothing is known."""
    status = JobStatus(JobState.FAILED, words, "", {"node-0": 1}, Trouble.ENDED)

    require_reports(JobEnd(CHECK_JOB, status), [words])


def test_a_job_that_was_started_again_says_which_start_it_is() -> None:
    """Nothing of the first one."""
    status = JobStatus(JobState.RUNNING, "", "t3", {}, earlier=("t1", "t2"))

    assert ("start 3 of 3",) == starts_said(status)
    assert (
        ()
        == starts_said(replace(status, attempt="t1"))
        == starts_said(replace(status, attempt="", earlier=()))
    )
