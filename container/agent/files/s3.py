"""Reads and writes S3 through boto3, which is imported on first use: an image without boto3 can still check and write to folders.

S3Error      the object could not be read or written; the message has S3's own words and no credentials
"""

from __future__ import annotations

import sys
from functools import lru_cache
from pathlib import Path
from typing import Any

from checks.process.collection import without_collection

# What the image brings for the agent alone: beside the agent, or in our image where another place gave the agent.
LIBRARIES = tuple(dict.fromkeys((Path(__file__).parents[3] / "lib", Path("/opt/prelaunch/lib"))))
CONNECT_S, READ_S, ATTEMPTS = 5, 20, 3


# botocore 1.44.5, retries/standard.py: the codes of throttling; 408, 429 and every 5xx pass as well.
PASSING = frozenset(
    ("SlowDown", "Throttling", "ThrottlingException", "RequestTimeout", "RequestLimitExceeded")
)
MISSING = ("NoSuchKey", "404")


class S3Error(Exception):
    """An object could not be read or written. `passing` says that trying again may help."""

    passing = True


class NoObject(S3Error):
    """There is no such object."""

    passing = False


class S3Refused(S3Error):
    """S3 refused, and a retry would be refused as well."""

    passing = False


def is_url(url: str) -> bool:
    """Whether this is an s3:// URL."""
    return url.startswith("s3://")


def split(url: str) -> tuple[str, str]:
    """Bucket and key (or prefix, without a slash at its end). Raises S3Error."""
    bucket, _, key = url.removeprefix("s3://").partition("/")
    if not is_url(url) or not bucket:
        raise S3Error(f"{url!r:.200} is no s3://bucket/key")
    return bucket, key.strip("/")


def get(url: str, most: int) -> bytes:
    """At most `most` bytes of an object. Raises S3Error."""
    bucket, key = split(url)
    return bytes(_call(url, lambda s3: s3.get_object(Bucket=bucket, Key=key)["Body"].read(most)))


def put(url: str, data: bytes) -> None:
    """Write an object, completely or not at all. Raises S3Error."""
    bucket, key = split(url)
    _call(url, lambda s3: s3.put_object(Bucket=bucket, Key=key, Body=data))


def _call(url: str, call: Any) -> Any:
    client, errors = _client()
    try:
        return call(client)
    except errors as error:
        raise _error_type(error)(f"{url}: {error}") from error


def _error_type(error: Exception) -> type[S3Error]:
    answer = getattr(error, "response", None) or {}
    code = str(answer.get("Error", {}).get("Code", ""))
    status = answer.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    if code in MISSING:
        return NoObject
    final = 400 <= status < 500 and status not in (408, 429) and code not in PASSING
    return S3Refused if final else S3Error


@lru_cache(maxsize=1)
def _client() -> tuple[Any, tuple[type[Exception], ...]]:
    # boto3, and the megabytes of JSON that describe S3: a quarter of the time would go into looking for garbage.
    with without_collection():
        return _new_client()


def _new_client() -> tuple[Any, tuple[type[Exception], ...]]:
    try:
        import boto3
    except ImportError:
        sys.path += [str(folder) for folder in LIBRARIES]
        try:
            import boto3
        except ImportError as error:
            raise S3Refused(f"this image has no boto3 ({error}). Use a folder, or the full image.") from error
    from botocore.config import Config
    from botocore.exceptions import BotoCoreError, ClientError
    from urllib3.exceptions import HTTPError

    config = Config(
        connect_timeout=CONNECT_S, read_timeout=READ_S, retries={"max_attempts": ATTEMPTS, "mode": "standard"}
    )
    try:
        return boto3.client("s3", config=config), (BotoCoreError, ClientError, HTTPError, OSError)
    except (BotoCoreError, ValueError) as error:
        raise S3Error(f"no S3 client can be made: {error}") from error
