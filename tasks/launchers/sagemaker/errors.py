"""Turns AWS's refusal into a launcher's error: what was refused, for which object, and the remedy. Pure."""

from __future__ import annotations

import re

from tasks.launchers.base import LaunchError, LaunchRejected, NoCapacity, QuotaExceeded
from tasks.store.aws import Refused, login_remedy

# action -> the policy under deployments/iam that grants it; the longest beginning counts
POLICIES = {
    "sagemaker:UpdateTrainingJob": "orchestrator-pool.json",
    "sagemaker:": "orchestrator-jobs.json",
    "iam:PassRole": "orchestrator-jobs.json",
    "s3:": "orchestrator-reports.json",
    "logs:": "orchestrator-logs.json",
}
# "ResourceLimitExceeded: The account-level service limit 'ml.p5.48xlarge for training job usage' is 0 Instances, with
# current utilization of 0 Instances and a request delta of 2 Instances."
QUOTA = re.compile(
    r"service limit '(?P<quota>[^']+)' is (?P<limit>\d+)\b.*?utilization of (?P<used>\d+)\b.*?delta of (?P<asked>\d+)",
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
    code = refusal.code
    if code == "ResourceLimitExceeded":
        return _quota(refusal)
    if "Capacity" in code:
        return NoCapacity(f"{refusal}. Try again later, or ask for another instance type.")
    if refusal.is_login:
        return LaunchRejected(login_remedy(refusal))
    if refusal.is_denied:
        return LaunchRejected(f"{refusal}. {_grant(refusal)}")
    if code == "NoSuchBucket":
        return LaunchRejected(
            f"{refusal}. Create the bucket, or correct prefix in the gate file's [cluster.options]."
        )
    return LaunchRejected(f"{refusal}. Correct the gate file's [cluster.options] or [training] request.")


def _grant(refusal: Refused) -> str:
    if denied := DENIED_BY.search(refusal.message):
        return f"A {denied[1].lower()} of this account denies it, and no policy of the identity can undo that: ask whoever keeps it."
    named = re.search(r"not authorized to perform: ([a-z0-9-]+:[A-Za-z]+)", refusal.message)
    action = named[1] if named else refusal.action
    found = max((key for key in POLICIES if action.startswith(key)), key=len, default="")
    policy = f"deployments/iam/{POLICIES[found]}" if found else "the policies in deployments/iam"
    return f"Allow {action}: attach {policy} to the identity that runs the gate."


def _quota(refusal: Refused) -> LaunchError:
    found = QUOTA.search(refusal.message)
    if found is None:
        return QuotaExceeded(f"{refusal}. Ask AWS Service Quotas for more, or end what uses it up.")
    quota, limit, used, asked = found["quota"], int(found["limit"]), int(found["used"]), int(found["asked"])
    if asked <= limit and used:
        return NoCapacity(
            f"{refusal}. {used} of {limit} of quota {quota!r} are in use by other jobs of this account: try again when "
            "they have ended."
        )
    return QuotaExceeded(
        f"{refusal}. Ask for at least {used + asked} of quota {quota!r}: aws service-quotas "
        "request-service-quota-increase --service-code sagemaker."
    )
