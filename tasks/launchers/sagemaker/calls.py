"""Calls to AWS that end: each attempt has its time, all together a deadline, and every error a remedy.

The clients are boto3's, made on first use; region and limits come from the gate file, endpoint and credentials are
boto3's own settings.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from tasks.launchers.base import EngineUnavailable, LaunchError
from tasks.launchers.sagemaker.faults import fault

T = TypeVar("T")
AGENT = "prelaunch"


@dataclass(frozen=True)
class Limits:
    """Seconds: to connect, to hear something, after which nothing is tried again, and between two attempts.

    The pause is drawn between 0 and a bound that doubles from `pause_s` to `longest_pause_s`, so that many callers do not
    come back together ("Exponential Backoff And Jitter", AWS Architecture Blog).
    """

    connect_s: float = 5.0
    read_s: float = 20.0
    deadline_s: float = 60.0
    pause_s: float = 0.5
    longest_pause_s: float = 10.0


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
        """Training jobs."""
        return self.client("sagemaker")

    @property
    def s3(self) -> Any:
        """Objects."""
        return self.client("s3")

    @property
    def logs(self) -> Any:
        """CloudWatch's logs."""
        return self.client("logs")

    @property
    def ecr(self) -> Any:
        """Images."""
        return self.client("ecr")

    @property
    def iam(self) -> Any:
        """Roles."""
        return self.client("iam")

    @property
    def ec2(self) -> Any:
        """Subnets and security groups."""
        return self.client("ec2")

    @property
    def kms(self) -> Any:
        """Keys."""
        return self.client("kms")

    @property
    def quotas(self) -> Any:
        """Service quotas."""
        return self.client("service-quotas")

    @property
    def sts(self) -> Any:
        """Who we are."""
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
        end, attempts = time.monotonic() + within_s, 0
        while True:
            attempts += 1
            try:
                return call()
            except Exception as error:  # noqa: BLE001 - `fault` raises what it does not know
                passing = fault(action, error)
            if passing.lost and done is not None and (found := _quietly(done)) is not None:
                return found
            bound = min(self.limits.longest_pause_s, self.limits.pause_s * 2 ** (attempts - 1))
            pause = random.uniform(0, bound)  # noqa: S311 - spreads retries
            if time.monotonic() + pause > end:
                raise EngineUnavailable(
                    f"{action} in {self.region}: no answer in {within_s:g} s and {attempts} attempts, last: "
                    f"{passing.why}. See that AWS can be reached from here (AWS_ENDPOINT_URL, proxy, VPC endpoint), then try again."
                )
            time.sleep(pause)

    def _new(self, service: str) -> Any:
        import boto3
        from botocore.config import Config

        if self._session is None:
            self._session = boto3.session.Session(region_name=self.region)
        config = Config(
            connect_timeout=self.limits.connect_s,
            read_timeout=self.limits.read_s,
            retries={"mode": "standard", "total_max_attempts": self.attempts},
            user_agent_extra=AGENT,
            max_pool_connections=16,
        )
        return self._session.client(service, config=config)


def _quietly(done: Callable[[], T | None]) -> T | None:
    try:
        return done()
    except LaunchError:
        return None
