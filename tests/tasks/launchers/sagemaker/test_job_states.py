"""SageMaker's states in the launchers' words."""

from __future__ import annotations

import functools
from typing import Any

import pytest
from botocore.session import get_session

from tasks.launchers.base import JobState, Trouble
from tasks.launchers.sagemaker import job_states
from tests.tasks.launchers.sagemaker.stubbed import ALGORITHM, CAPACITY, described, ended
from tests.tasks.parameters import spread


@functools.cache
def shape() -> Any:
    """What botocore knows of DescribeTrainingJob's answer."""
    return get_session().get_service_model("sagemaker").operation_model("DescribeTrainingJob").output_shape


def test_the_tables_use_words_of_the_api_alone() -> None:
    """A misspelt row would never be found."""
    members = shape().members
    assert set(job_states.STATUS) <= set(members["TrainingJobStatus"].enum)
    assert {*job_states.WAITS, *job_states.RUNS, *job_states.STOPPED} <= set(members["SecondaryStatus"].enum)


def test_every_status_of_a_running_or_ended_job_has_a_row() -> None:
    """Only Deleting has none: how such a job ended is its second word."""
    without = set(shape().members["TrainingJobStatus"].enum) - set(job_states.STATUS)
    assert without == {"InProgress", "Deleting"}


@pytest.mark.parametrize(
    ("status", "state", "secondary"),
    spread(
        ("InProgress", JobState.PENDING, ("Starting", "Pending", "Interrupted", "Restarting")),
        ("InProgress", JobState.PENDING, ("SomethingNew",)),
        ("InProgress", JobState.RUNNING, ("Training", "Completed")),
        ("Stopping", JobState.RUNNING, ("Stopping", "SomethingNew")),
        ("Completed", JobState.SUCCEEDED, ("Completed", "Uploading", "SomethingNew")),
        ("Failed", JobState.FAILED, ("Failed", "SomethingNew", "Uploading")),
        ("Stopped", JobState.CANCELLED, ("Stopped", "SomethingNew", "Failed")),
        ("Stopped", JobState.FAILED, ("MaxRuntimeExceeded", "MaxWaitTimeExceeded")),
        ("Deleting", JobState.SUCCEEDED, ("Completed",)),
        ("Deleting", JobState.FAILED, ("Failed", "MaxRuntimeExceeded")),
        ("Deleting", JobState.CANCELLED, ("Stopped", "SomethingNew")),
        ("SomethingNew", JobState.UNKNOWN, ("Completed",)),
        ("", JobState.UNKNOWN, ("",)),
    ),
)
def test_a_pair_has_one_state(status: str, secondary: str, state: JobState) -> None:
    """The main status decides; a secondary status that is not known is detail. Only an unknown main status is unknown."""
    assert state is job_states.state_of({"TrainingJobStatus": status, "SecondaryStatus": secondary})


def test_a_job_whose_containers_ran_runs_beside_an_unknown_secondary_status() -> None:
    """It has its machines, so its time limit counts and not the one for waiting."""
    job = described(secondary="SomethingNew", steps=("Starting", "Training", "SomethingNew"))
    assert JobState.RUNNING is job_states.state_of(job)
    assert "InProgress/SomethingNew" == job_states.detail_of(job)


def test_every_step_and_message_is_kept() -> None:
    """With its time in UTC, and the reason last."""
    job = ended("Failed", steps=("Starting", "Pending", "Failed"), FailureReason=CAPACITY)
    assert job_states.history_of(job) == (
        "2026-11-21T08:30:00Z Starting: Preparing the instances for training",
        "2026-11-21T08:31:00Z Pending: Insufficient capacity error from EC2 while launching instances, retrying!",
        "2026-11-21T08:32:00Z Failed: Failed",
        f"? {CAPACITY}",
    )


def test_the_detail_says_what_it_waits_for() -> None:
    """The message of the last step, as evidence: nothing is decided upon it."""
    job = described(secondary="Pending", steps=("Starting", "Pending"))
    assert "InProgress/Pending: Insufficient capacity error from EC2" in job_states.detail_of(job)


def test_a_message_cannot_turn_a_terminal() -> None:
    """A failure file is written on a machine under suspicion."""
    job = ended("Failed", FailureReason="A: \x1b[31mred", steps=("Failed",))
    assert r"Failed: A: \x1b[31mred" == job_states.detail_of(job)


@pytest.mark.parametrize(
    ("steps", "starts"),
    [
        (("Starting",), 0),
        (("Starting", "Restarting", "Starting", "Training"), 1),
        (("Starting", "Training", "Updating", "Training"), 1),
        (("Starting", "Training", "Restarting"), 1),
        (("Starting", "Training", "Restarting", "Starting", "Training"), 2),
        (("Training", "Interrupted", "Starting", "Training", "Restarting", "Training"), 3),
    ],
)
def test_containers_start_again_after_a_restart(steps: tuple[str, ...], starts: int) -> None:
    """Only a restart that led to training again is one more."""
    assert starts == len(job_states.starts(described(steps=steps)))


@pytest.mark.parametrize(
    ("trouble", "reason"),
    spread(
        (Trouble.ENDED, (ALGORITHM, "Something that nobody has seen", "")),
        (Trouble.ENDED, ("AlgorithmError: the log said CapacityError: no",)),
        (Trouble.CONFIGURATION, ("ClientError: Cannot pull algorithm container",)),
        (Trouble.NO_CAPACITY, (CAPACITY, "InsufficientCapacityError: no capacity in the training plan")),
        (Trouble.SERVICE, ("InternalServerError: We encountered an internal error. Please try again.",)),
    ),
)
def test_a_reason_has_a_kind(reason: str, trouble: Trouble) -> None:
    """Told by how it begins; a text of no known kind is to be judged by the report."""
    assert trouble is job_states.trouble_of("Failed", "Failed", reason, trained=True)


@pytest.mark.parametrize(
    ("secondary", "trained", "trouble"),
    [
        ("Stopped", True, Trouble.STOPPED),
        ("MaxRuntimeExceeded", True, Trouble.MAX_RUNTIME),
        ("MaxWaitTimeExceeded", True, Trouble.MAX_RUNTIME),
        ("MaxWaitTimeExceeded", False, Trouble.NO_CAPACITY),
    ],
)
def test_a_stop_has_a_kind(secondary: str, trained: bool, trouble: Trouble) -> None:
    """A wait for spot machines that never came is want of capacity."""
    assert trouble is job_states.trouble_of("Stopped", secondary, "", trained)


@pytest.mark.parametrize("status", ["Completed", "InProgress", "Stopping"])
def test_no_trouble_without_a_bad_end(status: str) -> None:
    """A job that runs or ended well has none."""
    assert job_states.trouble_of(status, status, "", True) is Trouble.NONE
