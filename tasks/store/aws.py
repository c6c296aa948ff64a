"""Calls to AWS that always end: each attempt has a time limit, all attempts together a deadline, and every error a remedy.

The clients are boto3's and are made on first use; endpoint and credentials are boto3's own settings. Who calls says as which
errors a silence and a refusal are raised: the store, and the launcher of SageMaker's jobs.

AwsRefused             an answer that trying again does not mend, before its remedy is known
"""

from __future__ import annotations

import os
import random
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

from tasks.text.redact import redact

T = TypeVar("T")
# What botocore 1.44.5 itself takes for throttling or a passing fault (botocore.retries.standard), and S3's own words
# (Amazon S3 API Reference, "Error responses").
LATER = {
    "BadDigest", "BandwidthLimitExceeded", "ConditionalRequestConflict", "EC2ThrottledException", "InternalError",
    "InternalFailure", "InternalServerException", "LimitExceededException", "OperationAborted", "PriorRequestNotComplete",
    "ProvisionedThroughputExceededException", "RequestLimitExceeded", "RequestThrottled", "RequestThrottledException",
    "RequestTimeout", "RequestTimeoutException", "ServiceUnavailable", "ServiceUnavailableException", "SlowDown",
    "ThrottledException", "Throttling", "ThrottlingException", "TooManyRequestsException", "TransactionInProgressException",
}  # fmt: skip
EXPIRED = {"ExpiredToken", "ExpiredTokenException", "TokenRefreshRequired", "RequestExpired"}
# AWS, "Common errors": credentials that nobody knows, or a request that was signed wrongly.
STRANGE = {
    "AuthFailure", "InvalidAccessKeyId", "InvalidClientTokenId", "InvalidSignatureException", "InvalidToken",
    "MissingAuthenticationToken", "MissingAuthenticationTokenException", "RequestTimeTooSkewed", "SignatureDoesNotMatch",
    "UnrecognizedClientException",
}  # fmt: skip
# The words of SageMaker and IAM, S3, EC2 and CloudWatch for "not allowed".
DENIED = {
    "AccessDenied", "AccessDeniedException", "AccountProblem", "AllAccessDisabled", "AuthorizationError", "Forbidden",
    "UnauthorizedException", "UnauthorizedOperation", "403",
}  # fmt: skip
MISSING = {"ResourceNotFound", "ResourceNotFoundException", "NoSuchKey", "404"}
# Our own code, where boto3 found no credentials to sign a request with.
NO_CREDENTIALS = "NoCredentials"
# Operations that bear another name in IAM (Service Authorization Reference).
RIGHTS = {
    "HeadObject": "GetObject",
    "ListAwsDefaultServiceQuotas": "ListAWSDefaultServiceQuotas",
    "ListObjectsV2": "ListBucket",
}
MESSAGE_CHARACTERS = 600
_LOADERS: dict[tuple[str, ...], Any] = {}


class AwsRefused(Exception):
    """AWS refused `action` ("sagemaker:CreateTrainingJob"). `status` is HTTP's, `attempts` counts those that were made."""

    def __init__(self, action: str, code: str, status: int, message: str, attempts: int = 1) -> None:
        super().__init__(f"{action}: AWS answered {code}: {message}")
        self.action, self.code, self.status, self.message = action, code, status, message
        self.attempts = attempts

    @property
    def passes(self) -> bool:
        """Whether trying again may help: not for what is not implemented, and not for a full disk."""
        return (
            self.code in LATER or self.status == 429 or (self.status >= 500 and self.status not in (501, 507))
        )

    @property
    def is_missing(self) -> bool:
        """Whether what was asked for is not there: SageMaker says so with a ValidationException as well."""
        return self.code in MISSING or (
            self.code == "ValidationException" and "not found" in self.message.lower()
        )

    @property
    def is_login(self) -> bool:
        """Whether the credentials themselves are missing, expired or wrong."""
        return self.code == NO_CREDENTIALS or self.code in EXPIRED | STRANGE

    @property
    def is_denied(self) -> bool:
        """Whether one may not do that."""
        return self.code in DENIED or (self.status in (401, 403) and not self.is_login)


@dataclass(frozen=True)
class Passing:
    """A fault that may pass. `lost` says that the call may have taken effect: AWS did not say that it refused it."""

    reason: str
    lost: bool


