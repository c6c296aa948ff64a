"""What the ModelTrainer tests plan: a gate's job that names an object of a module."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tasks.launchers.base import JobSpec, Placement, Work
from tasks.launchers.sagemaker.options import SageMakerOptions

ROOT = Path(__file__).resolve().parents[5]
EXAMPLES = ROOT / "deployments" / "examples"
ROLE = "arn:aws:iam::123456789012:role/prelaunch-training"
IMAGE = "123456789012.dkr.ecr.us-east-1.amazonaws.com/prelaunch:1"
IN_JOB = SageMakerOptions("us-east-1", IMAGE, ROLE, "s3://reports/gates", placement=Placement.IN_JOB)
POOLED = replace(IN_JOB, placement=Placement.POOLED)
GATED = JobSpec(
    name="tiny-20260101-000000-ab12-train-1",
    command=(),
    nodes=2,
    ranks_per_node=1,
    max_runtime_s=5400.0,
    files={"bundle.json": b"{}"},
    environment={},
    work=Work.GATE,
    tags={"prelaunch:gate": "tiny-20260101-000000-ab12"},
    instance_type="m5.large",
    trainer="model_trainer:trainer",
)
