"""What the image of a job must hold for its checks, and what its plan says of that before anything is paid for."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from checks import bundle as bundles
from tasks.gate.context import open_gate_context
from tasks.gate.jobs import planned_jobs
from tasks.gate_file.request import GateRequest
from tasks.launchers.base import JobSpec, Plan, PreflightResult
from tasks.launchers.sagemaker.request.image import wanted

ROOT = Path(__file__).resolve().parents[5]
GATES = ROOT / "deployments" / "gates"
TRAINING = "123456789012.dkr.ecr.us-east-1.amazonaws.com/training:latest"


def planned(gate: str) -> tuple[Plan, ...]:
    """The jobs of a shipped gate file."""
    context = open_gate_context(GateRequest(gate_file=str(GATES / f"{gate}.toml")))
    return tuple(context.launcher.plan(job) for job in planned_jobs(context))


def gated() -> JobSpec:
    """The one job of the gate file whose checks run in the training's own image."""
    return planned("sagemaker-p5-injob")[0].job


def test_image_requirements_follow_from_the_catalogue() -> None:
    """Required checks and those that may be left out apart; nvidia-ml-py comes with the checks."""
    required, optional = wanted(bundles.load(gated().files["bundle.json"]))

    assert {"dcgmi", "nv-hostengine", "fi_info", "fi_pingpong", "torch"} == set(required)
    assert {"all_reduce_perf", "fio", "stress-ng", "dcgmi", "nv-hostengine"} == set(optional)
    assert {"dcgm.diag", "dcgm.health"} <= set(required["dcgmi"])
    assert ("nccl.tests",) == optional["all_reduce_perf"]


def test_a_check_that_the_gate_file_leaves_out_asks_for_nothing() -> None:
    """[checks] skip."""
    made = bundles.load(gated().files["bundle.json"])

    assert "fio" not in wanted(dataclasses.replace(made, skip=("disk.io",)))[1]


def test_a_plan_says_before_anybody_looks_what_an_unknown_image_may_cost() -> None:
    """In the job that checks and trains the image is the training's own."""
    (line,) = planned("sagemaker-p5-injob")[0].unverified

    required, _, optional = line.message.partition("; it should contain ")
    assert PreflightResult.UNSEEN is line.result and required.endswith("the verdict is CANNOT TELL")
    assert required.startswith(f"the image {TRAINING} must contain dcgmi (") and "dcgm.diag" in required
    assert optional.startswith("all_reduce_perf (nccl.tests)") and optional.endswith("a WARN")
    assert "FROM the prelaunch image" in line.remedy and "docs/sagemaker.md" in line.remedy
