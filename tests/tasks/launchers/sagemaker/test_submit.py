"""One job of a name, whatever is asked twice, lost, throttled, refused, or not described yet: adopted, or named to a person."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from itertools import chain, repeat
from typing import Any
from unittest.mock import DEFAULT, Mock, call

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError, ReadTimeoutError
from botocore.response import StreamingBody

from checks.exchange import secret_key
from tasks.launchers.base import (
    EngineUnavailable,
    JobState,
    LaunchError,
    LaunchRejected,
    NoCapacity,
    QuotaExceeded,
    UnseenJob,
)
from tasks.launchers.interruption import Silence, interruptible, silences
from tests.tasks.launchers.sagemaker.stubbed import (
    JOB,
    QUICK,
    QUOTA,
    Stubbed,
    a_plan,
    described,
    ended,
    stubbed,
)

NO_ROUTE = EndpointConnectionError(endpoint_url="https://sagemaker")
TIMED_OUT = ReadTimeoutError(endpoint_url="https://sagemaker")
# The right that AWS denies, and the one that is granted apart.
DENIED = "User: arn:aws:iam::1:user/x is not authorized to perform: {} on resource: arn:y"
GRANT = r"Allow sagemaker:CreateTrainingJob: attach deployments/iam/orchestrator-jobs\.json"
LIMIT, NO_ACCESS = "ResourceLimitExceeded", "AccessDeniedException"
URL = f"s3://bucket/gates/{JOB}/in/bundle.json"


def stored(data: bytes) -> dict[str, Any]:
    """GetObject's answer."""
    return {"Body": StreamingBody(io.BytesIO(data), len(data)), "ETag": '"e"', "ContentLength": len(data)}


def loses_answers(aws: Stubbed, monkeypatch: pytest.MonkeyPatch, error: Exception, times: int = 1) -> Mock:
    """CreateTrainingJob, whose answer is lost so often; every call is counted."""
    client = aws.launcher.clients.client("sagemaker")
    create = Mock(wraps=client.create_training_job, side_effect=chain(repeat(error, times), repeat(DEFAULT)))
    monkeypatch.setattr(client, "create_training_job", create)
    return create


def channel(folder: str) -> dict[str, Any]:
    """The input channel of a gate whose objects are below this."""
    source = {"S3DataType": "S3Prefix", "S3Uri": f"s3://bucket/{folder}/in/"}
    return {"InputDataConfig": [{"ChannelName": "prelaunch", "DataSource": {"S3DataSource": source}}]}


WITH_CHANNEL = channel(f"gates/{JOB}")
OBSERVES = {"Environment": {"PRELAUNCH_OBSERVE": "1"}}


@pytest.mark.parametrize(
    ("found", "planned", "why"),
    [
        ({"nodes": 4}, {}, r"is another job: ResourceConfig\.InstanceCount is 4, and 2 was sent"),
        (OBSERVES, {}, r"the environment for the agent is \{'PRELAUNCH_OBSERVE': '1'\}"),
        (channel("others"), WITH_CHANNEL, r"S3Uri is 's3://bucket/others/in/', and"),
    ],
)
def test_another_job_of_that_name_is_not_adopted(
    aws: Stubbed, found: dict[str, Any], planned: dict[str, Any], why: str
) -> None:
    """Other machines would answer for ours, an agent that was told otherwise would train, and the pass would be another gate's."""
    aws.describes(described(**found))
    with pytest.raises(LaunchRejected, match=why):
        aws.launcher.submit(a_plan(**planned))


def test_another_job_behind_a_lost_answer_is_not_ours(aws: Stubbed, monkeypatch: pytest.MonkeyPatch) -> None:
    """It took the name between our look and our request."""
    loses_answers(aws, monkeypatch, TIMED_OUT)
    aws.knows_none()
    aws.describes(described(nodes=4))
    with pytest.raises(LaunchRejected, match="is another job"):
        aws.launcher.submit(a_plan())


