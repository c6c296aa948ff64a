"""What the looks make of answers: training plans, security groups, trust policies, names, quotas. Pure."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tasks.launchers.base import Placement
from tasks.launchers.sagemaker.preflight.account import faults_of, gate_of, wanted_of
from tasks.launchers.sagemaker.preflight.iam import lets_in
from tasks.launchers.sagemaker.preflight.network import shut
from tests.tasks.launchers.sagemaker.preflight.accounts import ACCOUNT, asked

PLAN_ARN = "arn:aws:sagemaker:us-east-1:123456789012:training-plan/p5-november"
NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)


def _plan(**changed: Any) -> dict[str, Any]:
    row = {
        "ReservedCapacityArn": "arn:aws:sagemaker:us-east-1:123456789012:reserved-capacity/abcdef",
        "InstanceType": "ml.p5.48xlarge",
        "TotalInstanceCount": 4,
        "Status": "Active",
        "AvailabilityZone": "us-east-1a",
    }
    return {
        "TrainingPlanArn": PLAN_ARN,
        "TrainingPlanName": "p5-november",
        "Status": "Active",
        "StartTime": NOW - timedelta(days=1),
        "EndTime": NOW + timedelta(days=3),
        "AvailableInstanceCount": 4,
        "ReservedCapacitySummaries": [row],
        **changed,
    }


@pytest.mark.parametrize(
    ("changed", "zones", "fault"),
    [
        ({}, {"us-east-1a"}, None),
        ({}, set(), None),
        ({}, {"us-east-1b"}, "its machines are in us-east-1a, the subnets in us-east-1b"),
        ({"Status": "Expired"}, set(), "it is Expired"),
        ({"Status": "Failed", "StatusMessage": "payment"}, set(), "it is Failed: payment"),
        ({"AvailableInstanceCount": 3}, set(), "3 instances are free, 4 wanted (0 unhealthy)"),
        (
            {"EndTime": NOW + timedelta(minutes=40)},
            set(),
            "it ends 2026-11-22 12:40 UTC, before a check of 15 minutes",
        ),
        ({"EndTime": NOW + timedelta(minutes=46)}, set(), None),
        (
            {"Status": "Scheduled", "StartTime": NOW + timedelta(hours=2)},
            set(),
            "it starts 2026-11-22 14:00 UTC, and the gate waits 60 minutes",
        ),
        ({"Status": "Scheduled", "StartTime": NOW + timedelta(minutes=50)}, set(), None),
    ],
)
def test_a_training_plan(changed: dict[str, Any], zones: set[str], fault: str | None) -> None:
    """Active or about to be, large enough, in the right zone, and not about to end."""
    wanted = asked("p5.48xlarge", 4, training_plan_arn=PLAN_ARN)

    assert [fault] if fault else [] == [said for said, _ in faults_of(_plan(**changed), wanted, zones, NOW)]


def test_a_plan_of_another_type_is_wrong() -> None:
    """It is named with what it reserves."""
    wanted = asked("p4d.24xlarge", 4, training_plan_arn=PLAN_ARN)

    assert ["it reserves ml.p5.48xlarge, not ml.p4d.24xlarge"] == [
        said for said, _ in faults_of(_plan(), wanted, set(), NOW)
    ]


@pytest.mark.parametrize(
    ("job", "gate"),
    [
        ("p5-20261122-093000-1f3a-check-1", "p5"),
        ("p5-injob-20261122-093000-1f3a-train-12", "p5-injob"),
        ("p5-plan-check-1", "p5"),
        ("my-check-1", "my-check-1"),
    ],
)
def test_the_gate_of_a_job(job: str, gate: str) -> None:
    """A job that no gate made has none."""
    assert gate == gate_of(job)


def _group(ingress: list[dict[str, Any]], egress: list[dict[str, Any]], name: str = "sg-1") -> dict[str, Any]:
    return {"GroupId": name, "IpPermissions": ingress, "IpPermissionsEgress": egress}


ITSELF = {"IpProtocol": "-1", "UserIdGroupPairs": [{"GroupId": "sg-1"}], "IpRanges": []}
TCP = {"IpProtocol": "tcp", "FromPort": 0, "ToPort": 65535, "UserIdGroupPairs": [{"GroupId": "sg-1"}]}
ONE_PORT = {"IpProtocol": "tcp", "FromPort": 443, "ToPort": 443, "UserIdGroupPairs": [{"GroupId": "sg-1"}]}
EVERYWHERE = {"IpProtocol": "-1", "UserIdGroupPairs": [], "IpRanges": [{"CidrIp": "0.0.0.0/0"}]}


@pytest.mark.parametrize(
    ("ingress", "egress", "efa", "closed"),
    [
        (ITSELF, ITSELF, True, []),
        (ITSELF, EVERYWHERE, True, ["egress"]),
        (TCP, ITSELF, True, ["ingress"]),
        (EVERYWHERE, EVERYWHERE, True, ["ingress", "egress"]),
        (ITSELF, EVERYWHERE, False, []),
        (TCP, EVERYWHERE, False, []),
        (ONE_PORT, EVERYWHERE, False, ["ingress"]),
    ],
)
def test_what_a_group_lets_through(
    ingress: dict[str, Any], egress: dict[str, Any], efa: bool, closed: list[str]
) -> None:
    """For EFA all protocols, and by the group's own name."""
    assert closed == shut([_group([ingress], [egress])], efa)


def test_two_groups_open_to_each_other_are_enough() -> None:
    """Every machine bears both."""
    to_two = {"IpProtocol": "-1", "UserIdGroupPairs": [{"GroupId": "sg-2"}]}

    assert [] == shut([_group([to_two], [to_two]), _group([], [], "sg-2")], True)


ALLOW: dict[str, Any] = {
    "Effect": "Allow",
    "Principal": {"Service": ["ec2.amazonaws.com", "sagemaker.amazonaws.com"]},
    "Action": ["sts:TagSession", "sts:AssumeRole"],
}


@pytest.mark.parametrize(
    ("statements", "expected"),
    [
        ([ALLOW], True),
        (ALLOW, True),
        ([{**ALLOW, "Condition": {"StringEquals": {"aws:SourceAccount": ACCOUNT}}}], True),
        ([{**ALLOW, "Action": "STS:*"}], True),
        ([{**ALLOW, "Action": "sts:AssumeRoleWithSAML"}], False),
        ([{**ALLOW, "Principal": {"AWS": f"arn:aws:iam::{ACCOUNT}:root"}}], False),
        ([ALLOW, {**ALLOW, "Effect": "Deny"}], False),
        ([], False),
    ],
)
def test_a_trust_policy(statements: Any, expected: bool) -> None:
    """Lists or single values, wildcards, and a Deny that ends it."""
    assert expected is lets_in({"Version": "2012-10-17", "Statement": statements})


def test_spot_has_quotas_of_its_own() -> None:
    """For the type, for all, and for one job. The longest run time is the same one."""
    wanted = wanted_of(asked("p5.48xlarge", 4, placement=Placement.NONE, spot=True))

    assert [
        ("ml.p5.48xlarge for spot training job usage", 4),
        ("Number of instances across all spot training jobs", 4),
        ("Maximum number of instances per spot training job", 4),
        ("Longest run time for a training job", 900),
    ] == [(one.name, one.value) for one in wanted]
