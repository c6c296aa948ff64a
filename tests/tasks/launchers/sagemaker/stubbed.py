"""Golden answers of AWS, as its documentation has them, and a launcher whose clients give them (botocore's Stubber).

The shapes are botocore 1.44.5's own: the Stubber refuses an answer that AWS could not give.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any

import boto3
from botocore.config import Config
from botocore.stub import Stubber

from tasks.launchers.base import ApiCall, JobSpec, Plan
from tasks.launchers.sagemaker.launcher import SageMakerLauncher
from tasks.launchers.sagemaker.options import SageMakerOptions
from tasks.store.aws import AwsTimeouts

ACCOUNT, REGION = "123456789012", "us-east-1"
IMAGE = f"{ACCOUNT}.dkr.ecr.{REGION}.amazonaws.com/prelaunch:1"
ROLE = f"arn:aws:iam::{ACCOUNT}:role/prelaunch-execution"
JOB = "p5-20261121-083000-1f3a-check-1"
OPTIONS = SageMakerOptions(REGION, IMAGE, ROLE, "s3://bucket/gates", poll_seconds=0.1)
BEGAN = datetime(2026, 11, 21, 8, 30, tzinfo=UTC)
QUICK = AwsTimeouts(
    connect_s=1.0, read_s=2.0, deadline_s=0.3, pause_s=0.001, longest_pause_s=0.005, visible_s=0.05
)

# AlgorithmError and the rest as "Troubleshooting" and DescribeTrainingJob's FailureReason show them.
ALGORITHM = "AlgorithmError: refused: algo-2: gpu.ecc: 3 errors, exit code: 1"
CAPACITY = (
    "CapacityError: Unable to provision requested ML compute capacity. Please retry using a different ML instance "
    "type."
)
QUOTA = (
    "The account-level service limit 'ml.p5.48xlarge for training job usage' is {limit} Instances, with current utilization "
    "of {used} Instances and a request delta of {asked} Instances. Please use AWS Service Quotas to request an increase for "
    "this quota. If AWS Service Quotas is not available, contact AWS support to request an increase for this quota."
)
ARN = {"TrainingJobArn": "arn:aws:sagemaker:us-east-1:123456789012:training-job/x"}
NOT_FOUND = "Requested resource not found."


# What is asked for, and described.
REQUEST: dict[str, Any] = {
    "TrainingJobName": JOB,
    "AlgorithmSpecification": {"TrainingImage": IMAGE, "TrainingInputMode": "File"},
    "RoleArn": ROLE,
    "OutputDataConfig": {"S3OutputPath": "s3://bucket/gates/output"},
    "ResourceConfig": {"InstanceType": "ml.p5.48xlarge", "InstanceCount": 2, "VolumeSizeInGB": 100},
    "StoppingCondition": {"MaxRuntimeInSeconds": 1800},
}


def step(status: str, minute: int) -> dict[str, Any]:
    """One of SecondaryStatusTransitions."""
    at = BEGAN + timedelta(minutes=minute)
    return {"Status": status, "StartTime": at, "StatusMessage": MESSAGES.get(status, status)}


def described(
    status: str = "InProgress",
    secondary: str = "Training",
    steps: tuple[str, ...] | None = None,
    nodes: int = 2,
    keep_alive_s: int = 3600,
    **more: Any,
) -> dict[str, Any]:
    """DescribeTrainingJob's answer. `steps` default to a job that came as far as training."""
    names = ("Starting", "Downloading", "Training") if steps is None else steps
    resources = {**REQUEST["ResourceConfig"], "InstanceCount": nodes}
    return {
        **REQUEST,
        **ARN,
        "ModelArtifacts": {"S3ModelArtifacts": ""},
        "TrainingJobStatus": status,
        "SecondaryStatus": secondary,
        "ResourceConfig": {**resources, "KeepAlivePeriodInSeconds": keep_alive_s},
        "CreationTime": BEGAN,
        "SecondaryStatusTransitions": [step(name, minute) for minute, name in enumerate(names)],
        **more,
    }


MESSAGES = {
    "Starting": "Preparing the instances for training",
    "Training": "Training image download completed. Training in progress.",
    "Pending": "Insufficient capacity error from EC2 while launching instances, retrying!",
    "Restarting": "Repairing training cluster due to hardware failure",
}


def ended(status: str = "Completed", secondary: str = "", **more: Any) -> dict[str, Any]:
    """The same of a job that has ended."""
    return described(status, secondary or status, **more)


def a_plan(uploads: dict[str, bytes] | None = None, **body: Any) -> Plan:
    """A plan of one request."""
    job = JobSpec(JOB, (), 2, 8, 1800.0, {}, {}, instance_type="p5.48xlarge")
    call = ApiCall("sagemaker", "CreateTrainingJob", JOB, {**REQUEST, **body})
    return Plan(job, (call,), uploads or {})


@dataclass(frozen=True)
class Stubbed:
    """A launcher, and what its clients will be asked in turn."""

    launcher: SageMakerLauncher
    sagemaker: Stubber
    s3: Stubber
    logs: Stubber

    def describes(self, *answers: dict[str, Any]) -> None:
        """DescribeTrainingJob gives these in turn."""
        for answer in answers:
            self.sagemaker.add_response("describe_training_job", answer, {"TrainingJobName": JOB})

    def creates(self, *answers: dict[str, Any], **body: Any) -> None:
        """CreateTrainingJob takes the request of the plan, and DescribeTrainingJob gives these afterwards."""
        self.sagemaker.add_response("create_training_job", ARN, dict(a_plan(**body).calls[0].body))
        self.describes(*answers)

    def knows_none(self, times: int = 1) -> None:
        """DescribeTrainingJob knows no such job."""
        for _ in range(times):
            self.refuses("describe_training_job", "ValidationException", NOT_FOUND)

    def refuses(self, call: str, code: str, said: str = "", status: int = 400) -> None:
        """The next call is answered with this error."""
        self.sagemaker.add_client_error(call, code, said, status)

    def writes_nothing(self) -> None:
        """S3 lists no objects."""
        self.s3.add_response("list_objects_v2", {"IsTruncated": False, "Contents": []})


@contextmanager
def stubbed(limits: AwsTimeouts = QUICK, **changes: Any) -> Iterator[Stubbed]:
    """A launcher that reaches nobody; afterwards everything that was put up must have been asked."""
    launcher = SageMakerLauncher(replace(OPTIONS, **changes), limits)
    stubs = {service: Stubber(client_of(service)) for service in ("sagemaker", "s3", "logs")}
    for service, stub in stubs.items():
        stub.activate()
        launcher.clients._clients[service] = stub.client
    try:
        yield Stubbed(launcher, stubs["sagemaker"], stubs["s3"], stubs["logs"])
        for stub in stubs.values():
            stub.assert_no_pending_responses()
    finally:
        for stub in stubs.values():
            stub.deactivate()


@lru_cache
def client_of(service: str) -> Any:
    """A client that no test lets send anything."""
    config = Config(retries={"mode": "standard", "total_max_attempts": 1})
    return boto3.client(service, REGION, config=config, aws_access_key_id="x", aws_secret_access_key="x")
