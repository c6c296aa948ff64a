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
EVERY = "-1"
WAYS = {"ingress": "IpPermissions", "egress": "IpPermissionsEgress"}
Groups = Sequence[Mapping[str, Any]]


def subnets(needs: Requirements, clients: Clients) -> tuple[PreflightCheck, ...]:
    """One subnet holds all machines, for SageMaker puts a job into one (observed)."""
    listed = clients.request("ec2", "describe_subnets", SubnetIds=list(needs.options.subnets))["Subnets"]
    free = {subnet["SubnetId"]: int(subnet["AvailableIpAddressCount"]) for subnet in listed}
    each = ADDRESSES_EFA if needs.efa else ADDRESSES
    needed = needs.nodes * each
    text = ", ".join(f"{name}: {count} free" for name, count in free.items())
    if max(free.values()) < needed:
        message = f"{needs.nodes} machines want {needed} addresses ({each} each) in one subnet: {text}"
        return (wrong(SUBNETS, message, "Name a larger subnet, or free addresses."),)
    return (ok(SUBNETS, f"{text}; {needed} wanted"),)


def groups(needs: Requirements, clients: Clients) -> tuple[PreflightCheck, ...]:
    """Whether they let the machines talk; for EFA there has to be one (SageMaker, "Run training with EFA")."""
    names = list(needs.options.security_group_ids)
    if not names:
        message = f"{needs.nodes} x {needs.instance_type} talk over EFA, and no VPC is named whose security group lets them"
        remedy = "Set subnets and security_group_ids in [cluster.options] (docs/sagemaker.md)."
        return (wrong(GROUPS, message, remedy),)
    listed = clients.request("ec2", "describe_security_groups", GroupIds=names)["SecurityGroups"]
    closed = shut(listed, needs.efa) if needs.nodes > 1 else []
    if not closed:
        return (ok(GROUPS, f"{', '.join(names)}: the machines reach each other"),)
    others = "the machines must reach each other"
    rule = "EFA needs all protocols, to and from the group itself" if needs.efa else others
    message = f"{names[0]} does not allow {' and '.join(closed)} of itself; {rule}"
    return (wrong(GROUPS, message, " && ".join(_opening(side, names[0], needs.region) for side in closed)),)


def shut(listed: Groups, efa: bool) -> list[str]:
    """The directions ("ingress", "egress") in which machines with all these groups cannot reach each other. Pure.

    EFA's traffic bears no addresses that a CIDR rule could match, so the rule has to name the group (EC2, "Get started with
    EFA", step 1); it has to allow all protocols.
    """
    names = {group["GroupId"] for group in listed}
    return [
        side
        for side, key in WAYS.items()
        if not any(_opens(rule, names, efa) for group in listed for rule in group.get(key, ()))
    ]


def _opens(rule: Mapping[str, Any], names: set[str], efa: bool) -> bool:
    of_itself = any(pair.get("GroupId") in names for pair in rule.get("UserIdGroupPairs", ()))
    if efa:
        return of_itself and rule["IpProtocol"] == EVERY
    every = rule["IpProtocol"] == EVERY or (rule["IpProtocol"] == "tcp" and _all_ports(rule))
    return every and (of_itself or bool(rule.get("IpRanges") or rule.get("PrefixListIds")))


def _all_ports(rule: Mapping[str, Any]) -> bool:
    return int(rule.get("FromPort", 0)) <= 1024 and int(rule.get("ToPort", 65535)) >= 65535


def _opening(side: str, group: str, region: str) -> str:
    permission = f"IpProtocol=-1,UserIdGroupPairs=[{{GroupId={group}}}]"
    command = f"aws ec2 authorize-security-group-{side} --region {region} --group-id {group}"
    return f"{command} --ip-permissions '{permission}'"
