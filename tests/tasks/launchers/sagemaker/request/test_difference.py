"""What AWS has is compared with what was sent: everything that the request names, and nothing that AWS adds.

A job that AWS has otherwise than it was sent is stopped before its checks are paid for.
"""

from __future__ import annotations

from typing import Any

import botocore.session
import pytest

from tasks.launchers.base import JobHandle, LaunchRejected, UnseenJob
from tasks.launchers.sagemaker.request.difference import NEVER_DESCRIBED, Difference, differences
from tests.tasks.launchers.sagemaker.planning import MISSING, changed
from tests.tasks.launchers.sagemaker.stubbed import JOB, Stubbed, a_plan, described, ended
from tests.tasks.launchers.sagemaker.test_submit import URL

SENT: dict[str, Any] = {
    "TrainingJobName": "p5-check-1",
    "AlgorithmSpecification": {
        "TrainingImage": "1.dkr.ecr.us-east-1.amazonaws.com/prelaunch:1",
        "TrainingInputMode": "File",
        "ContainerEntrypoint": ["python", "-m", "container.agent"],
        "ContainerArguments": ["check", "--bundle", "b"],
    },
    "RoleArn": "arn:aws:iam::1:role/r",
    "InputDataConfig": [
        {"ChannelName": "prelaunch", "DataSource": {"S3DataSource": {"S3Uri": "s3://b/in/"}}},
        {"ChannelName": "data", "DataSource": {"FileSystemDataSource": {"FileSystemId": "fs-1"}}},
    ],
    "OutputDataConfig": {"S3OutputPath": "s3://b/out", "KmsKeyId": "1234-abcd"},
    "ResourceConfig": {
        "InstanceType": "ml.p5.48xlarge",
        "InstanceCount": 16,
        "VolumeSizeInGB": 100,
        "KeepAlivePeriodInSeconds": 600,
        "TrainingPlanArn": "arn:aws:sagemaker:us-east-1:1:training-plan/p",
        "InstanceGroups": [{"InstanceGroupName": "a", "InstanceType": "ml.p5.48xlarge", "InstanceCount": 8}],
    },
    "VpcConfig": {"Subnets": ["subnet-1", "subnet-2"], "SecurityGroupIds": ["sg-1"]},
    "StoppingCondition": {"MaxRuntimeInSeconds": 1800, "MaxWaitTimeInSeconds": 3600},
    "EnableManagedSpotTraining": True,
    "EnableNetworkIsolation": False,
    "RetryStrategy": {"MaximumRetryAttempts": 3},
    "CheckpointConfig": {"S3Uri": "s3://b/checkpoints"},
    "Environment": {"PRELAUNCH_OBSERVE": "1", "TOKEN": "secret"},
    "HyperParameters": {"lr": "0.1"},
    "Tags": [{"Key": "prelaunch:gate", "Value": "x"}],
}
# What AWS answers has no tags.
ANSWER = {key: value for key, value in SENT.items() if key != "Tags"}


