"""A call's exception -> whether it may pass, or the error to raise with its remedy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tasks.launchers.base import LaunchRejected
from tasks.launchers.sagemaker.refusals import clean, refused


@dataclass(frozen=True)
class Passing:
    """A fault that may pass. `lost` says that the call may have taken effect: AWS did not say that it refused it."""

    why: str
    lost: bool


def fault(action: str, error: Exception) -> Passing:
    """What may pass. Raises Refused or LaunchRejected for what does not, and `error` itself if it is not AWS's."""
    from botocore import exceptions as known
    from botocore.parsers import ResponseParserError
    from urllib3.exceptions import HTTPError

    if isinstance(error, known.ClientError):
        return _refusal(action, error.response)
    passing = (
        known.ConnectionError, known.HTTPClientError, known.IncompleteReadError, known.FlexibleChecksumError,
        ResponseParserError, HTTPError, OSError,
    )  # fmt: skip
    if isinstance(error, passing):
        return Passing(clean(error), lost=True)
    if isinstance(error, (known.BotoCoreError, ValueError)):
        raise LaunchRejected(f"{action}: {_remedy(error, known)}") from None
    raise error


def _refusal(action: str, response: Mapping[str, Any]) -> Passing:
    said, http = response.get("Error", {}), response.get("ResponseMetadata", {})
    status = int(http.get("HTTPStatusCode", 0))
    refusal = refused(action, str(said.get("Code", "")), status, str(said.get("Message", "")))
    if not refusal.passes:
        raise refusal from None
    return Passing(f"{refusal.code} ({refusal.said})", refusal.status >= 500)


def _remedy(error: Exception, known: Any) -> str:
    """What to do about settings or credentials that boto3 cannot work with."""
    if isinstance(error, (known.ProfileNotFound, known.ConfigNotFound, known.ConfigParseError)):
        return f"{clean(error)}. Correct AWS_PROFILE or the AWS configuration."
    if isinstance(error, _credentials(known)):
        return (
            f"no AWS credentials ({clean(error)}). Set AWS_PROFILE or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, run "
            "aws sso login, or give this machine a role."
        )
    return f"{clean(error)}. Correct boto3's settings (AWS_ENDPOINT_URL, HTTPS_PROXY, AWS_PROFILE) or the request."


def _credentials(known: Any) -> tuple[type[Exception], ...]:
    return (
        known.NoCredentialsError, known.PartialCredentialsError, known.CredentialRetrievalError, known.SSOError,
        known.TokenRetrievalError, known.NoAuthTokenError,
    )  # fmt: skip
