"""SageMaker's states in the launchers' words: of the tables, and of one DescribeTrainingJob and what lies in S3."""

from __future__ import annotations

import functools
from typing import Any

import pytest
from botocore.session import get_session

from tasks.launchers.base import JobState, JobStatus, LaunchError, LaunchRejected, Trouble
from tasks.launchers.sagemaker import job_states
from tests.tasks.launchers.sagemaker.stubbed import ALGORITHM, BEGAN, CAPACITY, JOB, Stubbed, described, ended
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


A, B = "a" * 32, "b" * 32


def lists(aws: Stubbed, *paths: str, token: str = "", following: str = "") -> None:
    """S3 lists these below the job's reports, and what else there is after this page."""
    top = f"gates/{JOB}/reports/"
    attributes = {"ETag": '"e"', "Size": 2, "LastModified": BEGAN}
    answer: dict[str, Any] = {"Contents": [{"Key": f"{top}gate/{path}", **attributes} for path in paths]}
    answer |= {"IsTruncated": bool(following)} | ({"NextContinuationToken": following} if following else {})
    asked = {"Bucket": "bucket", "Prefix": top} | ({"ContinuationToken": token} if token else {})
    aws.s3.add_response("list_objects_v2", answer, asked)


def state_while_s3_is_silent(aws: Stubbed) -> JobStatus:
    """S3 answers no list, however often it is asked."""
    for _ in range(2000):
        aws.s3.add_client_error("list_objects_v2", "SlowDown", "Reduce your request rate", 503)
    status = aws.launcher.state(JOB)
    aws.s3._queue.clear()
    return status


@pytest.mark.parametrize("name", ["../x", "", "x" * 300, "a/b", "-x", "x y"])
def test_a_name_that_no_job_can_have_is_unknown_without_a_call(aws: Stubbed, name: str) -> None:
    """Nothing is asked, nothing is put up."""
    assert aws.launcher.state(name).state is JobState.UNKNOWN


@pytest.mark.parametrize(
    ("code", "said"),
    [("AccessDeniedException", "orchestrator-jobs.json"), ("ExpiredTokenException", "renew them")],
)
def test_a_refused_look_is_unknown_with_the_remedy(aws: Stubbed, code: str, said: str) -> None:
    """A retry may mend it, so it is no exception."""
    aws.refuses("describe_training_job", code, "no")
    status = aws.launcher.state(JOB)
    assert (status.state, said in status.detail) == (JobState.UNKNOWN, True)
    assert not status.absent


def test_capacity_that_comes_late_is_only_waited_for(aws: Stubbed) -> None:
    """Pending, then training."""
    aws.describes(
        described(secondary="Pending", steps=("Starting", "Pending")),
        described(steps=("Starting", "Pending", "Starting", "Training")),
    )
    aws.writes_nothing()
    states = [aws.launcher.state(JOB) for _ in range(2)]
    assert [status.state for status in states] == [JobState.PENDING, JobState.RUNNING]
    assert "Insufficient capacity" in states[1].history[1]


def test_a_job_without_capacity_says_so(aws: Stubbed) -> None:
    """It never ran: nothing is looked for in S3."""
    aws.describes(ended("Failed", steps=("Starting", "Pending", "Failed"), FailureReason=CAPACITY))
    status = aws.launcher.state(JOB)
    assert (status.state, status.trouble, status.attempt) == (JobState.FAILED, Trouble.NO_CAPACITY, "")


def test_the_running_attempt_is_known_by_its_objects_and_stays_while_s3_is_silent(aws: Stubbed) -> None:
    """Without reading one of them. Silence does not end a job that runs; the detail says what is wrong."""
    aws.describes(described(), described())
    lists(aws, f"{A}/agent/algo-1.json", f"{A}/agent/algo-2.json")
    status = aws.launcher.state(JOB)
    assert (status.state, status.attempt, status.earlier) == (JobState.RUNNING, A, ())
    status = state_while_s3_is_silent(aws)
    assert (status.state, status.attempt, "SlowDown" in status.detail) == (JobState.RUNNING, A, True)


def test_a_restart_that_left_nothing_is_not_judged_by_the_life_before(aws: Stubbed) -> None:
    """Not even where the job has ended and nothing more can come."""
    steps = ("Starting", "Training", "Restarting", "Starting", "Training", "Failed")
    aws.describes(ended("Failed", steps=steps, FailureReason=ALGORITHM))
    lists(aws, f"{A}/agent/algo-1.json", f"{A}/agent/algo-2.json")
    aws.writes_nothing()
    for _ in range(2):
        aws.logs.add_client_error("describe_log_streams", "ResourceNotFoundException", "", 400)
    status = aws.launcher.state(JOB)
    assert (status.state, status.attempt, status.earlier) == (JobState.FAILED, "", (A,))


