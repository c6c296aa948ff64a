"""Starts a training job once, and ends one.

What a job needs is written to S3 first. A job that already has the name is adopted. StopTrainingJob sends SIGTERM, after up to
120 s SIGKILL, and then what the job wrote is uploaded.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from checks.exchange import secret_key
from tasks.launchers.base import (
    ApiCall,
    EngineUnavailable,
    JobHandle,
    LaunchError,
    LaunchRejected,
    Plan,
    UnseenJob,
)
from tasks.launchers.sagemaker import warm_pool
from tasks.launchers.sagemaker.api import Clients, Described, describe, describe_new, explained
from tasks.launchers.sagemaker.job_states import detail_of, state_of, trained
from tasks.launchers.sagemaker.request.difference import Difference, differences, differences_text
from tasks.launchers.sagemaker.request.locations import CHANNEL, bucket_of, key_in, key_of, object_of
from tasks.launchers.sagemaker.request.overrides import AGENT
from tasks.launchers.sagemaker.request.validate import at
from tasks.store.aws import AwsRefused

# Two jobs of one name must agree on these: the machines, what runs on them, its inputs, and where its output goes.
SAME = (
    "RoleArn", "AlgorithmSpecification.TrainingImage", "AlgorithmSpecification.Container", "ResourceConfig.InstanceType",
    "ResourceConfig.InstanceCount", "InputDataConfig", "OutputDataConfig.S3OutputPath",
)  # fmt: skip
# "StopTrainingJob": the container has 120 s; the rest is for the upload of its output.
STOP_S = 600.0
FIRST_LOOK_S = 0.2


def submit(clients: Clients, plan: Plan, unseen: dict[str, bool]) -> JobHandle:
    """Adopt the job of that name, or start it. Raises LaunchError; never starts two, whatever answer is lost.

    `unseen` has afterwards each job that may have been created and is not described yet; True: SageMaker says that it exists. What is
    refused about such a job is an UnseenJob, because every other refusal says that nothing was started.
    """
    (call,) = plan.calls
    try:
        return _submit(clients, plan, call, unseen)
    except LaunchError as error:
        if call.name not in unseen or isinstance(error, EngineUnavailable):
            raise
        raise _unattended(clients, call.name, error) from error


def _submit(clients: Clients, plan: Plan, call: ApiCall, unseen: dict[str, bool]) -> JobHandle:
    described = describe(clients, call.name)
    if described is None:
        for url, data in sorted(plan.uploads.items()):
            described = _upload(clients, call.name, url, data)
            if described is not None:
                break
        else:
            # Make the key of the job's exchange, unless a submit before this one did: hosts may have that one already, as the job may
            # exist. It is part of no plan, and is encrypted as the bucket's default says: "Amazon S3 now automatically encrypts all
            # new objects" (Amazon S3 User Guide, "Setting default server-side encryption behavior").
            for inputs in _channel(call.body):
                if not _put(clients, key_in(str(inputs)), secret_key.make(), IfNoneMatch="*"):
                    unseen.setdefault(call.name, False)
    if described is not None:
        handle = adopted(described, call, unseen)
    else:
        handle, described = _create(clients, call, unseen)
    _require_as_sent(clients, call, described)
    return handle


def _unattended(clients: Clients, name: str, problem: object) -> LaunchError:
    error = UnseenJob(f"{problem} {name} may run unattended.")
    return warm_pool.with_command(error, clients, name, warm_pool.STOP)


def _describe_created(clients: Clients, name: str, problem: str) -> Described:
    """A job that was created, or may have been: for a moment SageMaker may not describe it. Raises LaunchError."""
    described = describe_new(clients, name)
    if described is None:
        raise _unattended(clients, name, f"{problem}, and does not describe it.")
    return described


def _require_as_sent(clients: Clients, call: ApiCall, job: Described) -> None:
    """Stop a job that AWS has otherwise than it was sent, and raise LaunchRejected. Once its containers ran that saves nothing."""
    wrong = differences(call.body, job) if not trained(job) and not state_of(job).final else ()
    if not wrong:
        return
    try:
        _stop(clients, call.name)
    except LaunchError as error:
        raise _unattended(clients, call.name, error) from error
    raise LaunchRejected(
        f"{call.name} was stopped before its checks, because AWS does not have it as it was sent: {differences_text(wrong)}. Find out "
        "what changes the requests of this account, or ask for what it allows in [cluster.options] or [training] request."
    )


def adopted(described: Described, call: ApiCall, unseen: dict[str, bool]) -> JobHandle:
    """The job that has the name already. Raises LaunchRejected if it is a different job."""
    unseen.pop(call.name, None)
    wrong = [each for each in differences(call.body, described) if each.field.startswith(SAME)]
    sent, has = _orders(call.body), _orders(described)
    if sent != has:
        wrong.append(Difference("the environment for the agent", sent, has))
    if wrong:
        raise LaunchRejected(
            f"{call.name} exists already and is another job: {differences_text(wrong)}. Start the gate again, for a name of its own."
        )
    return JobHandle(call.name, adopted=True)


def _create(clients: Clients, call: ApiCall, unseen: dict[str, bool]) -> tuple[JobHandle, Described]:
    def create() -> Described:
        clients.client("sagemaker").create_training_job(**call.body)
        return {}

    def created() -> Described | None:
        """A lost answer is asked about by name before anything is sent again."""
        unseen.setdefault(call.name, False)
        with suppress(LaunchError):
            return describe(clients, call.name, 5.0)
        return None

    try:
        described = clients.tried("sagemaker:CreateTrainingJob", create, created)
    except AwsRefused as refusal:
        if refusal.code == "ResourceInUse":
            unseen[call.name] = True
        if call.name not in unseen:
            for inputs in _channel(call.body):
                remove_key(clients, str(inputs))
            raise explained(refusal) from refusal
        described = _describe_created(clients, call.name, str(refusal))
        return adopted(described, call, unseen), described
    if described:  # the answer was lost: somebody else's job may bear the name as well
        adopted(described, call, unseen)
    else:
        unseen[call.name] = True
        described = _describe_created(clients, call.name, f"sagemaker:CreateTrainingJob took {call.name}")
        del unseen[call.name]
    return JobHandle(call.name, adopted=False), described


def _upload(clients: Clients, name: str, url: str, data: bytes) -> Described | None:
    """Write one input; the job, where it exists by now and has other bytes there: those are never overwritten."""
    if _put(clients, url, data, IfNoneMatch="*") or _get(clients, url) == data:
        return None
    described = describe(clients, name)
    if described is None:  # left by a submit that died before its job began
        _put(clients, url, data)
    return described


def _has_key(clients: Clients, inputs: str) -> bool:
    """Whether the key is there, or may be. It is listed because the orchestrator may not read it."""
    key = key_in(inputs)
    try:
        listed = clients.call("s3", "list_objects_v2", Bucket=bucket_of(key), Prefix=key_of(key), MaxKeys=1)
    except LaunchError:
        return True
    return bool(listed.get("KeyCount"))


def remove_key(clients: Clients, inputs: str) -> None:
    """Delete the key after the job's end or its refusal. It is useless by then, so a missing permission to delete it is no error."""
    with suppress(LaunchError):
        clients.call("s3", "delete_object", **object_of(key_in(inputs)))


