"""A job that AWS has otherwise than it was sent is stopped before its checks are paid for."""

from __future__ import annotations

from typing import Any

import pytest

from tasks.launchers.base import JobHandle, LaunchRejected, UnseenJob
from tests.tasks.launchers.sagemaker.stubbed import JOB, Stubbed, a_plan, described, ended
from tests.tasks.launchers.sagemaker.test_submit import URL

CHANGED: dict[str, Any] = {"StoppingCondition": {"MaxRuntimeInSeconds": 86400}}


@pytest.mark.parametrize("found", [False, True])
def test_a_job_that_aws_has_otherwise_than_it_was_sent_is_stopped(aws: Stubbed, found: bool) -> None:
    """Before its checks are paid for, also where a gate that died had created it. The field and both values are named."""
    if not found:
        aws.knows_none()
        aws.creates()
    aws.describes(described(secondary="Starting", steps=("Starting",), **CHANGED))
    aws.sagemaker.add_response("stop_training_job", {}, {"TrainingJobName": JOB})
    difference = r"StoppingCondition\.MaxRuntimeInSeconds is 86400, and 1800 was sent"
    with pytest.raises(LaunchRejected, match=difference):
        aws.launcher.submit(a_plan())


def test_a_job_that_cannot_be_stopped_is_said_with_the_command(aws: Stubbed) -> None:
    """It is billed until somebody stops it."""
    aws.describes(described(secondary="Starting", steps=("Starting",), **CHANGED))
    aws.refuses("stop_training_job", "AccessDeniedException", "no")
    with pytest.raises(UnseenJob, match=f"aws sagemaker stop-training-job --training-job-name {JOB}"):
        aws.launcher.submit(a_plan())


@pytest.mark.parametrize(
    "job", [described(), described(**CHANGED), ended("Failed"), ended("Failed", steps=(), **CHANGED)]
)
def test_a_job_whose_containers_ran_is_not_stopped_for_a_difference(
    aws: Stubbed, job: dict[str, Any]
) -> None:
    """A training that a dead gate left behind goes on; nothing is written and nothing is created."""
    aws.describes(job)
    assert JobHandle(JOB, adopted=True) == aws.launcher.submit(a_plan(uploads={URL: b"x"}))