def test_s3_that_is_silent_at_the_end_is_asked_again(aws: Stubbed) -> None:
    """Whether there are reports is not known: unknown, not final."""
    aws.describes(ended())
    status = state_while_s3_is_silent(aws)
    assert (status.state, "SlowDown" in status.detail) == (JobState.UNKNOWN, True)


def test_reports_that_may_not_be_read_are_final_without_an_attempt(aws: Stubbed) -> None:
    """To ask again is in vain; the remedy is in the detail."""
    aws.describes(ended())
    aws.s3.add_client_error("list_objects_v2", "AccessDenied", "Access Denied", 403)
    status = aws.launcher.state(JOB)
    assert (status.state, status.attempt) == (JobState.SUCCEEDED, "")
    assert "orchestrator-reports.json" in status.detail


def test_an_unknown_job_is_cancelled_without_a_word(aws: Stubbed) -> None:
    """It is not final: it may be created yet. Neither is a name that no job can have."""
    aws.knows_none(2)
    aws.writes_nothing()
    status = aws.launcher.state(JOB)
    aws.launcher.cancel(JOB)
    aws.launcher.cancel("../x")
    assert (status.state, status.state.final, status.absent) == (JobState.UNKNOWN, False, True)


def test_a_cancel_stops_waits_and_lets_the_machines_go(aws: Stubbed) -> None:
    """Pools are kept after a stop as well."""
    aws.describes(described())
    aws.sagemaker.add_response("stop_training_job", {}, {"TrainingJobName": JOB})
    aws.describes(described("Stopping", "Stopping"), ended("Stopped"), ended("Stopped"))
    aws.refuses("update_training_job", "ValidationException", "Warm pool is not available")
    aws.describes(ended("Stopped", WarmPoolStatus={"Status": "Available"}))
    aws.sagemaker.add_response("update_training_job", {"TrainingJobArn": "arn:aws:sagemaker:x"})
    aws.describes(ended("Stopped", WarmPoolStatus={"Status": "Terminated"}))
    aws.launcher.cancel(JOB)


def test_a_job_that_ended_meanwhile_is_cancelled_already(aws: Stubbed) -> None:
    """SageMaker refuses to stop it."""
    aws.describes(described(keep_alive_s=0))
    aws.refuses("stop_training_job", "ValidationException", "It was rejected because it is Completed")
    aws.describes(ended(keep_alive_s=0), ended(keep_alive_s=0))
    aws.launcher.cancel(JOB)


def test_a_stop_that_is_not_allowed_is_an_error(aws: Stubbed) -> None:
    """The job runs on, and costs."""
    aws.describes(described())
    aws.refuses("stop_training_job", "AccessDeniedException", "no")
    with pytest.raises(LaunchRejected, match="Allow sagemaker:StopTrainingJob"):
        aws.launcher.cancel(JOB)


def test_an_answer_lies_where_the_attempt_looks_for_it(aws: Stubbed) -> None:
    """One object an attempt."""
    asked = {"Bucket": "bucket", "Key": f"gates/{JOB}/answers/{A}.json", "Body": b"yes"}
    aws.s3.add_response("put_object", {}, asked)
    aws.launcher.answer(JOB, A, b"yes")


@pytest.mark.parametrize("attempt", ["", "../x", "a/b"])
def test_an_answer_to_no_attempt_is_refused(aws: Stubbed, attempt: str) -> None:
    """It would lie where nobody looks."""
    with pytest.raises(LaunchError, match="no attempt"):
        aws.launcher.answer(JOB, attempt, b"yes")


def test_the_merged_report_lies_at_the_seeds_path(aws: Stubbed) -> None:
    """For the tools that read it there."""
    key = f"{JOB}/metrics/health_check_metrics.json"
    aws.s3.add_response("put_object", {}, {"Bucket": "bucket", "Key": key, "Body": b"{}"})
    assert f"s3://bucket/{key}" == aws.launcher.hand_out(JOB, b"{}")


def test_a_list_of_many_pages_is_read_to_its_end(aws: Stubbed) -> None:
    """ListObjectsV2 gives a thousand at most."""
    aws.describes(described())
    lists(aws, f"{A}/agent/algo-1.json", following="more")
    lists(aws, f"{B}/agent/algo-1.json", token="more")
    status = aws.launcher.state(JOB)

    assert {status.attempt, *status.earlier} == {A, B}
