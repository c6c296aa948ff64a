"""Jobs and options for the tests of plans: what a gate would ask for, with one thing changed."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from tasks.launchers.base import JobSpec, Placement, Work
from tasks.launchers.sagemaker.job_request import make_plan
from tasks.launchers.sagemaker.options import SageMakerOptions
from tests.tasks.launchers.sagemaker.stubbed import IMAGE, ROLE

TAGS = {"prelaunch:gate": "p5-20261121-083000-1f3a", "prelaunch:cluster": "p5"}
OPTIONS = SageMakerOptions("us-east-1", IMAGE, ROLE, "s3://bucket/gates/")
CHECK = JobSpec(
    name="p5-20261121-083000-1f3a-check-1",
    command=("{python}", "-m", "checks", "run"),
    nodes=4,
    ranks_per_node=8,
    max_runtime_s=1800.0,
    files={"bundle.json": b"{}"},
    environment={},
    work=Work.CHECK,
    tags=TAGS,
    instance_type="p5.48xlarge",
)
TORCHRUN = ("{python}", "-m", "torch.distributed.run", "--nnodes", "{nodes}")
TRAIN = replace(
    CHECK,
    name="p5-20261121-083000-1f3a-train-1",
    command=("{python}", "-m", "checks", "gate"),
    max_runtime_s=86400.0,
    files={"bundle.json": b"{}", "pass.json": b"{}"},
    work=Work.CONFIRM,
    training=(*TORCHRUN, "/opt/ml/input/data/code/train.py"),
    predecessor=CHECK.name,
    image="123456789012.dkr.ecr.us-east-1.amazonaws.com/training:1",
)
GATED = replace(TRAIN, files={"bundle.json": b"{}"}, work=Work.GATE, predecessor="")


def options(**changes: Any) -> SageMakerOptions:
    """The options of a warm pool, changed."""
    return replace(OPTIONS, **changes)


def in_job(**changes: Any) -> SageMakerOptions:
    """The options of one job, changed."""
    return options(**{"placement": Placement.IN_JOB, **changes})


def body_of(job: JobSpec, made: SageMakerOptions = OPTIONS) -> dict[str, Any]:
    """The request."""
    (call,) = make_plan(job, made).calls
    return dict(call.body)


MISSING = object()


def changed(body: Mapping[str, Any], path: str | Sequence[str | int], value: Any) -> dict[str, Any]:
    """The body with another value at a path, or without the one there; {} above it where it had nothing."""
    made = copy.deepcopy(dict(body))
    place: Any = made
    *folders, last = path.split(".") if isinstance(path, str) else path
    for key in folders:
        place = place.setdefault(key, {}) if isinstance(key, str) else place[key]
    if value is MISSING:
        del place[last]
    else:
        place[last] = value
    return made


def told(body: dict[str, Any]) -> list[str]:
    """The container's arguments."""
    return list(body["AlgorithmSpecification"]["ContainerArguments"])
