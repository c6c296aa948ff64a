"""Every request that a shipped gate makes, and one for each feature, as a person reads it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from botocore.stub import Stubber

from tasks.gate.context import open_gate_context
from tasks.gate.jobs import planned_jobs
from tasks.gate_file.request import GateRequest
from tasks.launchers.base import JobSpec, Placement
from tasks.launchers.sagemaker.options import SageMakerOptions
from tasks.launchers.sagemaker.request.validate import objections
from tests.fakes.sagemaker.pools import key
from tests.tasks.launchers.golden import GOLDEN, gates_of, golden_text
from tests.tasks.launchers.sagemaker.planning import CHECK, GATED, body_of, in_job, options
from tests.tasks.launchers.sagemaker.stubbed import ARN, client_of

GATES = gates_of("sagemaker")
REQUESTS = GOLDEN / "sagemaker"
PLAN = "arn:aws:sagemaker:us-east-1:123456789012:training-plan/large-2026"
KEY = "arn:aws:kms:us-east-1:123456789012:key/12345678-1234-1234-1234-123456789012"
RACK = {"placement": Placement.PINNED, "ultraservers": ("us-0123456789abcdef0=18",)}
VPC = {"subnets": ("subnet-0123456789abcdef0",), "security_group_ids": ("sg-0123456789abcdef0",)}
SMALL = {"instance_type": "m5.large", "ranks_per_node": 2}
FEATURES: Mapping[str, tuple[JobSpec, SageMakerOptions]] = {
    "training_plan": (GATED, in_job(training_plan_arn=PLAN, max_pending_minutes=2880, **VPC)),
    "ultraserver": (
        replace(CHECK, nodes=18, instance_type="p6e-gb200.36xlarge"),
        options(training_plan_arn=PLAN, **RACK, **VPC),
    ),
    "spot": (GATED, in_job(spot=True, spot_wait_minutes=120, retries=3)),
    "network_isolation": (GATED, in_job(network_isolation=True, **VPC)),
    "encryption": (GATED, in_job(encrypt_traffic=True, **VPC)),
    "kms": (replace(GATED, **SMALL), in_job(volume_kms_key=KEY, output_kms_key=KEY, infra_check=False)),  # type: ignore[arg-type]
}


def golden(name: str, bodies: list[dict[str, Any]]) -> tuple[str, str]:
    """What is, and what is committed."""
    text = json.dumps(bodies, indent=2) + "\n"
    return text, golden_text(REQUESTS / f"{name}.json", text)


def requests_in(path: Path) -> list[dict[str, Any]]:
    """A golden file holds one request or several."""
    found = json.loads(path.read_text())
    return found if isinstance(found, list) else [found]


def taken(body: Mapping[str, Any]) -> None:
    """botocore's own validation; it raises."""
    client = client_of("sagemaker")
    with Stubber(client) as stub:
        stub.add_response("create_training_job", ARN, dict(body))
        client.create_training_job(**body)


@pytest.mark.parametrize("path", GATES, ids=lambda path: path.stem)
def test_a_shipped_gate_asks_for_what_its_golden_file_says(path: Path) -> None:
    """Whole requests, of one job or of two that get one pool, within the quotas that an account begins with.

    Source: "Amazon SageMaker AI endpoints and quotas", AWS General Reference. Those for GPUs begin at 0, which the preflight says.
    """
    context = open_gate_context(GateRequest(gate_file=str(path)))
    bodies: list[Any] = [dict(context.launcher.plan(job).calls[0].body) for job in planned_jobs(context)]
    written, committed = golden(path.stem.replace("-", "_"), bodies)
    training = context.gate.training

    assert written == committed
    assert 1 == len({key(body) for body in bodies})
    assert max(body["StoppingCondition"]["MaxRuntimeInSeconds"] for body in bodies) <= 432_000
    assert max(body["ResourceConfig"]["InstanceCount"] for body in bodies) <= 20
    assert max(body["ResourceConfig"]["VolumeSizeInGB"] for body in bodies) <= 1024
    assert training.expected_hours is None or training.expected_hours * 60 < training.max_runtime_minutes


@pytest.mark.parametrize("name", FEATURES)
def test_a_feature_asks_for_what_its_golden_file_says(name: str) -> None:
    """One thing changed at a time."""
    written, committed = golden(name, [body_of(*FEATURES[name])])

    assert written == committed


def test_aws_takes_every_golden_request() -> None:
    """By botocore's own validation, and by ours."""
    bodies = [body for path in sorted(REQUESTS.glob("*.json")) for body in requests_in(path)]
    for body in bodies:
        taken(body)

    assert len(bodies) >= len(FEATURES) + len(GATES)
    assert [line for body in bodies for line in objections(body)] == []


def test_every_golden_file_is_of_something() -> None:
    """What nothing makes any more would be checked for ever."""
    known = {path.stem.replace("-", "_") for path in GATES} | set(FEATURES) | {"model_trainer"}

    assert {path.stem for path in REQUESTS.glob("*.json")} - known == set()