@dataclass(frozen=True)
class AwsTimeouts:
    """Seconds: to connect, to hear something, after which nothing is tried again, between two attempts, and until a job that was
    created is described.

    The pause is drawn between 0 and a bound that doubles from `pause_s` to `longest_pause_s`, so that many callers do not
    come back together ("Exponential Backoff And Jitter", AWS Architecture Blog).
    """

    connect_s: float = 5.0
    read_s: float = 20.0
    deadline_s: float = 60.0
    pause_s: float = 0.5
    longest_pause_s: float = 10.0
    # A job is described seconds after it was created.
    visible_s: float = 60.0


class AwsCalls(ABC):
    """boto3's clients of one region ("" is boto3's own), and how their calls are retried. Safe between threads.

    `unavailable` is raised for a silence, `unusable` for settings that boto3 cannot work with.
    """

    unavailable: ClassVar[type[Exception]]
    unusable: ClassVar[type[Exception]]

    def __init__(self, where: str, region: str, limits: AwsTimeouts) -> None:
        self.where, self.region, self.limits = where, region, limits
        self._clients: dict[str, Any] = {}
        self._session: Any = None
        self._lock = threading.Lock()

    @abstractmethod
    def explained(self, refusal: AwsRefused) -> Exception:
        """The error to raise to the caller, with its remedy."""

    def wait(self, seconds: float, action: str, tried_s: float, most_s: float) -> bool:
        """Sleep between two attempts, of `most_s` seconds in all; False where nothing is to be tried again."""
        time.sleep(seconds)
        return True

    def client(self, service: str) -> Any:
        """The client of that service. Raises what boto3 raises, ValueError for an endpoint that is no URL."""
        with self._lock:
            if service not in self._clients:
                self._clients[service] = self._new(service)
            return self._clients[service]

    def once(self, service: str, operation: str, **arguments: Any) -> Any:
        """AWS's answer to boto3's operation of that name. Raises what boto3 raises."""
        return getattr(self.client(service), operation)(**arguments)

    def request(self, service: str, operation: str, **arguments: Any) -> Any:
        """AWS's answer to the operation is asked for as often as `tried` does it. Raises AwsRefused, `unusable` or `unavailable`."""
        return self.tried(action_of(service, operation), lambda: self.once(service, operation, **arguments))

    def call(
        self,
        service: str,
        operation: str,
        absent: Callable[[AwsRefused], bool] | None = None,
        within_s: float | None = None,
        **arguments: Any,
    ) -> Any:
        """AWS's answer to the operation is returned, or None for a refusal that `absent` takes for an answer. Raises what `explained`
        makes of any other refusal.
        """
        action = action_of(service, operation)
        return self.answer(action, lambda: self.once(service, operation, **arguments), absent, within_s)

    def answer(
        self,
        action: str,
        call: Callable[[], T],
        absent: Callable[[AwsRefused], bool] | None = None,
        within_s: float | None = None,
    ) -> T | None:
        """The result is as in `call`, for any function that calls AWS for this action."""
        try:
            return self.tried(action, call, within_s=within_s)
        except AwsRefused as refusal:
            if absent is not None and absent(refusal):
                return None
            raise self.explained(refusal) from refusal

    def listed(self, bucket: str, prefix: str, **options: Any) -> Iterator[Any]:
        """S3's entry of each object below the prefix, page by page. Raises as `call` does."""
        while True:
            page = self.call("s3", "list_objects_v2", Bucket=bucket, Prefix=prefix, **options)
            yield from page.get("Contents", ())
            if not page.get("IsTruncated"):
                return
            options["ContinuationToken"] = page["NextContinuationToken"]

    def read(self, bucket: str, key: str, most: int | None = None) -> tuple[bytes, str]:
        """An object's bytes, `most` of them, and its ETag. For `tried` and `answer`."""
        answer = self.client("s3").get_object(Bucket=bucket, Key=key)
        return bytes(answer["Body"].read(most)), str(answer["ETag"])

    def tried(
        self,
        action: str,
        call: Callable[[], T],
        done: Callable[[], T | None] | None = None,
        within_s: float | None = None,
    ) -> T:
        """`call`'s answer, asked for until the deadline (`within_s`, else the limits') while the fault is one that passes.

        `done` is asked before another attempt where the answer was lost: whether the call took effect, and its answer.
        Raises AwsRefused, `unusable` or `unavailable`.
        """
        within_s = self.limits.deadline_s if within_s is None else within_s
        begun, attempts = time.monotonic(), 0
        while True:
            attempts += 1
            try:
                return call()
            except Exception as error:  # noqa: BLE001 - `fault` raises what it does not know
                passing = self.fault(action, error, attempts)
            if passing.lost and done is not None and (known_result := done()) is not None:
                return known_result
            bound = min(self.limits.longest_pause_s, self.limits.pause_s * 2 ** (attempts - 1))
            wait_s = random.uniform(0, bound)  # noqa: S311 - spreads retries
            tried_s = time.monotonic() - begun
            if tried_s + wait_s > within_s:
                raise self.unavailable(
                    f"{action} {self.where}: no answer in {within_s:g} s and {attempts} attempts, last: {passing.reason}. "
                    "Check that AWS can be reached from here (AWS_ENDPOINT_URL, proxy, VPC endpoint), then try again."
                )
            problem = f"{action} {self.where} gives no usable answer ({passing.reason})"
            if not self.wait(wait_s, problem, tried_s, within_s):
                message = f"{action} {self.where}: no answer in {attempts} attempts, and the gate is to end; last: {passing.reason}"
                raise self.unavailable(message)

    def fault(self, action: str, error: Exception, attempts: int = 1) -> Passing:
        """What may pass. Raises AwsRefused or `unusable` for what does not, and `error` itself if it is not AWS's."""
        from botocore import exceptions as known
        from botocore.parsers import ResponseParserError
        from urllib3.exceptions import HTTPError

        if isinstance(error, known.ClientError):
            return _refusal(action, error.response, attempts)
        passing = (
            known.ConnectionError, known.HTTPClientError, known.IncompleteReadError, known.FlexibleChecksumError,
            ResponseParserError, HTTPError, OSError,
        )  # fmt: skip
        credentials = (
            known.NoCredentialsError, known.PartialCredentialsError, known.CredentialRetrievalError, known.SSOError,
            known.TokenRetrievalError, known.NoAuthTokenError, known.ProfileNotFound, known.ConfigNotFound,
            known.ConfigParseError,
        )  # fmt: skip
        if isinstance(error, credentials):
            raise AwsRefused(action, NO_CREDENTIALS, 0, clean(error), attempts) from None
        if isinstance(error, passing):
            return Passing(clean(error), lost=True)
        if isinstance(error, (known.BotoCoreError, ValueError)):
            raise self.unusable(
                f"{action}: {clean(error)}. Correct boto3's settings (AWS_ENDPOINT_URL, HTTPS_PROXY, AWS_PROFILE) or the request."
            ) from None
        raise error

    def _new(self, service: str) -> Any:
        import boto3
        import botocore.session
        from botocore.config import Config

        if self._session is None:
            core = botocore.session.get_session()
            self._session = boto3.session.Session(botocore_session=core, region_name=self.region or None)
            # The process's first loader with these paths keeps AWS's descriptions of its services once it has decoded them.
            loader = core.get_component("data_loader")
            core.register_component("data_loader", _LOADERS.setdefault(tuple(loader.search_paths), loader))
        config = Config(
            connect_timeout=self.limits.connect_s,
            read_timeout=self.limits.read_s,
            retries={"mode": "standard", "total_max_attempts": 1},  # `tried` does it, and knows how often
            user_agent_extra="prelaunch",
            max_pool_connections=16,
        )
        return self._session.client(service, config=config)


