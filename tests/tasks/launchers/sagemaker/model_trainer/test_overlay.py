"""A ModelTrainer's request and the gate's own, made one."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tasks.launchers.base import LaunchRejected, Work
from tasks.launchers.sagemaker.model_trainer.overlay import MACHINES, overlay
from tests.fakes.sagemaker.pools import key
from tests.tasks.launchers.sagemaker.planning import changed

OURS: dict[str, Any] = {
    "TrainingJobName": "tiny-train-1",
    "AlgorithmSpecification": {
        "TrainingImage": "training:1",
        "ContainerEntrypoint": ["gate"],
        "ContainerArguments": ["--", "run"],
    },
    "RoleArn": "role/a",
    "InputDataConfig": [{"ChannelName": "prelaunch"}],
    "OutputDataConfig": {"S3OutputPath": "s3://b/output", "KmsKeyId": "k"},
    "ResourceConfig": {"InstanceType": "ml.p5.48xlarge", "InstanceCount": 4, "VolumeSizeInGB": 100},
    "VpcConfig": {"SecurityGroupIds": ["sg-1"], "Subnets": ["subnet-1", "subnet-2"]},
    "StoppingCondition": {"MaxRuntimeInSeconds": 600},
    "InfraCheckConfig": {"EnableInfraCheck": True},
    "Tags": [{"Key": "prelaunch:gate", "Value": "tiny"}],
}
THEIRS: dict[str, Any] = {
    "TrainingJobName": "base-20260101000000",
    "AlgorithmSpecification": {
        "TrainingImage": "training:1",
        "TrainingInputMode": "FastFile",
        "ContainerEntrypoint": ["/bin/bash"],
        "ContainerArguments": ["-c", "sm_train.sh"],
    },
    "RoleArn": "role/a",
    "HyperParameters": {"steps": "20"},
    "Environment": {"A": "1"},
    "InputDataConfig": [{"ChannelName": "code"}, {"ChannelName": "sm_drivers"}],
    "OutputDataConfig": {"S3OutputPath": "s3://models/tiny", "CompressionType": "GZIP"},
    "ResourceConfig": {
        "InstanceType": "ml.p5.48xlarge",
        "InstanceCount": 4,
        "VolumeSizeInGB": 100,
        "KeepAlivePeriodInSeconds": 1800,
    },
    "VpcConfig": {"SecurityGroupIds": ["sg-1"], "Subnets": ["subnet-2", "subnet-1"]},
    "StoppingCondition": {"MaxRuntimeInSeconds": 3600},
    "Tags": [{"Key": "team", "Value": "x"}],
}


def test_the_machines_are_the_gates_and_the_run_is_the_trainers() -> None:
    """Name, machines, time and entrypoint are ours; nothing of what it would train is lost; no machine is kept."""
    assert overlay(THEIRS, OURS, Work.CONFIRM) == {
        **THEIRS,
        "TrainingJobName": "tiny-train-1",
        "AlgorithmSpecification": {**OURS["AlgorithmSpecification"], "TrainingInputMode": "FastFile"},
        "InputDataConfig": [*THEIRS["InputDataConfig"], *OURS["InputDataConfig"]],
        "ResourceConfig": OURS["ResourceConfig"],
        "VpcConfig": OURS["VpcConfig"],
        "StoppingCondition": {"MaxRuntimeInSeconds": 600},
        "InfraCheckConfig": {"EnableInfraCheck": True},
        "Tags": [{"Key": "team", "Value": "x"}, {"Key": "prelaunch:gate", "Value": "tiny"}],
    }


def test_trainer_overlay_takes_open_machine_keys_from_the_gate() -> None:
    """The same machines for check and training."""
    bare = {name: value for name, value in THEIRS.items() if name not in MACHINES}

    assert key(overlay(bare, OURS, Work.CONFIRM)) == key(OURS)


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        ("RoleArn", "role/b", "RoleArn is 'role/b' there and 'role/a' here"),
        ("ResourceConfig.VolumeSizeInGB", 30, "ResourceConfig.VolumeSizeInGB is 30 there and 100 here"),
        ("ResourceConfig.InstanceGroups", [{}], "ResourceConfig.InstanceGroups is "),
        ("VpcConfig.Subnets", ["subnet-1"], "VpcConfig.Subnets is "),
        ("EnableNetworkIsolation", True, "EnableNetworkIsolation is True there and None here"),
        ("EnableManagedSpotTraining", True, "EnableManagedSpotTraining is True there and None here"),
        ("SessionChainingConfig", {"EnableSessionTagChaining": True}, "session tags"),
        ("AlgorithmSpecification.AlgorithmName", "arn", "Marketplace"),
        ("InputDataConfig", [{"ChannelName": "prelaunch"}], "the channel 'prelaunch'"),
        ("Tags", [{"Key": "prelaunch:gate", "Value": "y"}], "tags that begin with prelaunch:"),
    ],
)
def test_trainer_overlay_refuses_keys_that_contradict_the_gate(path: str, value: object, said: str) -> None:
    """Other machines with both values, and what is the gate's own."""
    with pytest.raises(LaunchRejected, match=re.escape(said)):
        overlay(changed(THEIRS, path, value), OURS, Work.CONFIRM)


def test_an_explicit_no_is_not_an_open_question() -> None:
    """A trainer that says no isolation does not get some."""
    theirs = changed(THEIRS, "EnableNetworkIsolation", False)
    ours = changed(OURS, "EnableNetworkIsolation", True)
    with pytest.raises(LaunchRejected, match="EnableNetworkIsolation is False there and True here"):
        overlay(theirs, ours, Work.CONFIRM)


def test_with_isolation_the_output_is_where_reports_are_looked_for() -> None:
    """No other way brings them; elsewhere is refused with both places."""
    ours = changed(OURS, "EnableNetworkIsolation", True)
    output = {"CompressionType": "GZIP"}

    with pytest.raises(LaunchRejected, match=r"s3://models/tiny.*s3://b/output"):
        overlay(THEIRS, ours, Work.CONFIRM)
    laid = overlay({**THEIRS, "OutputDataConfig": output}, ours, Work.CONFIRM)
    assert laid["OutputDataConfig"] == {**OURS["OutputDataConfig"], **output}