def _put(clients: Clients, url: str, data: bytes, **condition: Any) -> bool:
    """Write the object; returns whether the condition held. Raises LaunchError."""
    answer = clients.call(
        "s3", "put_object", lambda refusal: refusal.status == 412, **object_of(url), Body=data, **condition
    )
    return answer is not None


def _get(clients: Clients, url: str) -> bytes | None:
    answer = clients.answer("s3:GetObject", lambda: clients.read(bucket_of(url), key_of(url)))
    return answer and answer[0]


def _channel(body: Mapping[str, Any]) -> list[object]:
    """Where the job's bundle and pass lie."""
    inputs = [each for each in body.get("InputDataConfig") or () if each.get("ChannelName") == CHANNEL]
    return [at(channel, "DataSource.S3DataSource.S3Uri") for channel in inputs]


def _orders(body: Mapping[str, Any]) -> dict[str, Any]:
    """The agent's environment variables, such as the order to start whatever the checks found."""
    places = (body.get("Environment") or {}, body.get("HyperParameters") or {})
    return {key: value for table in places for key, value in table.items() if key.upper().startswith(AGENT)}


def cancel(clients: Clients, name: str, inputs: str, poll_s: float, unseen: dict[str, bool]) -> None:
    """Stop the job, wait for its end and release its machines. Unknown and ended jobs are no error. An `unseen` one is waited for, and
    so is one whose key lies in `inputs`: a process that died may have created it a moment ago.

    Raises LaunchError, with what to type where something may be left.
    """
    try:
        described = describe(clients, name)
        if described is None and (name in unseen or _has_key(clients, inputs)):
            described = describe_new(clients, name)
        if described is None and unseen.get(name):
            raise LaunchError(f"SageMaker says that {name} exists, and does not describe it.")
        if described is not None and not state_of(described).final:
            _stop(clients, name)
            _wait(clients, name, poll_s)
    except LaunchError as error:
        raise warm_pool.with_command(error, clients, name, warm_pool.STOP) from error
    if described is not None:
        warm_pool.release(clients, name, poll_s)


def _stop(clients: Clients, name: str) -> None:
    # "The request was rejected because the training job is in status ...": it ended meanwhile.
    clients.call(
        "sagemaker",
        "stop_training_job",
        lambda refusal: refusal.is_missing or refusal.code == "ValidationException",
        TrainingJobName=name,
    )


def _wait(clients: Clients, name: str, poll_s: float) -> None:
    end, next_s = time.monotonic() + STOP_S, min(FIRST_LOOK_S, poll_s)
    while (described := describe(clients, name)) and not state_of(described).final:
        if time.monotonic() >= end:
            raise LaunchError(
                f"{name} was asked to stop and has not ended after {STOP_S:g} s: {detail_of(described)}."
            )
        time.sleep(next_s)
        next_s = min(poll_s, next_s * 1.5)
