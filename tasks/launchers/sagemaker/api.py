"""Calls to AWS that always end: each attempt has a time limit, all attempts together a deadline, and every error a remedy.

The clients are boto3's and are made on first use. Region and limits come from the gate file; endpoint and credentials are
boto3's own settings. An exception of a call is either one that may pass, or becomes the error to raise, with its remedy.

Every question about a job is DescribeTrainingJob by the job's name, so that a wait survives a restart.
"""

from __future__ import annotations

import random
import re
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from tasks.launchers.base import EngineUnavailable, LaunchError, LaunchRejected
from tasks.launchers.interruption import pause, tell_silence
from tasks.launchers.sagemaker.errors import Refused, clean, explained, refused

T = TypeVar("T")
AGENT = "prelaunch"
_LOADERS: dict[tuple[str, ...], Any] = {}
# TrainingJobName (botocore 1.44.5).
JOB_NAME = re.compile(r"[a-zA-Z0-9](-*[a-zA-Z0-9]){0,62}")
Described = Mapping[str, Any]


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


@dataclass(frozen=True)
class Limits:
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


class Clients:
    """boto3's clients of one region. `attempts` is how often botocore itself tries; 1 where `tried` does it.

    Safe between threads.
    """

    def __init__(self, region: str, limits: Limits | None = None, attempts: int = 3) -> None:
        self.region, self.limits, self.attempts = region, limits or Limits(), attempts
        self._made: dict[str, Any] = {}
        self._session: Any = None
        self._lock = threading.Lock()

    @property
    def sagemaker(self) -> Any:
        """The client for training jobs."""
        return self.client("sagemaker")

    @property
    def s3(self) -> Any:
        """The client for S3 objects."""
        return self.client("s3")

    @property
    def logs(self) -> Any:
        """The client for CloudWatch's logs."""
        return self.client("logs")

    @property
    def ecr(self) -> Any:
        """The client for images in ECR."""
        return self.client("ecr")

    @property
    def iam(self) -> Any:
        """The client for IAM roles."""
        return self.client("iam")

    @property
    def ec2(self) -> Any:
        """The client for subnets and security groups."""
        return self.client("ec2")

    @property
    def kms(self) -> Any:
        """The client for KMS keys."""
        return self.client("kms")

    @property
    def quotas(self) -> Any:
        """The client for service quotas."""
        return self.client("service-quotas")

    @property
    def sts(self) -> Any:
        """The client that tells whose credentials are used."""
        return self.client("sts")

    def client(self, service: str) -> Any:
        """The client of that service. Raises what boto3 raises, ValueError for an endpoint that is no URL."""
        with self._lock:
            if service not in self._made:
                self._made[service] = self._new(service)
            return self._made[service]

    def tried(
        self,
        action: str,
        call: Callable[[], T],
        done: Callable[[], T | None] | None = None,
        within_s: float | None = None,
    ) -> T:
        """`call`'s answer, asked for until the deadline (`within_s`, else the limits') while the fault is one that passes.

        `done` is asked before another attempt where the answer was lost: whether the call took effect, and its answer.
        Raises Refused, LaunchRejected (credentials, settings) or EngineUnavailable.
        """
        within_s = self.limits.deadline_s if within_s is None else within_s
        begun, attempts = time.monotonic(), 0
        while True:
            attempts += 1
            try:
                return call()
            except Exception as error:  # noqa: BLE001 - `fault` raises what it does not know
                passing = fault(action, error)
            if passing.lost and done is not None and (found := _quietly(done)) is not None:
                return found
            bound = min(self.limits.longest_pause_s, self.limits.pause_s * 2 ** (attempts - 1))
            wait_s = random.uniform(0, bound)  # noqa: S311 - spreads retries
            tried_s = time.monotonic() - begun
            tell_silence(
                f"{action} in {self.region} gives no usable answer ({passing.why})", tried_s, within_s
            )
            if tried_s + wait_s > within_s:
                raise EngineUnavailable(
                    f"{action} in {self.region}: no answer in {within_s:g} s and {attempts} attempts, last: "
                    f"{passing.why}. Check that AWS can be reached from here (AWS_ENDPOINT_URL, proxy, VPC endpoint), then try again."
                )
            if not pause(wait_s):
                raise EngineUnavailable(
                    f"{action} in {self.region}: no answer in {attempts} attempts, and the gate is to end; last: {passing.why}"
                )

    def _new(self, service: str) -> Any:
        import boto3
        import botocore.session
        from botocore.config import Config

        if self._session is None:
            core = botocore.session.get_session()
            self._session = boto3.session.Session(botocore_session=core, region_name=self.region)
            core.register_component("data_loader", _kept(core.get_component("data_loader")))
        config = Config(
            connect_timeout=self.limits.connect_s,
            read_timeout=self.limits.read_s,
            retries={"mode": "standard", "total_max_attempts": self.attempts},
            user_agent_extra=AGENT,
            max_pool_connections=16,
        )
        return self._session.client(service, config=config)


def _kept(loader: Any) -> Any:
    """The process's first loader with these search paths, which keeps AWS's descriptions of its services once it decoded them."""
    return _LOADERS.setdefault(tuple(loader.search_paths), loader)


def _quietly(done: Callable[[], T | None]) -> T | None:
    try:
        return done()
    except LaunchError:
        return None


def describe(clients: Clients, name: str, within_s: float | None = None) -> Described | None:
    """What SageMaker says of a job; None if it knows none of that name. Raises LaunchError."""
    if not JOB_NAME.fullmatch(name):
        return None
    try:
        found: Described = clients.tried(
            "sagemaker:DescribeTrainingJob",
            lambda: clients.sagemaker.describe_training_job(TrainingJobName=name),
            within_s=within_s,
        )
    except Refused as refusal:
        if refusal.missing:
            return None
        raise explained(refusal) from refusal
    return found


def describe_new(clients: Clients, name: str) -> Described | None:
    """The same of a job that was created a moment ago, asked for until it is visible; None if it is not. Raises LaunchError."""
    limits = clients.limits
    end = time.monotonic() + limits.visible_s
    while (found := describe(clients, name)) is None and time.monotonic() < end and pause(4 * limits.pause_s):
        pass
    return found


def hosts_of(described: Described) -> tuple[str, ...]:
    """The names that SageMaker gives to a job's hosts: algo-1 to algo-N ("resourceconfig.json")."""
    resources = described.get("ResourceConfig") or {}
    groups = [int(group.get("InstanceCount") or 0) for group in resources.get("InstanceGroups") or ()]
    return names_of(int(resources.get("InstanceCount") or sum(groups)))


def names_of(nodes: int) -> tuple[str, ...]:
    """The host names of a job with that many nodes."""
    return tuple(f"algo-{number}" for number in range(1, nodes + 1))
