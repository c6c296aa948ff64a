"""DescribeTrainingJob, and nothing else: every question about a job is asked by its name, so that a wait survives a restart."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tasks.launchers.sagemaker.calls import Clients
from tasks.launchers.sagemaker.refusals import Refused, explained

# TrainingJobName (botocore 1.44.5).
JOB_NAME = re.compile(r"[a-zA-Z0-9](-*[a-zA-Z0-9]){0,62}")
Described = Mapping[str, Any]


def describe(clients: Clients, name: str, within_s: float | None = None) -> Described | None:
    """What SageMaker says of a job; None where it knows none of that name. Raises LaunchError."""
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


def hosts_of(described: Described) -> tuple[str, ...]:
    """The names that SageMaker gives to a job's hosts: algo-1 to algo-N ("resourceconfig.json")."""
    resources = described.get("ResourceConfig") or {}
    groups = [int(group.get("InstanceCount") or 0) for group in resources.get("InstanceGroups") or ()]
    return names_of(int(resources.get("InstanceCount") or sum(groups)))


def names_of(nodes: int) -> tuple[str, ...]:
    """The same for that many nodes."""
    return tuple(f"algo-{number}" for number in range(1, nodes + 1))
