"""Calls to AWS as a launcher makes them: a refusal is a launcher's error, and a wait ends with the gate.

Every question about a job is DescribeTrainingJob by the job's name, so that a wait survives a restart.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from typing import Any

from tasks.launchers.base import EngineUnavailable, LaunchRejected
from tasks.launchers.interruption import pause, tell_silence
from tasks.launchers.sagemaker.errors import explained
from tasks.store.aws import AwsCalls, Limits, Refused

# TrainingJobName (botocore 1.44.5).
JOB_NAME = re.compile(r"[a-zA-Z0-9](-*[a-zA-Z0-9]){0,62}")
Described = Mapping[str, Any]


class Clients(AwsCalls):
    """The calls of a launcher in one region. They raise LaunchError."""

    unavailable, unusable = EngineUnavailable, LaunchRejected

    def __init__(self, region: str, limits: Limits | None = None) -> None:
        super().__init__(f"in {region}", region, limits or Limits())

    def explained(self, refusal: Refused) -> Exception:
        """What was refused, for which object, and the remedy."""
        return explained(refusal)

    def wait(self, seconds: float, what: str, tried_s: float, most_s: float) -> bool:
        """Tell the gate that AWS is asked again, and sleep; False where the gate is to end."""
        tell_silence(what, tried_s, most_s)
        return pause(seconds)


def describe(clients: Clients, name: str, within_s: float | None = None) -> Described | None:
    """What SageMaker says of a job; None if it knows none of that name. Raises LaunchError."""
    if not JOB_NAME.fullmatch(name):
        return None
    found: Described | None = clients.call(
        "sagemaker",
        "describe_training_job",
        lambda refusal: refusal.is_missing,
        within_s,
        TrainingJobName=name,
    )
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
    return names_of(int((described.get("ResourceConfig") or {}).get("InstanceCount") or 0))


def names_of(nodes: int) -> tuple[str, ...]:
    """The host names of a job with that many nodes."""
    return tuple(f"algo-{number}" for number in range(1, nodes + 1))
