"""What the preflight makes of answers: security groups, quotas. Pure."""

from __future__ import annotations

from typing import Any

import pytest

from tasks.launchers.base import Placement
from tasks.launchers.sagemaker.preflight.account import wanted_of
from tasks.launchers.sagemaker.preflight.network import shut
from tests.tasks.launchers.sagemaker.preflight.accounts import asked


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
def test_security_group_rules_decide_which_traffic_is_shut(
    ingress: dict[str, Any], egress: dict[str, Any], efa: bool, closed: list[str]
) -> None:
    """For EFA all protocols, and by the group's own name."""
    assert closed == shut([_group([ingress], [egress])], efa)


def test_two_groups_open_to_each_other_are_enough() -> None:
    """Every machine bears both."""
    to_two = {"IpProtocol": "-1", "UserIdGroupPairs": [{"GroupId": "sg-2"}]}

    assert [] == shut([_group([to_two], [to_two]), _group([], [], "sg-2")], True)


def test_spot_has_quotas_of_its_own() -> None:
    """For the type, for all, and for one job. The longest run time is the same one."""
    wanted = wanted_of(asked("p5.48xlarge", 4, placement=Placement.NONE, spot=True))

    assert [
        ("ml.p5.48xlarge for spot training job usage", 4),
        ("Number of instances across all spot training jobs", 4),
        ("Maximum number of instances per spot training job", 4),
        ("Longest run time for a training job", 900),
    ] == [(one.name, one.value) for one in wanted]
