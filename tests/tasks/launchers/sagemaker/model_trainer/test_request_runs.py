"""An unmodified ModelTrainer as the real job: the SDK's own driver and torchrun, on hosts that passed their checks."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path

import pytest

from tasks.gate.context import open_gate_context
from tasks.gate.jobs import gated_job
from tasks.gate_file.request import GateRequest
from tasks.launchers.base import JobState
from tests.fakes.sagemaker.bench import BUCKET, REGION, stand_in
from tests.fakes.sagemaker.images import OURS
from tests.survival import few_checks
from tests.tasks.launchers.sagemaker.model_trainer.trainers import EXAMPLES, ROLE, ROOT

# A training image of the team's own: Python, pip and torch, and nothing of ours.
TRAINING = "123456789012.dkr.ecr.us-east-1.amazonaws.com/training"
# Two hosts share this machine's cores: the threads of one would wait for those of the other by computing.
ALONE = {"OMP_NUM_THREADS": "1"}
GATE = f"""
name = "tiny"
[cluster]
name = "tiny"
launcher = "sagemaker"
[cluster.declared]
instance_type = "m5.large"
nodes = 2
ranks_per_node = 1
[cluster.options]
region = "{REGION}"
image = "{OURS}:test"
role_arn = "{ROLE}"
prefix = "s3://{BUCKET}/gates"
placement = "in_job"
infra_check = false
{{python}}
[checks]
profile = "quick"
extra = {{extra}}
max_runtime_minutes = 5
[policy]
file = "{{policy}}"
[training]
model_trainer = "model_trainer:trainer"
max_runtime_minutes = 5
[store]
path = "store"
"""


@pytest.mark.timeout(180)
@pytest.mark.root
@pytest.mark.long  # test_request.py has the whole request as a golden file, tests/flows/test_sagemaker.py trains behind the checks
@pytest.mark.parametrize("few", [True, False], ids=["few checks", "all checks"])
def test_an_unmodified_model_trainer_trains(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, few: bool
) -> None:
    """Behind the checks, on every host, to its end; its channels arrive, and its hyperparameters."""
    monkeypatch.syspath_prepend(EXAMPLES)
    python, extra, policy = "", "[]", ROOT / "deployments" / "policies" / "local.toml"
    if few:
        policy = tmp_path / "policy.json"
        policy.write_text(json.dumps(few_checks.policy_document()))
        python = f'python = "{few_checks.interpreter(tmp_path / "python")}"'
        extra = json.dumps([few_checks.ADDS])
    (tmp_path / "gate.toml").write_text(GATE.format(python=python, extra=extra, policy=policy))
    images = {TRAINING: {"environment": ALONE, "working_directory": "/"}}
    with stand_in(tmp_path, {"ml.m5.large": 2}, network="namespaces", images=images) as cloud:
        for key, value in cloud.environment.items():
            monkeypatch.setenv(key, value)
        with few_checks.chosen() if few else nullcontext():
            context = open_gate_context(GateRequest(gate_file=str(tmp_path / "gate.toml")))
            job = gated_job(context, "tiny-1", "tiny-1-train-1", 0.0)
        launcher = context.launcher
        launcher.submit(launcher.plan(job))
        cloud.wait(job.name, 110)
        status = launcher.state(job.name)
        said = "\n".join(line for lines in cloud.log(job.name).values() for line in lines)

    assert status.state is JobState.SUCCEEDED, said[-6000:]
    assert "trained 20 steps from scratch" in said