@pytest.mark.parametrize(
    ("path", "value", "field"),
    [
        (("ResourceConfig", "InstanceType"), "ml.p4d.24xlarge", "ResourceConfig.InstanceType"),
        (("ResourceConfig", "InstanceCount"), 15, "ResourceConfig.InstanceCount"),
        (("ResourceConfig", "TrainingPlanArn"), MISSING, "ResourceConfig.TrainingPlanArn"),
        (("ResourceConfig", "KeepAlivePeriodInSeconds"), 0, "ResourceConfig.KeepAlivePeriodInSeconds"),
        (("ResourceConfig", "InstanceGroups", 0, "InstanceCount"), 4, "ResourceConfig.InstanceGroups[0].InstanceCount"),
        (("StoppingCondition", "MaxRuntimeInSeconds"), 86400, "StoppingCondition.MaxRuntimeInSeconds"),
        (("StoppingCondition", "MaxWaitTimeInSeconds"), MISSING, "StoppingCondition.MaxWaitTimeInSeconds"),
        (("EnableManagedSpotTraining",), False, "EnableManagedSpotTraining"),
        (("EnableManagedSpotTraining",), MISSING, "EnableManagedSpotTraining"),
        (("EnableNetworkIsolation",), True, "EnableNetworkIsolation"),
        (("VpcConfig",), MISSING, "VpcConfig.Subnets"),
        (("VpcConfig", "Subnets"), ["subnet-1"], "VpcConfig.Subnets"),
        (("VpcConfig", "Subnets"), ["subnet-1", "subnet-9"], "VpcConfig.Subnets[1]"),
        (("VpcConfig", "Subnets"), ["subnet-1", "subnet-2", "subnet-3"], "VpcConfig.Subnets"),
        (("AlgorithmSpecification", "ContainerArguments"), ["--bundle", "check", "b"], "AlgorithmSpecification.ContainerArguments"),
        (("AlgorithmSpecification", "TrainingImage"), "1.dkr.ecr/other:1", "AlgorithmSpecification.TrainingImage"),
        (("InputDataConfig", 1, "ChannelName"), "train", "InputDataConfig[1].ChannelName"),
        (("OutputDataConfig", "S3OutputPath"), "s3://b/out2", "OutputDataConfig.S3OutputPath"),
        (("OutputDataConfig", "KmsKeyId"), "arn:aws:kms:us-east-1:1:key/other", "OutputDataConfig.KmsKeyId"),
        (("RetryStrategy", "MaximumRetryAttempts"), 1, "RetryStrategy.MaximumRetryAttempts"),
        (("CheckpointConfig", "S3Uri"), "s3://b/elsewhere", "CheckpointConfig.S3Uri"),
        (("Environment", "PRELAUNCH_OBSERVE"), MISSING, "Environment.PRELAUNCH_OBSERVE"),
        (("HyperParameters", "lr"), "0.2", "HyperParameters.lr"),
    ],
)  # fmt: skip
def test_every_field_that_a_request_names_is_compared(path: tuple[str, ...], value: Any, field: str) -> None:
    """A value that AWS changed, dropped, or added to a list."""
    assert field == differences(SENT, changed(ANSWER, path, value))[0].field


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("CheckpointConfig", "LocalPath"), "/opt/ml/checkpoints"),
        (("ProfilerConfig",), {"DisableProfiler": True}),
        (("InputDataConfig", 0, "CompressionType"), "None"),
        (("Environment", "AWS_ADDED"), "1"),
        (("ResourceConfig", "SelectedInstanceType"), "ml.p5.48xlarge"),
        (("EnableNetworkIsolation",), MISSING),
        (("VpcConfig", "Subnets"), ["subnet-2", "subnet-1"]),
        (("InputDataConfig",), [*reversed(SENT["InputDataConfig"])]),
        (("OutputDataConfig", "KmsKeyId"), "arn:aws:kms:us-east-1:1:key/1234-abcd"),
        (("OutputDataConfig", "S3OutputPath"), "s3://b/out/"),
        (("TrainingJobStatus",), "InProgress"),
    ],
)
def test_request_difference_ignores_additions_of_aws(path: tuple[str, ...], value: Any) -> None:
    """A healthy job is not refused for a default, an order that means nothing, or the long form of a key."""
    assert () == differences(SENT, changed(ANSWER, path, value))


def test_only_what_aws_never_answers_is_left_out() -> None:
    """The two tables are botocore's own, of the version that is installed."""
    model = botocore.session.get_session().get_service_model("sagemaker")
    asked = model.operation_model("CreateTrainingJob").input_shape
    answer = model.operation_model("DescribeTrainingJob").output_shape
    assert asked is not None and answer is not None
    assert set(asked.members) - set(answer.members) == set(NEVER_DESCRIBED)


def test_a_difference_names_the_field_and_both_values_but_no_secret() -> None:
    """Environment variables may be credentials."""
    assert "A.B is 2, and 1 was sent" == Difference("A.B", 1, 2).text
    assert "A.B is missing, and 1 was sent" == Difference("A.B", 1, None).text
    assert "Environment.TOKEN has another value" == Difference("Environment.TOKEN", "secret", "x").text


CHANGED: dict[str, Any] = {"StoppingCondition": {"MaxRuntimeInSeconds": 86400}}


@pytest.mark.parametrize("found", [False, True])
def test_a_job_that_aws_has_otherwise_than_it_was_sent_is_stopped(aws: Stubbed, found: bool) -> None:
    """Before its checks are paid for, also where a gate that died had created it. The field and both values are named."""
    if not found:
        aws.knows_none()
        aws.creates()
    aws.describes(described(secondary="Starting", steps=("Starting",), **CHANGED))
    aws.sagemaker.add_response("stop_training_job", {}, {"TrainingJobName": JOB})
    difference = r"StoppingCondition\.MaxRuntimeInSeconds is 86400, and 1800 was sent"
    with pytest.raises(LaunchRejected, match=difference):
        aws.launcher.submit(a_plan())


def test_a_job_that_cannot_be_stopped_is_said_with_the_command(aws: Stubbed) -> None:
    """It is billed until somebody stops it."""
    aws.describes(described(secondary="Starting", steps=("Starting",), **CHANGED))
    aws.refuses("stop_training_job", "AccessDeniedException", "no")
    with pytest.raises(UnseenJob, match=f"aws sagemaker stop-training-job --training-job-name {JOB}"):
        aws.launcher.submit(a_plan())


@pytest.mark.parametrize(
    "job", [described(), described(**CHANGED), ended("Failed"), ended("Failed", steps=(), **CHANGED)]
)
def test_a_job_whose_containers_ran_is_not_stopped_for_it(aws: Stubbed, job: dict[str, Any]) -> None:
    """A training that a dead gate left behind goes on; nothing is written and nothing is created."""
    aws.describes(job)
    assert JobHandle(JOB, adopted=True) == aws.launcher.submit(a_plan(uploads={URL: b"x"}))
