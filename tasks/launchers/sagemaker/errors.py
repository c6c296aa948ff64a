"""Turns AWS's refusal into a launcher's error: what was refused, for which object, and the remedy. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

from tasks.launchers.base import LaunchError, LaunchRejected, NoCapacity, QuotaExceeded
from tasks.store.aws import Refused, login_remedy

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


def explained(refusal: Refused) -> LaunchError:
    """The error to raise to the caller of a launcher."""
    if refusal.is_login:
        return LaunchRejected(login_remedy(refusal))
    if refusal.is_denied:
        return LaunchRejected(f"{refusal}. {_grant(refusal)}")
    if _is_in_use(refusal):
        return NoCapacity(f"{refusal}. Other jobs of this account use it: try again when they have ended.")
    kind, remedy = REMEDIES.get(refusal.code, OTHERWISE)
    return kind(f"{refusal}. {remedy}.")


def _is_in_use(refusal: Refused) -> bool:
    """Whether the quota itself is large enough, so that waiting helps."""
    found = QUOTA.search(refusal.message)
    return found is not None and int(found["asked"]) <= int(found["limit"]) and int(found["used"]) > 0


def _grant(refusal: Refused) -> str:
    if denied := DENIED_BY.search(refusal.message):
        return f"A {denied[1].lower()} of this account denies it, and no policy of the identity can undo that: ask whoever keeps it."
    named = re.search(r"not authorized to perform: ([a-z0-9-]+:[A-Za-z]+)", refusal.message)
    action = named[1] if named else refusal.action
    policy = next(file for beginning, file in POLICIES.items() if action.startswith(beginning))
    return f"Allow {action}: attach {policy} to the identity that runs the gate."
