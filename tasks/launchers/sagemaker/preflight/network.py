"""Preflight of the network: whether the subnets exist and are large enough, and what the security groups allow.

The security groups must let the machines of a job talk to each other, over EFA as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tasks.launchers.base import PreflightCheck
from tasks.launchers.preflight import ok, wrong
from tasks.launchers.sagemaker.api import Clients
from tasks.launchers.sagemaker.preflight.requirements import Requirements

SUBNETS, GROUPS = "subnets", "security groups"
# AWS, "Give SageMaker AI Training Jobs Access to Resources in Your Amazon VPC": private addresses an instance.
ADDRESSES, ADDRESSES_EFA = 2, 5
ALL = "-1"
WAYS = {"ingress": "IpPermissions", "egress": "IpPermissionsEgress"}
Rows = Sequence[Mapping[str, Any]]


def subnets(asked: Requirements, clients: Clients) -> tuple[PreflightCheck, ...]:
    """One subnet holds all machines, for SageMaker puts a job into one (observed)."""
    found = clients.request("ec2", "describe_subnets", SubnetIds=list(asked.options.subnets))["Subnets"]
    free = {one["SubnetId"]: int(one["AvailableIpAddressCount"]) for one in found}
    each = ADDRESSES_EFA if asked.efa else ADDRESSES
    needed = asked.nodes * each
    shown = ", ".join(f"{name}: {count} free" for name, count in free.items())
    if max(free.values()) < needed:
        said = f"{asked.nodes} machines want {needed} addresses ({each} each) in one subnet: {shown}"
        return (wrong(SUBNETS, said, "Name a larger subnet, or free addresses."),)
    return (ok(SUBNETS, f"{shown}; {needed} wanted"),)


def groups(asked: Requirements, clients: Clients) -> tuple[PreflightCheck, ...]:
    """Whether they let the machines talk; for EFA there has to be one (SageMaker, "Run training with EFA")."""
    names = list(asked.options.security_group_ids)
    if not names:
        said = (
            f"{asked.nodes} x {asked.kind} talk over EFA, and no VPC is named whose security group lets them"
        )
        remedy = "Set subnets and security_group_ids in [cluster.options] (docs/sagemaker.md)."
        return (wrong(GROUPS, said, remedy),)
    found = clients.request("ec2", "describe_security_groups", GroupIds=names)["SecurityGroups"]
    closed = shut(found, asked.efa) if asked.nodes > 1 else []
    if not closed:
        return (ok(GROUPS, f"{', '.join(names)}: the machines reach each other"),)
    what = (
        "EFA needs all protocols, to and from the group itself"
        if asked.efa
        else "the machines must reach each other"
    )
    said = f"{names[0]} does not allow {' and '.join(closed)} of itself; {what}"
    return (wrong(GROUPS, said, " && ".join(_opening(way, names[0], asked.region) for way in closed)),)


def shut(found: Rows, efa: bool) -> list[str]:
    """The directions ("ingress", "egress") in which machines with all these groups cannot reach each other. Pure.

    EFA's traffic bears no addresses that a CIDR rule could match, so the rule has to name the group (EC2, "Get started with
    EFA", step 1); it has to allow all protocols.
    """
    names = {one["GroupId"] for one in found}
    return [
        way
        for way, key in WAYS.items()
        if not any(_opens(rule, names, efa) for one in found for rule in one.get(key, ()))
    ]


def _opens(rule: Mapping[str, Any], names: set[str], efa: bool) -> bool:
    of_itself = any(pair.get("GroupId") in names for pair in rule.get("UserIdGroupPairs", ()))
    if efa:
        return of_itself and rule["IpProtocol"] == ALL
    every = rule["IpProtocol"] == ALL or (rule["IpProtocol"] == "tcp" and _all_ports(rule))
    return every and (of_itself or bool(rule.get("IpRanges") or rule.get("PrefixListIds")))


def _all_ports(rule: Mapping[str, Any]) -> bool:
    return int(rule.get("FromPort", 0)) <= 1024 and int(rule.get("ToPort", 65535)) >= 65535


def _opening(way: str, group: str, region: str) -> str:
    permission = f"IpProtocol=-1,UserIdGroupPairs=[{{GroupId={group}}}]"
    return (
        f"aws ec2 authorize-security-group-{way} --region {region} --group-id {group} "
        f"--ip-permissions '{permission}'"
    )
