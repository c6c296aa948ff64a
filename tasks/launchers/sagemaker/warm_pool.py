"""The machines that SageMaker keeps after a job, the managed warm pool: requested, found and released.

Sources: WarmPoolStatus (SageMaker API Reference), "Train using SageMaker managed warm pools", and UpdateTrainingJob, which
takes a keep-alive of 0 as the end of the pool. A pool outlives a job that failed or was stopped, so it is released by name.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

from tasks.launchers.base import (
    COMING_S,
    EngineUnavailable,
    LaunchError,
    LaunchRejected,
    RetainedMachines,
    RetentionState,
)
from tasks.launchers.sagemaker.api import Clients, Described, describe
from tasks.launchers.sagemaker.job_states import keeps, state_of, trained
from tasks.store.aws import AwsRefused

TABLE: Mapping[str, RetentionState] = {
    "InUse": RetentionState.COMING,  # by this very job, which is ending
    "Available": RetentionState.READY,
    "Reused": RetentionState.REUSED,
    "Terminated": RetentionState.GONE,
}
# Judgement: a job that ended has its pool's first status, InUse, within moments, or no pool at all.
NO_STATUS_S = 60.0
# The pool becomes Available some time after the job has ended; AWS says no number.
RELEASE_S = 180.0
# AWS CLI, sagemaker stop-training-job and update-training-job.
STOP = "aws sagemaker stop-training-job --training-job-name {name} --region {region}"
UPDATE = (
    "aws sagemaker update-training-job --training-job-name {name} --resource-config KeepAlivePeriodInSeconds=0 "
    "--region {region}"
)


def retained_of(described: Described) -> RetainedMachines:
    """Whether an ended job's machines are kept. If SageMaker's status is not in the table it is asked again."""
    pool = described.get("WarmPoolStatus") or {}
    status = str(pool.get("Status") or "")
    if not status and not keeps(described):
        return RetainedMachines(RetentionState.NOTHING)
    if not status and state_of(described).final and not trained(described):
        return RetainedMachines(RetentionState.GONE, "the job never had machines")
    retained = pool.get("ResourceRetainedBillableTimeInSeconds")
    detail = f"WarmPoolStatus {status or 'is not there yet'}"
    detail += f", {retained} s retained" if retained is not None else ""
    state = TABLE.get(status, RetentionState.COMING)
    by = str(pool.get("ReusedByJob") or "") if state is RetentionState.REUSED else ""
    detail += f" by {by}" if by else ""
    return RetainedMachines(state, detail, by, COMING_S if status else NO_STATUS_S)


def retained_machines(clients: Clients, name: str) -> RetainedMachines:
    """Ask SageMaker now whether the machines are kept. Without an answer it is not known yet."""
    try:
        described = describe(clients, name)
    except LaunchError as error:
        return RetainedMachines(RetentionState.COMING, str(error))
    gone = RetainedMachines(RetentionState.GONE, f"SageMaker knows no job {name!r:.80}")
    return retained_of(described) if described else gone


def release(clients: Clients, name: str, poll_s: float, within_s: float = RELEASE_S) -> str:
    """Release the pool and wait until it is gone; "" if there was none, or if another job has it.

    Raises LaunchError, with what to type where it may still be kept.
    """
    try:
        return _released(clients, name, poll_s, within_s)
    except LaunchError as error:
        raise with_command(error, clients, name, UPDATE) from error


def with_command(error: LaunchError, clients: Clients, name: str, *commands: str) -> LaunchError:
    """The returned error is `error` with the command to type at its end: the machines are billed until then."""
    typed = " && ".join(command.format(name=name, region=clients.region) for command in commands)
    error_type = type(error) if isinstance(error, EngineUnavailable | LaunchRejected) else LaunchError
    return error_type(error if typed in str(error) else f"{error} By hand: {typed}")


def _released(clients: Clients, name: str, poll_s: float, within_s: float) -> str:
    end, is_asked, problem = time.monotonic() + within_s, False, ""
    while True:
        described = describe(clients, name)
        if described is None:
            return ""
        retained = retained_of(described)
        if retained.state in (RetentionState.NOTHING, RetentionState.GONE, RetentionState.REUSED):
            done = is_asked and retained.state is RetentionState.GONE
            return f"the warm pool of {name} was released ({retained.detail})" if done else ""
        if not state_of(described).final:
            running = LaunchError(f"{name} still runs: its machines cannot be released. End it first.")
            raise with_command(running, clients, name, STOP, UPDATE)
        if not is_asked:
            problem = _let_go(clients, name)
            is_asked = not problem
        if time.monotonic() >= end:
            raise LaunchError(
                f"the warm pool of {name} may still be kept, and billed: {retained.detail}, after {within_s:g} s. {problem}".rstrip()
            )
        time.sleep(poll_s)


def _let_go(clients: Clients, name: str) -> str:
    """Ask SageMaker to release the pool; returns why it does not, "" if it does."""
    reasons: list[str] = []

    def is_not_yet(refusal: AwsRefused) -> bool:
        reasons.append(f"{refusal}.")  # not yet Available, or no more: the next look says which
        return refusal.is_missing or refusal.code in ("ValidationException", "ResourceInUse")

    at_once = {"KeepAlivePeriodInSeconds": 0}
    clients.call("sagemaker", "update_training_job", is_not_yet, TrainingJobName=name, ResourceConfig=at_once)
    return "".join(reasons)
