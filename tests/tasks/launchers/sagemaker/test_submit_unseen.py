"""A job that SageMaker has and does not describe yet: it is adopted once it is visible, or named to whoever can stop it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tasks.launchers.base import EngineUnavailable, LaunchError, UnseenJob
from tasks.launchers.interruption import interruptible
from tests.tasks.launchers.sagemaker.stubbed import JOB, QUICK, Stubbed, a_plan, described, ended, stubbed
from tests.tasks.launchers.sagemaker.test_submit import KEY_AT, TIMED_OUT, WITH_CHANNEL, loses_answers

# Enough for a machine on which much else runs; what never appears is not waited for so long.
PATIENT = replace(QUICK, visible_s=30.0)
# One look at a job that was created, and no wait.
HASTY = replace(QUICK, visible_s=0.0)
STOP = f"aws sagemaker stop-training-job --training-job-name {JOB} --region us-east-1"
LOST = (("create", "ServiceUnavailable"), ("describe", "ResourceNotFound"))


def is_stopped(aws: Stubbed) -> None:
    """The job runs, StopTrainingJob takes it, and it ends."""
    aws.describes(described(keep_alive_s=0))
    aws.sagemaker.add_response("stop_training_job", {}, {"TrainingJobName": JOB})
    aws.describes(ended("Stopped", keep_alive_s=0), ended("Stopped", keep_alive_s=0))


@pytest.mark.parametrize(
    ("code", "unseen"), [*(("ResourceInUse", unseen) for unseen in (0, 1, 5)), ("ResourceLimitExceeded", 2)]
)
def test_a_job_that_is_described_only_seconds_later_is_adopted(code: str, unseen: int) -> None:
    """CreateTrainingJob answered 503 and took effect; the next one is refused because of it: of its name, or of the quota."""
    with stubbed(PATIENT) as aws:
        aws.knows_none()
        aws.refuses("create_training_job", "ServiceUnavailable", "later", 503)
        aws.knows_none()
        aws.refuses("create_training_job", code, "Training job names must be unique")
        aws.knows_none(unseen)
        aws.describes(described())
        assert aws.launcher.submit(a_plan()).adopted


def test_a_job_that_is_never_described_is_named_with_the_command_that_stops_it(aws: Stubbed) -> None:
    """Neither is it forgotten, nor is it called ended: whoever is told can stop it."""
    aws.knows_none()
    aws.refuses("create_training_job", "ResourceInUse", "Training job names must be unique")
    aws.knows_none(10_000)
    with pytest.raises(UnseenJob, match=f"may run unattended. By hand: {STOP}"):
        aws.launcher.submit(a_plan())
    with pytest.raises(LaunchError, match=f"exists, and does not describe it. By hand: {STOP}"):
        aws.launcher.cancel(JOB)
    aws.sagemaker._queue.clear()


@pytest.mark.parametrize("appears", [True, False])
def test_a_lost_answer_is_waited_for_when_the_job_is_ended(
    monkeypatch: pytest.MonkeyPatch, appears: bool
) -> None:
    """The last attempt may have taken effect; what never appears was never created."""
    with stubbed(PATIENT if appears else QUICK) as aws, interruptible() as stop:
        stop.set()
        loses_answers(aws, monkeypatch, TIMED_OUT, 10**6)
        aws.knows_none(2)
        with pytest.raises(EngineUnavailable):
            aws.launcher.submit(a_plan())
        if appears:
            aws.knows_none(3)
            is_stopped(aws)
        else:
            aws.knows_none(10_000)
        aws.launcher.cancel(JOB)
        if not appears:
            aws.sagemaker._queue.clear()


@pytest.mark.parametrize("appears", [True, False])
def test_a_created_job_that_is_not_described_at_once_is_waited_for(appears: bool) -> None:
    """SageMaker may forget it for a moment. One that never appears may run unattended, and is named with the command that stops it."""
    with stubbed(PATIENT if appears else HASTY) as aws:
        aws.knows_none()
        aws.creates()
        aws.knows_none(3 if appears else 1)
        if appears:
            aws.describes(described(steps=()))
            assert not aws.launcher.submit(a_plan()).adopted
            return
        with pytest.raises(UnseenJob, match=f"took {JOB}, and does not describe it. {JOB} may run"):
            aws.launcher.submit(a_plan())


@pytest.mark.parametrize(
    "answers",
    [
        (("create", ""), ("describe", "ExpiredTokenException")),
        (*LOST, ("create", "ExpiredTokenException"), ("describe", "ExpiredTokenException")),
        (*LOST, ("create", "AccessDeniedException"), ("describe", "ResourceNotFound")),
        (*LOST, ("create", "ResourceLimitExceeded"), ("describe", "ResourceNotFound")),
        (*LOST, ("create", "CapacityError"), ("describe", "ResourceNotFound")),
    ],
)
def test_a_job_that_may_exist_is_never_called_refused(answers: tuple[tuple[str, str], ...]) -> None:
    """Nor where the gate asks again: whoever reads that it was refused ends nothing, and the job is paid for."""
    with stubbed(HASTY) as aws:
        aws.knows_none()
        for call, code in answers:
            if code:
                aws.refuses(f"{call}_training_job", code, "no", 503 if code == "ServiceUnavailable" else 400)
            else:
                aws.creates()
        aws.refuses("describe_training_job", "ExpiredTokenException")
        for _ in range(2):
            with pytest.raises(UnseenJob, match=f"{JOB} may run unattended. By hand: {STOP}"):
                aws.launcher.submit(a_plan())
        is_stopped(aws)
        aws.launcher.cancel(JOB)


def test_a_job_of_a_process_that_died_is_not_called_refused() -> None:
    """That process left the key, and may have created the job that uses the quota."""
    with stubbed(HASTY) as aws:
        aws.knows_none()
        aws.s3.add_client_error("put_object", "PreconditionFailed", "", 412)
        aws.refuses("create_training_job", "ResourceLimitExceeded", "no")
        aws.knows_none()
        with pytest.raises(UnseenJob, match=f"{JOB} may run unattended"):
            aws.launcher.submit(a_plan(**WITH_CHANNEL))


@pytest.mark.parametrize("keys", [0, 1, None])
def test_a_job_that_a_process_created_just_before_it_died_is_ended(keys: int | None) -> None:
    """The launcher that ends it has only its name. The key that was left says that it may appear, and so does an S3 that refuses to
    list; without a key nothing is waited for.
    """
    with stubbed(PATIENT) as aws:
        aws.knows_none()
        if keys is None:
            aws.s3.add_client_error("list_objects_v2", "AccessDenied", "Access Denied", 403)
        else:
            asked = {"Bucket": KEY_AT["Bucket"], "Prefix": KEY_AT["Key"], "MaxKeys": 1}
            aws.s3.add_response("list_objects_v2", {"IsTruncated": False, "KeyCount": keys}, asked)
        if keys != 0:
            aws.knows_none(2)
            is_stopped(aws)
        aws.launcher.cancel(JOB)
