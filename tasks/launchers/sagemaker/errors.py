"""Turns AWS's answer into a launcher's error: what was refused, for which object, and the remedy. Pure.

Refused             an answer that trying again does not mend; `code` decides what the caller makes of it
"""

from __future__ import annotations

import os
import re

from tasks.launchers.base import LaunchError, LaunchRejected, NoCapacity, QuotaExceeded
from tasks.text.redact import redact

# What botocore 1.44.5 itself takes for throttling or a passing fault (botocore.retries.standard), and S3's own words
# (Amazon S3 API Reference, "Error responses").
LATER = {
    "BandwidthLimitExceeded", "ConditionalRequestConflict", "EC2ThrottledException", "InternalError", "InternalFailure",
    "InternalServerException", "LimitExceededException", "OperationAborted", "PriorRequestNotComplete",
    "ProvisionedThroughputExceededException", "RequestLimitExceeded", "RequestThrottled", "RequestThrottledException",
    "RequestTimeout", "RequestTimeoutException", "ServiceUnavailable", "ServiceUnavailableException", "SlowDown",
    "ThrottledException", "Throttling", "ThrottlingException", "TooManyRequestsException", "TransactionInProgressException",
}  # fmt: skip
EXPIRED = {"ExpiredToken", "ExpiredTokenException", "TokenRefreshRequired", "RequestExpired"}
# AWS, "Common errors": credentials that nobody knows, or a request that was signed wrongly.
STRANGE = {
    "InvalidAccessKeyId", "InvalidClientTokenId", "InvalidSignatureException", "InvalidToken", "MissingAuthenticationToken",
    "MissingAuthenticationTokenException", "RequestTimeTooSkewed", "SignatureDoesNotMatch", "UnrecognizedClientException",
}  # fmt: skip
DENIED = {"AccessDenied", "AccessDeniedException", "UnauthorizedOperation", "AllAccessDisabled", "403"}
MISSING = {"ResourceNotFound", "ResourceNotFoundException", "NoSuchKey", "404"}
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
SAID_CHARACTERS = 600


class Refused(LaunchError):
    """AWS refused `action` ("sagemaker:CreateTrainingJob"). `status` is HTTP's."""

    def __init__(self, action: str, code: str, status: int, said: str) -> None:
        super().__init__(f"{action}: AWS answered {code}: {said}")
        self.action, self.code, self.status, self.said = action, code, status, said

    @property
    def passes(self) -> bool:
        """Whether trying again may help."""
        return self.code in LATER or self.status == 429 or (self.status >= 500 and self.status != 501)

    @property
    def missing(self) -> bool:
        """Whether what was asked for is not there: SageMaker says so with a ValidationException as well."""
        return self.code in MISSING or (
            self.code == "ValidationException" and "not found" in self.said.lower()
        )


def refused(action: str, code: str, status: int, said: str) -> Refused:
    """The same with AWS's words on one line, without secrets."""
    return Refused(action, code or str(status), status, clean(said))


def explained(refusal: Refused) -> LaunchError:
    """The error to raise to the caller of a launcher."""
    code = refusal.code
    if code == "ResourceLimitExceeded":
        return _quota(refusal)
    if "Capacity" in code:
        return NoCapacity(f"{refusal}. Try again later, or ask for another instance type.")
    if code in EXPIRED:
        return LaunchRejected(
            f"{refusal}. The AWS credentials have expired: renew them (aws sso login, or the role), then run again."
        )
    if code in STRANGE:
        return LaunchRejected(
            f"{refusal}. AWS does not accept these credentials: check that they are complete and that this machine's clock is right "
            "(aws sts get-caller-identity)."
        )
    if code in DENIED or refusal.status in (401, 403):
        return LaunchRejected(f"{refusal}. {_grant(refusal)}")
    if code == "NoSuchBucket":
        return LaunchRejected(
            f"{refusal}. Create the bucket, or correct prefix in the gate file's [cluster.options]."
        )
    return LaunchRejected(f"{refusal}. Correct the gate file's [cluster.options] or [training] request.")


def clean(said: object) -> str:
    """One line without secrets."""
    return " ".join(redact(str(said), os.environ).split())[:SAID_CHARACTERS].rstrip(".")


def _grant(refusal: Refused) -> str:
    if denied := DENIED_BY.search(refusal.said):
        return f"A {denied[1].lower()} of this account denies it, and no policy of the identity can undo that: ask whoever keeps it."
    named = re.search(r"not authorized to perform: ([a-z0-9-]+:[A-Za-z]+)", refusal.said)
    action = named[1] if named else refusal.action
    found = max((key for key in POLICIES if action.startswith(key)), key=len, default="")
    policy = f"deployments/iam/{POLICIES[found]}" if found else "the policies in deployments/iam"
    return f"Allow {action}: attach {policy} to the identity that runs the gate."


def _quota(refusal: Refused) -> LaunchError:
    found = QUOTA.search(refusal.said)
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
