"""Gates on the stand-in of SageMaker: its account, a gate file for it, and what a test asks of both."""

from __future__ import annotations

import asyncio
import json
import os
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tasks import provision
from tasks.gate.outcome import GateOutcome
from tests.fakes.sagemaker.bench import IMAGE, REGION, ROLE, Cloud, stand_in
from tests.fakes.sagemaker.images import OURS
from tests.flows import answering
from tests.flows.driving import request_of, run
from tests.flows.gates import TRAINED, fake_interpreter, write_gate
from tests.survival import few_checks

ROOT = Path(__file__).resolve().parents[2]
LOCAL_POLICY = ROOT / "deployments" / "policies" / "local.toml"
ACCOUNT_S = 0.2

Account = Callable[..., AbstractContextManager[Cloud]]


@pytest.fixture
def account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Account:
    """An AWS account in which this process, and what it starts, is signed in."""

    @contextmanager
    def opened(machines: int = 2, part: str = "", **more: Any) -> Iterator[Cloud]:
        monkeypatch.setattr(provision, "FIRST_S", 0.2)
        images = {OURS: image(tmp_path, part)} if part else {}
        has = [{"gpus": [f"GPU-{uuid.uuid4()}"]} for _ in range(machines)]
        dials = {"grace_s": 3.0, **more.get("dials", {})}
        more |= {"images": {**images, **more.get("images", {})}, "dials": dials}
        with stand_in(tmp_path, {"ml.m5.large": has}, **more) as cloud:
            for name in [name for name in os.environ if name.startswith("AWS_")]:
                monkeypatch.delenv(name)
            for name, value in cloud.environment.items():
                monkeypatch.setenv(name, value)
            yield cloud
            assert [] == cloud.running()

    return opened


def image(folder: Path, part: str) -> dict[str, Any]:
    """Our image, whose interpreter makes up the checks' reports: see tests/flows/fake_python.py."""
    python = str(fake_interpreter(folder))
    played = {"FAKE_NODE": part, "FAKE_RUNS": str(folder / "runs"), "PRELAUNCH_PYTHON": python}
    limits = {"PRELAUNCH_GRACE_S": "2", "PRELAUNCH_UPLOAD_S": "3"}
    return {"environment": {"PYTHONPATH": str(ROOT), **played, **limits}}


def cloud_gate(
    folder: Path,
    cloud: Cloud,
    placement: str = "pooled",
    *,
    real: bool = False,
    few: bool = False,
    **more: Any,
) -> Path:
    """A gate file: two ml.m5.large, and a training that is a line of Python. `real` holds them to the local policy,

    or with `few` to its part for the few checks of tests/survival, which are then run.
    """
    python = f'python = "{few_checks.interpreter(folder / "few-python")}"\n' if few else ""
    said = f"""
region = "{REGION}"
image = "{IMAGE}"
role_arn = "{ROLE}"
prefix = "s3://{cloud.bucket}/gates"
placement = "{placement}"
code = "image"
volume_gb = 31
poll_seconds = {ACCOUNT_S}
infra_check = false
{python}"""
    path = write_gate(folder, launcher="sagemaker", options=said, **{"training": TRAINED, **more})
    text = path.read_text().replace('instance_type = "cpu"', 'instance_type = "m5.large"')
    # Hosts that start on two cores take their time.
    text = text.replace("network_s = 5.0", "network_s = 20.0")
    policy = path.with_name("policy.toml")
    policy.write_text(policy.read_text().replace('["cpu"]', '["m5.large"]'))
    if real:
        rules = LOCAL_POLICY
        if few:
            rules = folder / "few.json"
            rules.write_text(json.dumps(few_checks.policy_document()))
            text = text.replace("[checks]\n", f'[checks]\nextra = ["{few_checks.ADDS}"]\n')
        text = text.replace('"policy.toml"', json.dumps(str(rules)))
        text = text.replace("max_runtime_minutes = 1.0", "max_runtime_minutes = 3.0", 1)
        text = text.replace("ranks_per_node = 2", "ranks_per_node = 1")
        text = text.replace("stage_s = 20.0", "stage_s = 60.0")
    path.write_text(text)
    return path


def gate_there(path: Path, *overrides: str, **more: Any) -> tuple[Any, GateOutcome]:
    """Run the flow to its end."""
    return asyncio.run(run(request_of(path, *overrides, **more)))


def names(outcome: GateOutcome) -> tuple[str, str]:
    """The check job and the training job of a gate's first attempt."""
    return f"{outcome.gate_id}-check-1", f"{outcome.gate_id}-train-1"


def answered(path: Path, action: str) -> GateOutcome:
    """Run the gate, and answer its question as a person would in Prefect's UI."""
    return answering.answered(request_of(path, ask_minutes=1), action)


def pools(cloud: Cloud) -> dict[str, str]:
    """The state of every job's warm pool, of those that asked for one."""
    pooled = {name: job["WarmPoolStatus"] for name, job in cloud.jobs().items() if "WarmPoolStatus" in job}
    return {name: pool["Status"] for name, pool in pooled.items()}