@pytest.mark.parametrize(("error", "sent"), [(TIMED_OUT, 1), (NO_ROUTE, 2)])
def test_a_lost_answer_is_asked_about_before_anything_is_sent_again(
    aws: Stubbed, monkeypatch: pytest.MonkeyPatch, error: Exception, sent: int
) -> None:
    """The job was made, and its answer timed out; or SageMaker knows no such job."""
    create = loses_answers(aws, monkeypatch, error)
    aws.knows_none(sent)
    (aws.describes if sent == 1 else aws.creates)(described())
    handle = aws.launcher.submit(a_plan())
    assert (handle.name, handle.adopted, create.call_count) == (JOB, False, sent)


def test_no_route_ends_in_a_time(aws: Stubbed, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether something runs is not known, and the message says where to look."""
    loses_answers(aws, monkeypatch, NO_ROUTE, 10**6)
    aws.knows_none(2000)
    told: list[Silence] = []
    expected = r"no answer in 0\.3 s .*AWS_ENDPOINT_URL"
    with silences(told.append), pytest.raises(EngineUnavailable, match=expected):
        aws.launcher.submit(a_plan())
    assert told and all(one.problem.startswith("sagemaker:") and one.most_s == 0.3 for one in told)
    aws.sagemaker._queue.clear()


def test_a_gate_that_is_to_end_waits_for_no_answer(aws: Stubbed, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether something runs is not known: the gate then ends it by its name."""
    with interruptible() as stop:
        stop.set()
        create = loses_answers(aws, monkeypatch, NO_ROUTE, 10**6)
        aws.knows_none(2)
        with pytest.raises(EngineUnavailable, match="the gate is to end"):
            aws.launcher.submit(a_plan())
        assert create.call_count == 1


def test_a_job_is_ended_although_the_gate_is_to_end(aws: Stubbed) -> None:
    """A throttled StopTrainingJob is sent again: what it leaves running is paid for."""
    with interruptible() as stop:
        stop.set()
        aws.describes(described(keep_alive_s=0))
        aws.refuses("stop_training_job", "ThrottlingException", "Rate exceeded")
        aws.sagemaker.add_response("stop_training_job", {}, {"TrainingJobName": JOB})
        aws.describes(*[ended("Stopped", keep_alive_s=0)] * 2)
        aws.launcher.cancel(JOB)


@pytest.mark.parametrize(("code", "status"), [("InternalFailure", 500), ("ServiceUnavailable", 503)])
def test_a_fault_of_the_service_may_have_taken_effect(aws: Stubbed, code: str, status: int) -> None:
    """So the job is looked for before another attempt."""
    for _ in range(2):
        aws.knows_none()
        aws.refuses("create_training_job", code, "later", status)
    aws.describes(described())
    assert not aws.launcher.submit(a_plan()).adopted


@pytest.mark.parametrize(
    ("code", "said", "kind", "match"),
    [
        (LIMIT, QUOTA.format(limit=0, used=0, asked=2), QuotaExceeded, "Ask AWS Service Quotas for more"),
        (LIMIT, QUOTA.format(limit=4, used=4, asked=2), NoCapacity, "Other jobs of this account use it"),
        (LIMIT, "too many", QuotaExceeded, "Service Quotas"),
        ("CapacityError", "Unable to provision", NoCapacity, "Try again later"),
        ("ValidationException", "Could not assume role arn:x", LaunchRejected, "Could not assume role"),
        (NO_ACCESS, DENIED.format("sagemaker:CreateTrainingJob"), LaunchRejected, GRANT),
        (NO_ACCESS, DENIED.format("iam:PassRole"), LaunchRejected, "Allow iam:PassRole"),
        ("ExpiredTokenException", "The security token has expired", LaunchRejected, "renew them"),
        ("InvalidSignatureException", "Signature expired: is now earlier", LaunchRejected, "clock"),
        ("UnrecognizedClientException", "The token is invalid", LaunchRejected, "get-caller-identity"),
    ],
)
def test_a_refusal_has_a_kind_and_a_remedy(
    aws: Stubbed, code: str, said: str, kind: type[Exception], match: str
) -> None:
    """AWS's words, and what to do."""
    aws.knows_none()
    aws.refuses("create_training_job", code, said)
    with pytest.raises(kind, match=match) as caught:
        aws.launcher.submit(a_plan())
    assert said.rstrip(".")[:40] in str(caught.value)


def test_inputs_are_written_before_the_job_is_created(aws: Stubbed) -> None:
    """Only where there is nothing."""
    aws.knows_none()
    key = f"gates/{JOB}/in/bundle.json"
    aws.s3.add_response("put_object", {}, {"Bucket": "bucket", "Key": key, "Body": b"x", "IfNoneMatch": "*"})
    aws.creates(described())
    assert not aws.launcher.submit(a_plan(uploads={URL: b"x"})).adopted


@pytest.mark.parametrize("runs", [True, False])
def test_other_inputs_are_replaced_only_if_no_job_reads_them(aws: Stubbed, runs: bool) -> None:
    """A job that was created meanwhile is adopted; a submit that died before its job began leaves inputs that nobody reads."""
    aws.knows_none()
    aws.s3.add_client_error("put_object", "PreconditionFailed", "", 412)
    aws.s3.add_response("get_object", stored(b"other"))
    if runs:
        aws.describes(described())
    else:
        aws.knows_none()
        aws.s3.add_response("put_object", {})
        aws.creates(described())
    assert aws.launcher.submit(a_plan(uploads={URL: b"x"})).adopted is runs


KEY_AT = {"Bucket": "bucket", "Key": f"gates/{JOB}/in/exchange.key"}


def test_each_job_gets_a_key_of_its_own_that_no_plan_has(monkeypatch: pytest.MonkeyPatch) -> None:
    """Made at submit, written only where there is none, before the job is created."""
    keys = set()
    plan = a_plan(**WITH_CHANNEL)
    for _ in range(2):
        with stubbed() as aws:
            client = aws.launcher.clients.client("s3")
            put = Mock(wraps=client.put_object)
            monkeypatch.setattr(client, "put_object", put)
            aws.knows_none()
            aws.s3.add_response("put_object", {})
            aws.creates(described(), **WITH_CHANNEL)
            assert not aws.launcher.submit(plan).adopted
        ((_, given),) = put.call_args_list
        assert {**KEY_AT, "IfNoneMatch": "*"} == {name: given[name] for name in given if name != "Body"}
        keys.add(secret_key.parse(given["Body"], "S3").data)

    assert 2 == len(keys)
    assert not any(key.hex() in str(plan) for key in keys)


def test_the_key_of_a_refused_job_is_deleted(aws: Stubbed) -> None:
    """So that an end by name does not wait for a job that was never created."""
    aws.knows_none()
    aws.s3.add_response("put_object", {})
    aws.refuses("create_training_job", "CapacityError", "no")
    aws.s3.add_response("delete_object", {}, KEY_AT)
    with pytest.raises(NoCapacity):
        aws.launcher.submit(a_plan(**WITH_CHANNEL))


def test_the_key_of_a_submit_before_is_kept(aws: Stubbed) -> None:
    """Its hosts may have it already; nobody reads it here."""
    aws.knows_none()
    aws.s3.add_client_error("put_object", "PreconditionFailed", "", 412)
    aws.creates(described(), **WITH_CHANNEL)
    assert not aws.launcher.submit(a_plan(**WITH_CHANNEL)).adopted


@pytest.mark.parametrize("denied", [False, True])
def test_the_key_is_deleted_once_when_the_job_has_ended(
    aws: Stubbed, monkeypatch: pytest.MonkeyPatch, denied: bool
) -> None:
    """Where that is allowed; where it is not, the job's state is told all the same."""
    denial = ClientError({"Error": {"Code": "AccessDenied", "Message": "no"}}, "DeleteObject")
    delete = Mock(side_effect=denial if denied else None)
    monkeypatch.setattr(aws.launcher.clients.client("s3"), "delete_object", delete)
    aws.describes(described("InProgress", "Starting", ()), *(ended("Stopped", steps=()) for _ in range(2)))
    states = [aws.launcher.state(JOB).state for _ in range(3)]

    assert [JobState.PENDING, JobState.CANCELLED, JobState.CANCELLED] == states
    assert [call(**KEY_AT)] == delete.mock_calls


def test_inputs_that_cannot_be_written_start_nothing(aws: Stubbed) -> None:
    """The job would only fail, for money."""
    aws.knows_none()
    aws.s3.add_client_error("put_object", "AccessDenied", "Access Denied", 403)
    with pytest.raises(LaunchRejected, match=re.escape("deployments/iam/orchestrator-reports.json")):
        aws.launcher.submit(a_plan(uploads={URL: b"x"}))


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
