"""An AWS account in moto that has all a gate needs, and the gate's own request."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any

from botocore.stub import Stubber

from tasks.launchers.base import Plan, PreflightCheck, PreflightResult
from tasks.launchers.sagemaker.api import Clients
from tasks.launchers.sagemaker.job_request import make_plan
from tasks.launchers.sagemaker.options import SageMakerOptions
from tasks.launchers.sagemaker.preflight.requirements import Requirements, requirements_of
from tasks.store.aws import AwsTimeouts
from tests.fakes.sagemaker.account import MANIFEST, TRUST
from tests.tasks.launchers.sagemaker.planning import CHECK
from tests.tasks.launchers.sagemaker.stubbed import ACCOUNT, IMAGE, REGION, ROLE

REGISTRY = f"{ACCOUNT}.dkr.ecr.{REGION}.amazonaws.com"


@dataclass(frozen=True)
class Account:
    """The account's clients and the names of what is in it."""

    clients: Clients
    vpc: str
    subnet: str
    group: str


def clients() -> Clients:
    """As the launcher makes them, with less patience."""
    return Clients(REGION, AwsTimeouts(connect_s=5, read_s=60, deadline_s=0.5))


def furnished(made: Clients) -> Account:
    """A bucket, a role, an image, and a VPC of one subnet and a group."""
    made.client("s3").create_bucket(Bucket="ml-bucket")
    made.client("iam").create_role(RoleName="prelaunch-execution", AssumeRolePolicyDocument=json.dumps(TRUST))
    made.client("ecr").create_repository(repositoryName="prelaunch")
    made.client("ecr").put_image(repositoryName="prelaunch", imageManifest=MANIFEST, imageTag="1")
    vpc = made.client("ec2").create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
    subnet = made.client("ec2").create_subnet(VpcId=vpc, CidrBlock="10.0.0.0/24")["Subnet"]["SubnetId"]
    group = made.client("ec2").create_security_group(GroupName="efa", Description="efa", VpcId=vpc)["GroupId"]
    return Account(made, vpc, subnet, group)


def options(**changed: Any) -> SageMakerOptions:
    """The gate file's [cluster.options]."""
    return replace(SageMakerOptions(REGION, IMAGE, ROLE, "s3://ml-bucket/gates"), **changed)


def plans(chosen: SageMakerOptions, kind: str = "m5.large", nodes: int = 2) -> tuple[Plan, ...]:
    """The gate's check job, of fifteen minutes."""
    return (make_plan(replace(CHECK, nodes=nodes, max_runtime_s=900.0, instance_type=kind), chosen),)


def asked(kind: str = "m5.large", nodes: int = 2, **changed: Any) -> Requirements:
    """What that gate asks."""
    chosen = options(**changed)
    return requirements_of(plans(chosen, kind, nodes), chosen)


def answered(**services: list[tuple[str, Any]]) -> Clients:
    """Clients whose services answer these calls in this order: (call, answer), or (call, error code)."""
    made = clients()
    for name, answers in services.items():
        stub = Stubber(made.client({"quotas": "service-quotas"}.get(name, name)))
        for call, answer in answers:
            if isinstance(answer, str):
                stub.add_client_error(call, answer, f"User is not authorized: {answer}")
            else:
                stub.add_response(call, answer)
        stub.activate()
    return made


def looks(lines: tuple[PreflightCheck, ...]) -> list[tuple[str, PreflightResult]]:
    """What was looked at, and what came of it."""
    return [(line.subject, line.result) for line in lines]
