"""What AWS has is compared with what was sent: everything that the request names, and nothing that AWS adds."""

from __future__ import annotations

from typing import Any

import pytest

from tasks.launchers.sagemaker.request.difference import Difference, differences

SENT: dict[str, Any] = {
    "RoleArn": "arn:aws:iam::1:role/r",
    "InputDataConfig": [
        {"ChannelName": "prelaunch", "DataSource": {"S3DataSource": {"S3Uri": "s3://b/in/"}}},
        {"ChannelName": "data", "DataSource": {"FileSystemDataSource": {"FileSystemId": "fs-1"}}},
    ],
    "OutputDataConfig": {"S3OutputPath": "s3://b/out"},
    "ResourceConfig": {"InstanceType": "ml.p5.48xlarge", "InstanceCount": 16},
    "VpcConfig": {"Subnets": ["subnet-1", "subnet-2"], "SecurityGroupIds": ["sg-1"]},
    "EnableManagedSpotTraining": True,
    "EnableNetworkIsolation": False,
}
ADDED = {"InputDataConfig": [{**row, "CompressionType": "None"} for row in reversed(SENT["InputDataConfig"])]}
OTHER_INPUT = [{"ChannelName": "train"}, SENT["InputDataConfig"][1]]


@pytest.mark.parametrize(
    ("has", "field"),
    [
        ({"ResourceConfig": {"InstanceType": "ml.p4d.24xlarge", "InstanceCount": 16}}, "ResourceConfig.InstanceType"),
        ({"ResourceConfig": {"InstanceType": "ml.p5.48xlarge"}}, "ResourceConfig.InstanceCount"),
        ({"EnableManagedSpotTraining": None}, "EnableManagedSpotTraining"),
        ({"EnableNetworkIsolation": True}, "EnableNetworkIsolation"),
        ({"VpcConfig": None}, "VpcConfig.Subnets VpcConfig.SecurityGroupIds"),
        ({"VpcConfig": {**SENT["VpcConfig"], "Subnets": ["subnet-1", "subnet-9"]}}, "VpcConfig.Subnets"),
        ({"VpcConfig": {**SENT["VpcConfig"], "Subnets": ["subnet-1", "subnet-2", "subnet-3"]}}, "VpcConfig.Subnets"),
        ({"InputDataConfig": OTHER_INPUT}, "InputDataConfig"),
        ({"OutputDataConfig": {"S3OutputPath": "s3://b/out2"}}, "OutputDataConfig.S3OutputPath"),
        ({"EnableNetworkIsolation": None}, ""),
        ({"VpcConfig": {**SENT["VpcConfig"], "Subnets": ["subnet-2", "subnet-1"]}, **ADDED}, ""),
        ({"OutputDataConfig": {"S3OutputPath": "s3://b/out/"}, "TrainingJobStatus": "InProgress"}, ""),
    ],
)  # fmt: skip
def test_every_field_that_the_request_names_is_compared(has: dict[str, Any], field: str) -> None:
    """A value that AWS changed, dropped or added to a list; a default, or an order that means nothing, is no difference."""
    assert field == " ".join(one.field for one in differences(SENT, {**SENT, **has}))


def test_a_difference_names_the_field_and_both_values() -> None:
    """For people."""
    assert "A.B is 2, and 1 was sent" == Difference("A.B", 1, 2).text
    assert "A.B is missing, and 1 was sent" == Difference("A.B", 1, None).text
