"""What the SDK's own driver does to a run: breaks it, or changes how it runs."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from importlib.metadata import files
from pathlib import Path
from typing import Any

import pytest

from tasks.launchers.base import ApiCall, Plan
from tasks.launchers.sagemaker.model_trainer.driver_notes import EFA_TYPES, broken_exports, warnings
from tests.tasks.launchers.sagemaker.model_trainer.trainers import GATED

# Without an import: the package's own takes seconds.
(UTILS,) = (
    file
    for file in files("sagemaker-train") or ()
    if str(file).endswith("train/container_drivers/common/utils.py")
)
DRIVERS = Path(str(UTILS.locate())).parents[1]
BROKEN = [
    ({"HyperParameters": {"title": "it's"}}, "hyperparameter 'title' has a single quote"),
    ({"HyperParameters": {"title": '{"a": ["b\'c"]}'}}, "hyperparameter 'title' has a single quote"),
    ({"HyperParameters": {"optim.lr": "1"}}, "hyperparameter 'optim.lr' becomes a shell variable"),
    ({"InputDataConfig": [{"ChannelName": "my-data"}]}, "Name it 'my_data'"),
    (
        {"InputDataConfig": [{"ChannelName": "a", "ContentType": "x'y"}]},
        "input channel 'a' has a single quote",
    ),
]
FINE: dict[str, Any] = {
    "HyperParameters": {"learning-rate": "0.1", "title": 'two words "quoted" $HOME `id`'},
    "InputDataConfig": [{"ChannelName": "my_data"}],
}
# The SDK's own script, as a container runs it, with its file elsewhere; then what sm_train.sh does with that file.
DRIVER = """
import importlib.util, json, os, sys
os.environ["TRAINING_JOB_NAME"] = "x"
spec = importlib.util.spec_from_file_location("environment", sys.argv[1])
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
host = {"current_host": "algo-1", "current_instance_type": "ml.m5.large", "hosts": ["algo-1"], "network_interface_name": "eth0"}
body = json.loads(sys.argv[2])
channels = {row["ChannelName"]: row for row in body.get("InputDataConfig", [])}
module.set_env(host, channels, body.get("HyperParameters", {}), sys.argv[3])
"""


def sourced(body: Mapping[str, Any], folder: Path) -> str:
    """What bash has of title and channels after it took the SDK's variables; "" where it ended."""
    script, file = DRIVERS / "scripts" / "environment.py", folder / "env"
    command = (sys.executable, "-B", "-c", DRIVER, str(script), json.dumps(body), str(file))
    subprocess.run(command, check=True, capture_output=True)
    shell = f'set -e; source {file}; printf "%s" "$SM_HP_TITLE|$SM_INPUT_DATA_CONFIG"'
    return subprocess.run(("bash", "-c", shell), capture_output=True, text=True, check=False).stdout


def meant(body: Mapping[str, Any]) -> str:
    """What it should have."""
    channels = {row["ChannelName"]: row for row in body.get("InputDataConfig", [])}
    return f"{body.get('HyperParameters', {}).get('title', '')}|{json.dumps(channels)}"


@pytest.mark.parametrize(("body", "said"), BROKEN, ids=[said for _, said in BROKEN])
def test_what_breaks_the_sdks_shell_is_refused(body: dict[str, Any], said: str, tmp_path: Path) -> None:
    """Because it does: the SDK's own script was asked. With the remedy."""
    (found,) = broken_exports(body, {})

    assert said in found
    assert sourced(body, tmp_path) != meant(body)


def test_what_the_sdks_shell_takes_is_not_refused(tmp_path: Path) -> None:
    """Other signs than the single quote stand in single quotes."""
    assert broken_exports(FINE, {}) == []
    assert sourced(FINE, tmp_path) == meant(FINE)


def test_the_quote_of_an_entry_script_is_refused() -> None:
    """It comes to the same shell by a file."""
    files = {"s3://b/x/code/sm_drivers-0/sourcecode.json": b'{"entry_script": "it\'s.py"}'}

    assert len(broken_exports({}, files)) == 1


@pytest.mark.parametrize(
    ("kind", "driver", "source", "expected"),
    [
        ("p5.48xlarge", "torchrun", {}, ["sets NCCL_PROTO=simple"]),
        ("p5en.48xlarge", "torchrun", {}, ["sets NCCL_PROTO=simple", "ml.p5en.48xlarge is none of them"]),
        ("p5en.48xlarge", "mpi", {}, ["ml.p5en.48xlarge is none of them"]),
        ("m5.large", "torchrun", {}, []),
        ("p5.48xlarge", "basic_script", {}, []),
        ("p5.48xlarge", "", {"command": "python a.py"}, ["`distributed` is not used", "they are in SM_HPS"]),
    ],
)
def test_what_the_driver_changes_is_said(kind: str, driver: str, source: object, expected: list[str]) -> None:
    """NCCL's protocol, the list of EFA types from years ago, and a command that beats `distributed`."""
    stage = "s3://b/x/code/sm_drivers-0"
    line = f"$SM_PYTHON_CMD /opt/ml/input/data/sm_drivers/distributed_drivers/{driver}_driver.py\n"
    files = {
        f"{stage}/sm_train.sh": (line if driver else "").encode(),
        f"{stage}/sourcecode.json": json.dumps(source).encode(),
        f"{stage}/distributed.json": b'{"process_count_per_node": 8}',
    }
    body = {"ResourceConfig": {"InstanceType": f"ml.{kind}"}, "HyperParameters": {"a": "1"}}
    plan = Plan(GATED, (ApiCall("sagemaker", "CreateTrainingJob", "x", body),), files)
    said = warnings(plan)

    assert [text in line for text, line in zip(expected, said, strict=True)] == [True] * len(expected)
    assert warnings(replace(plan, job=replace(GATED, trainer=""))) == ()


def test_the_types_are_the_sdks_own() -> None:
    """The list is a copy; the SDK's may grow."""
    path = DRIVERS / "common" / "utils.py"
    space: dict[str, Any] = {}
    exec(compile(path.read_text(), str(path), "exec"), space)

    assert sorted(EFA_TYPES) == sorted(space["SM_EFA_NCCL_INSTANCES"])
