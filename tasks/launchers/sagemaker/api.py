"""Calls to AWS as a launcher makes them: a refusal is a launcher's error, and a wait ends with the gate.

Every question about a job is DescribeTrainingJob by the job's name, so that a wait survives a restart.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from typing import Any

from tasks.launchers.base import EngineUnavailable, LaunchError, LaunchRejected, NoCapacity, QuotaExceeded
from tasks.launchers.interruption import pause, tell_silence
from tasks.store.aws import AwsCalls, AwsRefused, AwsTimeouts, login_remedy

# TrainingJobName (botocore 1.44.5).
JOB_NAME = re.compile(r"[a-zA-Z0-9](-*[a-zA-Z0-9]){0,62}")
Described = Mapping[str, Any]
# action -> the policy that grants it; the first beginning counts
POLICIES: Mapping[str, str] = {
    "sagemaker:UpdateTrainingJob": "deployments/iam/orchestrator-pool.json",
    "sagemaker:": "deployments/iam/orchestrator-jobs.json",
    "iam:PassRole": "deployments/iam/orchestrator-jobs.json",
    "s3:": "deployments/iam/orchestrator-reports.json",
    "logs:": "deployments/iam/orchestrator-logs.json",
    "": "one of the policies in deployments/iam",
}
# AWS's code -> the error and what to do.
REMEDIES: Mapping[str, tuple[type[LaunchError], str]] = {
    "ResourceLimitExceeded": (QuotaExceeded, "Ask AWS Service Quotas for more, or end what uses it up"),
    "CapacityError": (NoCapacity, "Try again later, or ask for another instance type"),
    "InsufficientCapacityError": (NoCapacity, "Try again later, or ask for another instance type"),
    "NoSuchBucket": (
        LaunchRejected,
        "Create the bucket, or correct prefix in the gate file's [cluster.options]",
    ),
}
OTHERWISE = (LaunchRejected, "Correct the gate file's [cluster.options] or [training] request")
# "ResourceLimitExceeded: The account-level service limit 'ml.p5.48xlarge for training job usage' is 0 Instances, with
# current utilization of 0 Instances and a request delta of 2 Instances."
QUOTA = re.compile(
    r"service limit '[^']+' is (?P<limit>\d+)\b.*?utilization of (?P<used>\d+)\b.*?delta of (?P<asked>\d+)",
    re.DOTALL,
)
# "User: ... is not authorized to perform: ... with an explicit deny in a service control policy" (IAM User Guide, "Access denied error
# message examples"). Of an identity-based policy that is one which is attached to the identity.
DENIED_BY = re.compile(
    r"(?:explicit deny in an?|because no(?! identity-based)) "
    r"((?:service control|resource control|resource-based|VPC endpoint|session|identity-based) policy|permissions boundary)",
    re.IGNORECASE,
)


class Clients(AwsCalls):
    """The calls of a launcher in one region. They raise LaunchError."""

    unavailable, unusable = EngineUnavailable, LaunchRejected

    def __init__(self, region: str, limits: AwsTimeouts | None = None) -> None:
        super().__init__(f"in {region}", region, limits or AwsTimeouts())

    def explained(self, refusal: AwsRefused) -> Exception:
        """What was refused, for which object, and the remedy."""
        return explained(refusal)

    def wait(self, seconds: float, reason: str, tried_s: float, most_s: float) -> bool:
        """Tell the gate that AWS is asked again, and sleep; False where the gate is to end."""
        tell_silence(reason, tried_s, most_s)
        return pause(seconds)


def describe(clients: Clients, name: str, within_s: float | None = None) -> Described | None:
    """What SageMaker says of a job; None if it knows none of that name. Raises LaunchError."""
    if not JOB_NAME.fullmatch(name):
        return None
    described: Described | None = clients.call(
        "sagemaker",
        "describe_training_job",
        lambda refusal: refusal.is_missing,
        within_s,
        TrainingJobName=name,
    )
    return described


def describe_new(clients: Clients, name: str) -> Described | None:
    """SageMaker is asked about a job that was created a moment ago until the job is visible. The result is None if it does not become
    visible. Raises LaunchError.
    """
    limits = clients.limits
    end = time.monotonic() + limits.visible_s
    while (job := describe(clients, name)) is None and time.monotonic() < end and pause(4 * limits.pause_s):
        pass
    return job


def hosts_of(described: Described) -> tuple[str, ...]:
    """The names that SageMaker gives to a job's hosts: algo-1 to algo-N ("resourceconfig.json")."""
    return names_of(int((described.get("ResourceConfig") or {}).get("InstanceCount") or 0))


def names_of(nodes: int) -> tuple[str, ...]:
    """The host names of a job with that many nodes."""
    return tuple(f"algo-{number}" for number in range(1, nodes + 1))


def explained(refusal: AwsRefused) -> LaunchError:
    """AWS's refusal as a launcher's error: what was refused, for which object, and the remedy. Pure."""
    if refusal.is_login:
        return LaunchRejected(login_remedy(refusal))
    if refusal.is_denied:
        return LaunchRejected(f"{refusal}. {_grant(refusal)}")
    if _is_in_use(refusal):
        return NoCapacity(f"{refusal}. Other jobs of this account use it: try again when they have ended.")
    error, remedy = REMEDIES.get(refusal.code, OTHERWISE)
    return error(f"{refusal}. {remedy}.")


def _is_in_use(refusal: AwsRefused) -> bool:
    """Whether the quota itself is large enough, so that waiting helps."""
    match = QUOTA.search(refusal.message)
    return match is not None and int(match["asked"]) <= int(match["limit"]) and int(match["used"]) > 0


def _grant(refusal: AwsRefused) -> str:
    if denied := DENIED_BY.search(refusal.message):
        return f"A {denied[1].lower()} of this account denies it, and no policy of the identity can undo that: ask whoever keeps it."
    match = re.search(r"not authorized to perform: ([a-z0-9-]+:[A-Za-z]+)", refusal.message)
    action = match[1] if match else refusal.action
    policy = next(file for beginning, file in POLICIES.items() if action.startswith(beginning))
    return f"Allow {action}: attach {policy} to the identity that runs the gate."
