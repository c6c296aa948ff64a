"""Calls to S3 that always end: each attempt has a time limit, all attempts together a deadline, and every error a remedy.

Refused             S3 refused, or the condition did not hold; the store decides what that means
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from tasks.store.base import (
    StoreError,
    StoreFull,
    StoreMissing,
    StoreUnreachable,
    StoreUnwritable,
)
from tasks.text.redact import redact

T = TypeVar("T")
# What S3 asks to be tried again: https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html, and the 409 of
# conditional writes.
LATER = {
    "SlowDown", "Throttling", "ThrottlingException", "RequestTimeout", "TooManyRequests", "RequestLimitExceeded",
    "ConditionalRequestConflict", "OperationAborted", "InternalError", "ServiceUnavailable", "BadDigest",
}  # fmt: skip
DENIED = {
    "AccessDenied", "AllAccessDisabled", "AccountProblem", "InvalidAccessKeyId", "SignatureDoesNotMatch",
    "ExpiredToken", "InvalidToken", "TokenRefreshRequired", "RequestTimeTooSkewed", "403", "401",
}  # fmt: skip
FULL = {"QuotaExceeded", "XMinioStorageFull", "InsufficientStorage", "507"}


@dataclass(frozen=True)
class Limits:
    """Seconds: to connect, to hear something, and after which nothing is tried again. A call ends within about
    `deadline_s + connect_s + read_s`, less than half of the time for which a lock is held.
    """

    connect_s: float = 5.0
    read_s: float = 15.0
    deadline_s: float = 30.0


class Refused(StoreError):
    """S3 answered with an error that a retry does not cure. `attempts` counts the attempts that were made."""

    def __init__(self, where: str, code: str, status: int, said: str, attempts: int) -> None:
        super().__init__(f"{where}: S3 answered {code}: {said}")
        self.where, self.code, self.status, self.said, self.attempts = where, code, status, said, attempts

    def explained(self) -> StoreError:
        """The error with its remedy."""
        if self.code == "NoSuchBucket":
            return StoreMissing(
                f"{self.where}: there is no such bucket. Create it, or correct [store] path in the gate file."
            )
        if self.code in DENIED or self.status in (401, 403):
            return StoreUnwritable(
                f"{self}. Allow s3:GetObject, s3:PutObject, s3:DeleteObject and s3:ListBucket there, "
                "or use credentials that have them."
            )
        if self.code in FULL or self.status == 507:
            return StoreFull(f"{self}. Free space there.")
        return StoreError(f"{self}. Correct the bucket's settings or [store] path in the gate file.")


class Calls:
    """One boto3 client, made on first use, and how its calls are retried. It may be used from several threads."""

    def __init__(self, where: str, limits: Limits) -> None:
        self.where, self.limits = where, limits
        self._lock = threading.Lock()
        self._made: Any = None

    def make(self, call: str, **arguments: Any) -> dict[str, Any]:
        """One call of the client by its name. Raises Refused, StoreError."""
        return self._tried(lambda: getattr(self._client(), call)(**arguments))

    def read(self, bucket: str, key: str) -> tuple[bytes, str]:
        """An object's bytes and its ETag. Raises Refused, StoreError."""

        def whole() -> tuple[bytes, str]:
            answer = self._client().get_object(Bucket=bucket, Key=key)
            return bytes(answer["Body"].read()), str(answer["ETag"])

        return self._tried(whole)

    def _tried(self, call: Callable[[], T]) -> T:
        from botocore.exceptions import (
            BotoCoreError,
            ClientError,
            NoCredentialsError,
            PartialCredentialsError,
        )
        from urllib3.exceptions import HTTPError

        end, attempts = time.monotonic() + self.limits.deadline_s, 0
        while True:
            attempts += 1
            try:
                return call()
            except (NoCredentialsError, PartialCredentialsError) as error:
                said = "Set AWS_PROFILE or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or give this machine a role."
                raise StoreUnwritable(f"{self.where}: no AWS credentials ({_clean(error)}). {said}") from None
            except ClientError as error:
                refused = self._refused(error, attempts)
                if not _passes(refused):
                    raise refused from None
                why = f"{refused.code} ({refused.said})"
            except (BotoCoreError, HTTPError, OSError, ValueError) as error:
                if not _is_network(error):
                    raise StoreError(
                        f"{self.where}: {_clean(error)}. Correct boto3's settings (AWS_ENDPOINT_URL, AWS_PROFILE)."
                    ) from None
                why = _clean(error)
            pause = min(5.0, 0.2 * 2**attempts) * random.uniform(0.5, 1)  # noqa: S311 - spreads retries
            if time.monotonic() + pause > end:
                raise StoreUnreachable(
                    f"{self.where}: no answer in {self.limits.deadline_s:g} s and {attempts} attempts, last: {why}. "
                    "Check that the endpoint can be reached from here (AWS_ENDPOINT_URL, AWS_DEFAULT_REGION), then try again."
                )
            time.sleep(pause)

    def _refused(self, error: Any, attempts: int) -> Refused:
        told = error.response.get("Error", {})
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        return Refused(
            self.where, str(told.get("Code", status)), int(status), _clean(told.get("Message", "")), attempts
        )

    def _client(self) -> Any:
        with self._lock:
            if self._made is None:
                self._made = _connected(self.limits)
            return self._made


def _connected(limits: Limits) -> Any:
    import boto3
    from botocore.config import Config

    config = Config(
        connect_timeout=limits.connect_s,
        read_timeout=limits.read_s,
        retries={"total_max_attempts": 1},  # Calls tries again, and knows how often it did
        max_pool_connections=4,
    )
    return boto3.session.Session().client("s3", config=config)


def _passes(refused: Refused) -> bool:
    """Whether a retry may help."""
    return (
        refused.code in LATER
        or refused.status == 429
        or (refused.status >= 500 and refused.status not in (501, 507))
    )


def _is_network(error: Exception) -> bool:
    from botocore.exceptions import ConnectionError as NoConnection
    from botocore.exceptions import FlexibleChecksumError, HTTPClientError, IncompleteReadError
    from urllib3.exceptions import HTTPError

    kinds = (NoConnection, HTTPClientError, IncompleteReadError, FlexibleChecksumError, HTTPError, OSError)
    return isinstance(error, kinds)


def _clean(said: object) -> str:
    """One line without secrets."""
    return " ".join(redact(str(said), os.environ).split())[:300]
