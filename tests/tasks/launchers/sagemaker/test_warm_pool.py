"""The warm pool of an ended job: asked for, and let go."""

from __future__ import annotations

from typing import Any

import pytest

from tasks.launchers.base import COMING_S, EngineUnavailable, LaunchError, LaunchRejected, RetentionState
from tasks.launchers.sagemaker import warm_pool
from tests.tasks.launchers.sagemaker.stubbed import ARN, CAPACITY, JOB, Stubbed, described, ended


def kept(status: str, **more: Any) -> dict[str, Any]:
    """An ended job whose pool is so."""
    return ended(WarmPoolStatus={"Status": status, **more})


# UpdateTrainingJob leaves a keep-alive of 0 behind.
RELEASED = ended(keep_alive_s=0, WarmPoolStatus={"Status": "Terminated"})
RETAINED = "ResourceRetainedBillableTimeInSeconds"
UPDATE = {"TrainingJobName": JOB, "ResourceConfig": {"KeepAlivePeriodInSeconds": 0}}


REUSED = kept("Reused", ReusedByJob="p5-train-1", **{RETAINED: 42})
NEVER_RAN = ended("Failed", FailureReason=CAPACITY, steps=("Starting", "Pending", "Failed"))


@pytest.mark.parametrize(
    ("job", "retained"),
    [
        (kept("InUse"), ("coming", "WarmPoolStatus InUse")),
        (kept("Available"), ("ready", "WarmPoolStatus Available")),
        (REUSED, ("taken", "WarmPoolStatus Reused, 42 s retained by p5-train-1", "p5-train-1")),
        (kept("Terminated", **{RETAINED: 0}), ("gone", "WarmPoolStatus Terminated, 0 s retained")),
        (ended(), ("coming", "WarmPoolStatus is not there yet", "", warm_pool.NO_STATUS_S)),
        (ended(keep_alive_s=0), ("nothing", "")),
        (NEVER_RAN, ("gone", "the job never had machines")),
        ({**kept("InUse"), "WarmPoolStatus": {"Status": "New"}}, ("coming", "WarmPoolStatus New")),
        (RELEASED, ("gone", "WarmPoolStatus Terminated")),
    ],
)
def test_a_pool_is_one_of_these(job: dict[str, Any], retained: tuple[Any, ...]) -> None:
    """Each of AWS's words is one of ours; one that is not known is asked for again, never taken for ready."""
    found = warm_pool.retained_of(job)
    expected = (*retained, *("", COMING_S)[len(retained) - 2 :])
    assert expected == (found.state.value, found.detail, found.by, found.within_s)


def test_an_unknown_job_keeps_nothing(aws: Stubbed) -> None:
    """There is no pool to wait for, or to let go; neither has a name that no job can have."""
    aws.knows_none(2)
    assert aws.launcher.retained_machines(JOB).state is RetentionState.GONE
    assert (aws.launcher.release(JOB), aws.launcher.release("../x")) == ("", "")


def test_no_answer_is_no_pool(aws: Stubbed) -> None:
    """What SageMaker does not say is asked again, until the caller's own deadline."""
    aws.refuses("describe_training_job", "AccessDeniedException", "no", 400)
    assert aws.launcher.retained_machines(JOB).state is RetentionState.COMING


@pytest.mark.parametrize(
    "job", [kept("Terminated"), kept("Reused", ReusedByJob="p5-train-1"), ended(keep_alive_s=0)]
)
def test_a_release_of_what_is_not_ours_does_nothing(aws: Stubbed, job: dict[str, Any]) -> None:
    """Twice is as good as once, and a pool that another job has is not touched."""
    aws.describes(job)
    assert aws.launcher.release(JOB) == ""


def test_a_release_waits_for_a_pool_that_is_still_coming(aws: Stubbed) -> None:
    """Available comes some time after the job's end; until then SageMaker refuses. It is told once, then watched."""
    aws.describes(ended())
    aws.refuses("update_training_job", "ValidationException", "Warm pool is not available")
    aws.describes(kept("Available"))
    aws.sagemaker.add_response("update_training_job", ARN, UPDATE)
    aws.describes(kept("Available"), kept("Terminated"))

    assert f"the warm pool of {JOB} was released (WarmPoolStatus Terminated)" == aws.launcher.release(JOB)


def test_a_pool_that_is_taken_meanwhile_is_let_be(aws: Stubbed) -> None:
    """Another matching job was quicker."""
    aws.describes(kept("Available"))
    aws.refuses("update_training_job", "ValidationException", "Warm pool is not available")
    aws.describes(kept("Reused", ReusedByJob="thief"))

    assert aws.launcher.release(JOB) == ""


def test_a_pool_that_stays_is_said_with_what_to_do(aws: Stubbed) -> None:
    """It costs money."""
    aws.describes(kept("Available"))
    aws.refuses("update_training_job", "ValidationException", "not now")
    with pytest.raises(LaunchError, match="aws sagemaker update-training-job --training-job-name p5-"):
        warm_pool.release(aws.launcher.clients, JOB, 0.01, within_s=0.0)


def test_a_running_job_is_not_let_go(aws: Stubbed) -> None:
    """Its machines are in use."""
    aws.describes(described(WarmPoolStatus={"Status": "InUse"}))
    with pytest.raises(LaunchError, match="still runs"):
        aws.launcher.release(JOB)


def test_a_release_that_is_not_allowed_names_the_policy(aws: Stubbed) -> None:
    """UpdateTrainingJob is granted apart."""
    aws.describes(kept("Available"))
    said = "User: arn:aws:iam::123456789012:user/x is not authorized to perform: sagemaker:UpdateTrainingJob"
    aws.refuses("update_training_job", "AccessDeniedException", said)
    with pytest.raises(LaunchRejected, match=r"deployments/iam/orchestrator-pool\.json"):
        aws.launcher.release(JOB)


def test_a_release_that_nobody_answers_is_not_taken_for_done(aws: Stubbed) -> None:
    """The machines may still be kept."""
    aws.describes(kept("Available"))
    for _ in range(2000):
        aws.refuses("update_training_job", "ThrottlingException", "Rate exceeded")
    remedy = rf"Rate exceeded.*aws sagemaker update-training-job .*{JOB} "
    with pytest.raises(EngineUnavailable, match=remedy):
        aws.launcher.release(JOB)
    aws.sagemaker._queue.clear()