def action_of(service: str, operation: str) -> str:
    """What IAM calls the right to make a call: "describe_images" of ECR is "ecr:DescribeImages"."""
    name = operation.title().replace("_", "")
    return f"{service.replace('-', '')}:{RIGHTS.get(name, name)}"


def clean(text: object) -> str:
    """One line without secrets."""
    return " ".join(redact(str(text), os.environ).split())[:MESSAGE_CHARACTERS].rstrip(".")


def login_remedy(refusal: AwsRefused) -> str:
    """What is wrong with the credentials and what to do, for a refusal that `is_login`."""
    if refusal.code == NO_CREDENTIALS:
        return (
            f"{refusal.action}: no AWS credentials ({refusal.message}). Set AWS_PROFILE or AWS_ACCESS_KEY_ID and "
            "AWS_SECRET_ACCESS_KEY, run aws sso login, or give this machine a role."
        )
    if refusal.code in EXPIRED:
        return f"{refusal}. The AWS credentials have expired: renew them (aws sso login, or the role), then run again."
    return (
        f"{refusal}. AWS does not accept these credentials: check that they are complete and that this machine's clock is right "
        "(aws sts get-caller-identity)."
    )


def _refusal(action: str, response: Any, attempts: int) -> Passing:
    error, http = response.get("Error", {}), response.get("ResponseMetadata", {})
    status = int(http.get("HTTPStatusCode", 0))
    refusal = AwsRefused(
        action, str(error.get("Code", "") or status), status, clean(error.get("Message", "")), attempts
    )
    if not refusal.passes:
        raise refusal from None
    return Passing(f"{refusal.code} ({refusal.message})", refusal.status >= 500)
