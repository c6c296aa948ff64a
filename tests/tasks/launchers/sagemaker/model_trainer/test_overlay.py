"""A ModelTrainer's request and the gate's own, made one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tasks.launchers.base import LaunchRejected
from tasks.launchers.sagemaker.model_trainer.overlay import MACHINES, differences, overlay
from tasks.launchers.sagemaker.request.machines import pool_key

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


def changed(body: Mapping[str, Any], path: str, value: object) -> dict[str, Any]:
    """The body with one value replaced; {} above it where it had nothing."""
    head, _, rest = path.partition(".")
    return {**body, head: changed(body.get(head) or {}, rest, value) if rest else value}


def test_the_machines_are_the_gates_and_the_run_is_the_trainers() -> None:
    """Name, machines, time and entrypoint are ours; nothing of what it would train is lost; no machine is kept."""
    assert overlay(THEIRS, OURS) == {
        **THEIRS,
        "TrainingJobName": "tiny-train-1",
        "AlgorithmSpecification": {
            "TrainingImage": "training:1",
            "TrainingInputMode": "FastFile",
            "ContainerEntrypoint": ["gate"],
            "ContainerArguments": ["--", "run"],
        },
        "InputDataConfig": [
            {"ChannelName": "code"},
            {"ChannelName": "sm_drivers"},
            {"ChannelName": "prelaunch"},
        ],
        "ResourceConfig": OURS["ResourceConfig"],
        "VpcConfig": OURS["VpcConfig"],
        "StoppingCondition": {"MaxRuntimeInSeconds": 600},
        "InfraCheckConfig": {"EnableInfraCheck": True},
        "Tags": [{"Key": "team", "Value": "x"}, {"Key": "prelaunch:gate", "Value": "tiny"}],
    }


def test_what_a_warm_pool_is_found_by_is_always_the_gates() -> None:
    """The same for check and training, whatever the trainer leaves open."""
    for path in MACHINES:
        assert pool_key(overlay(changed(THEIRS, path, None), OURS)) == pool_key(OURS)


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        ("RoleArn", "role/b", "RoleArn is 'role/b' there and 'role/a' here ([cluster.options] role_arn)"),
        (
            "ResourceConfig.InstanceType",
            "ml.p5en.48xlarge",
            "ResourceConfig.InstanceType is 'ml.p5en.48xlarge' there and 'ml.p5.48xlarge' here"
            " ([cluster.declared] instance_type)",
        ),
        (
            "ResourceConfig.VolumeSizeInGB",
            30,
            "ResourceConfig.VolumeSizeInGB is 30 there and 100 here ([cluster.options] volume_gb)",
        ),
        (
            "VpcConfig.Subnets",
            ["subnet-1"],
            "VpcConfig.Subnets is ['subnet-1'] there and ['subnet-1', 'subnet-2'] here ([cluster.options] subnets)",
        ),
        (
            "EnableNetworkIsolation",
            True,
            "EnableNetworkIsolation is True there and not set here ([cluster.options] network_isolation)",
        ),
        (
            "EnableManagedSpotTraining",
            True,
            "EnableManagedSpotTraining is True there and not set here ([cluster.options] spot)",
        ),
    ],
)
def test_other_machines_are_said_with_both_values(path: str, value: object, said: str) -> None:
    """And with the place in the gate file where the other one stands."""
    assert differences(changed(THEIRS, path, value), OURS) == [said]


def test_an_explicit_no_is_not_an_open_question() -> None:
    """A trainer that says no isolation does not get some."""
    ours = changed(OURS, "EnableNetworkIsolation", True)

    assert differences(THEIRS, ours) == []
    assert len(differences(changed(THEIRS, "EnableNetworkIsolation", False), ours)) == 1


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        ("ResourceConfig.InstanceGroups", [{}], "several types"),
        ("ResourceConfig.InstancePreferences", [{}], "different types"),
        ("SessionChainingConfig", {"EnableSessionTagChaining": True}, "session tags"),
        ("AlgorithmSpecification.AlgorithmName", "arn", "Marketplace"),
        ("InputDataConfig", [{"ChannelName": "prelaunch"}], "'prelaunch', which is the gate's own"),
        ("Tags", [{"Key": "prelaunch:gate", "Value": "y"}], "'prelaunch:gate', which is the gate's own"),
    ],
)
def test_what_cannot_stand_behind_a_gate_is_refused(path: str, value: object, said: str) -> None:
    """With the reason and the remedy."""
    with pytest.raises(LaunchRejected, match=said):
        overlay(changed(THEIRS, path, value), OURS)


def test_with_isolation_the_output_is_where_reports_are_looked_for() -> None:
    """No other way brings them; elsewhere is refused with both places."""
    ours = changed(OURS, "EnableNetworkIsolation", True)
    theirs = changed(THEIRS, "OutputDataConfig.S3OutputPath", None)

    with pytest.raises(LaunchRejected, match=r"s3://models/tiny.*s3://b/output"):
        overlay(THEIRS, ours)
    assert overlay(theirs, ours)["OutputDataConfig"] == {
        **OURS["OutputDataConfig"],
        "CompressionType": "GZIP",
    }
