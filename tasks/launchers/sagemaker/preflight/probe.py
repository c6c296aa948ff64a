"""Runs the questions of the preflight side by side, each with its own deadline, and reports those that got no answer.

NotVisible   AWS did not answer one question; it becomes a line of the preflight, and never ends it
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

from tasks.launchers.base import PreflightCheck, PreflightResult
from tasks.launchers.sagemaker import errors
from tasks.launchers.sagemaker.errors import clean
from tasks.launchers.sagemaker.preflight.requirements import Requirements

POLICY = "deployments/iam/orchestrator-preflight.json"
DEADLINE_S = 15.0
CREDENTIALS = "credentials"
SAID_CHARACTERS = 160
# EC2's and CloudWatch's words for "not allowed", beside those that the launcher knows.
DENIED = errors.DENIED | {"AuthorizationError", "UnauthorizedException", "Forbidden"}
NO_LOGIN = errors.EXPIRED | errors.STRANGE | {"AuthFailure", "NoCredentials"}
# Operations of S3 that bear another name in IAM (Service Authorization Reference, Amazon S3).
S3_ACTIONS = {"ListObjectsV2": "ListBucket", "HeadObject": "GetObject"}


class Clients(Protocol):
    """boto3 clients of one region, each made when it is first asked for; safe between threads."""

    @property
    def sagemaker(self) -> Any: ...
    @property
    def s3(self) -> Any: ...
    @property
    def ecr(self) -> Any: ...
    @property
    def iam(self) -> Any: ...
    @property
    def ec2(self) -> Any: ...
    @property
    def quotas(self) -> Any: ...
    @property
    def sts(self) -> Any: ...
    @property
    def kms(self) -> Any: ...


class NotVisible(Exception):
    """AWS gave no answer to one question. `code` is AWS's own, "" if nothing came back."""

    def __init__(self, action: str, code: str, said: str) -> None:
        super().__init__(said)
        self.action, self.code, self.said = action, code, said

    @property
    def denied(self) -> bool:
        """Whether AWS answered that one may not ask."""
        return self.code in DENIED

    @property
    def no_login(self) -> bool:
        """Whether the credentials themselves are missing or wrong."""
        return self.code in NO_LOGIN

    def line(self, what: str) -> PreflightCheck:
        """The preflight line for people."""
        if self.denied:
            return unseen(
                what, f"permission is missing: {self.action}", f"Attach {POLICY} to who runs the gate."
            )
        if self.no_login:
            said = f"no valid credentials for {self.action}"
            return replace(unseen(what, said, f"See the line on {CREDENTIALS}."), behind=CREDENTIALS)
        return unseen(
            what,
            f"{self.action} has no answer: {self.said[:SAID_CHARACTERS]}",
            "Try again, or continue without this check.",
        )


@dataclass(frozen=True)
class Probe:
    """One thing to examine. `look` may raise: that becomes a line as well."""

    what: str
    look: Callable[[Requirements, Clients], tuple[PreflightCheck, ...]]
    applies: Callable[[Requirements], bool] = lambda _asked: True
    within_s: float = DEADLINE_S


def ok(what: str, said: str) -> PreflightCheck:
    """The line of something that was examined and is right."""
    return PreflightCheck(what, PreflightResult.OK, said)


def wrong(what: str, said: str, remedy: str) -> PreflightCheck:
    """The line of something that was examined and would make the gate fail."""
    return PreflightCheck(what, PreflightResult.WRONG, said, remedy)


def unseen(what: str, said: str, remedy: str = "") -> PreflightCheck:
    """The line of something that could not be examined."""
    return PreflightCheck(what, PreflightResult.UNSEEN, said, remedy)


def ask(client: Any, call: str, **arguments: Any) -> Mapping[str, Any]:
    """Make one call by boto3's name for it. Raises NotVisible if there is no answer."""
    from botocore.exceptions import BotoCoreError, ClientError
    from botocore.parsers import ResponseParserError
    from urllib3.exceptions import HTTPError

    try:
        answer: Mapping[str, Any] = getattr(client, call)(**arguments)
        return answer
    except ClientError as error:
        told = error.response.get("Error", {})
        raise NotVisible(
            action_of(client, call), str(told.get("Code", "")), clean(told.get("Message", ""))
        ) from error
    except (BotoCoreError, ResponseParserError, HTTPError, OSError) as error:
        raise silent(action_of(client, call), error) from error


def silent(action: str, error: Exception) -> NotVisible:
    """What came instead of an answer: no credentials, or nothing."""
    from botocore import exceptions as known

    none = (
        known.NoCredentialsError, known.PartialCredentialsError, known.CredentialRetrievalError, known.SSOError,
        known.TokenRetrievalError, known.NoAuthTokenError, known.ProfileNotFound, known.ConfigNotFound,
    )  # fmt: skip
    return NotVisible(action, "NoCredentials" if isinstance(error, none) else "", clean(error))


def action_of(client: Any, call: str) -> str:
    """What IAM calls the right to make it: "describe_images" of ECR is "ecr:DescribeImages"."""
    service = str(client.meta.service_model.signing_name)
    operation = str(client.meta.method_to_api_mapping.get(call, call))
    return f"{service}:{S3_ACTIONS.get(operation, operation) if service == 's3' else operation}"


def look_at(probes: tuple[Probe, ...], asked: Requirements, clients: Clients) -> tuple[PreflightCheck, ...]:
    """The lines of all probes in their order, after the longest deadline at the latest. Raises nothing."""
    running = [_Running(probe, asked, clients) for probe in probes if probe.applies(asked)]
    for one in running:
        one.start()
    return tuple(line for one in running for line in one.lines())


class _Running(threading.Thread):
    """A daemon, so that an AWS that never answers does not keep the command from ending."""

    def __init__(self, probe: Probe, asked: Requirements, clients: Clients) -> None:
        super().__init__(name=f"preflight {probe.what}", daemon=True)
        self._probe, self._asked, self._clients = probe, asked, clients
        self._found: tuple[PreflightCheck, ...] | None = None
        self._end = time.monotonic() + probe.within_s

    def run(self) -> None:
        what = self._probe.what
        try:
            self._found = self._probe.look(self._asked, self._clients)
        except NotVisible as error:
            self._found = (error.line(what),)
        except Exception as error:  # noqa: BLE001 - whatever a probe trips over, the others' lines are wanted
            self._found = (_tripped(what, error),)

    def lines(self) -> tuple[PreflightCheck, ...]:
        self.join(max(0.0, self._end - time.monotonic()))
        late = f"AWS did not answer within {self._probe.within_s:g} s"
        remedy = (
            "Check that the endpoints of the region can be reached from here (AWS_ENDPOINT_URL, HTTPS_PROXY)."
        )
        return (unseen(self._probe.what, late, remedy),) if self._found is None else self._found


def _tripped(what: str, error: Exception) -> PreflightCheck:
    """No answer of AWS at all: boto3 made no client, or the answer is not what its documentation says."""
    from botocore.exceptions import BotoCoreError

    if isinstance(error, BotoCoreError):
        return silent(f"boto3's client for {what}", error).line(what)
    said = f"the check itself failed: {type(error).__name__}: {clean(error)}"
    return unseen(what, said, "Continue without this check, and report the defect.")
