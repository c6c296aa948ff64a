"""Whether the security groups let the machines of a job talk to each other, over EFA as well."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tasks.launchers.base import Line
from tasks.launchers.sagemaker.preflight.asked import Asked, Network
from tasks.launchers.sagemaker.preflight.looking import Clients, Unseen, ask, ok, wrong
from tasks.launchers.sagemaker.preflight.subnets import described

WHAT = "security groups"
ALL = "-1"
WAYS = {"ingress": "IpPermissions", "egress": "IpPermissionsEgress"}


def groups(asked: Asked, clients: Clients) -> tuple[Line, ...]:
    """A line for each VpcConfig; for EFA there has to be one (SageMaker, "Run training with EFA")."""
    if asked.efa and not asked.networks:
        kind = next(fleet.kind for fleet in asked.fleets)
        said = f"{asked.nodes} x {kind} talk over EFA, and no VPC is named whose security group lets them"
        return (
            wrong(WHAT, said, "Set subnets and security_group_ids in [cluster.options] (docs/sagemaker.md)."),
        )
    return tuple(_groups(network, asked, clients) for network in asked.networks)


def shut(groups_found: Iterable[Mapping[str, Any]], efa: bool) -> list[str]:
    """The ways ("ingress", "egress") by which machines that bear all these groups cannot reach each other. Pure.

    EFA's traffic bears no addresses that a CIDR rule could match, so the rule has to name the group (EC2, "Get started with
    EFA", step 1); it has to allow all protocols.
    """
    found = list(groups_found)
    names = {one["GroupId"] for one in found}
    return [
        way
        for way, key in WAYS.items()
        if not any(_opens(rule, names, efa) for one in found for rule in one.get(key, ()))
    ]


def _groups(network: Network, asked: Asked, clients: Clients) -> Line:
    try:
        found = ask(clients.ec2, "describe_security_groups", GroupIds=list(network.groups))["SecurityGroups"]
    except Unseen as error:
        if error.code in ("InvalidGroup.NotFound", "InvalidGroupId.Malformed", "InvalidGroup.Malformed"):
            return wrong(WHAT, error.said, "Correct security_group_ids in the gate file.")
        return error.line(WHAT)
    strange = _strange(network, found, clients)
    if strange:
        return wrong(WHAT, strange, "Name security groups of the subnets' own VPC.")
    if asked.nodes == 1:
        return ok(WHAT, f"{', '.join(network.groups)}: one machine, which talks to no other")
    closed = shut(found, asked.efa)
    if not closed:
        what = "all traffic" if asked.efa else "the machines' traffic"
        return ok(WHAT, f"{', '.join(network.groups)}: {what} to and from itself is allowed")
    name = network.groups[0]
    why = (
        "EFA needs all protocols, to and from the group itself"
        if asked.efa
        else "the machines must reach each other"
    )
    said = f"{name} does not allow {' and '.join(closed)} of itself; {why}"
    return wrong(WHAT, said, " && ".join(_opening(way, name, asked.region) for way in closed))


def _strange(network: Network, found: list[Mapping[str, Any]], clients: Clients) -> str:
    """Groups and subnets of different VPCs; "" where they are of one, or where the subnets' own line says what is wrong."""
    try:
        vpcs = {one["VpcId"] for one in described(network, clients)}
    except Unseen:
        return ""
    other = [one for one in found if vpcs and one.get("VpcId") not in vpcs]
    return (
        f"{other[0]['GroupId']} is of {other[0].get('VpcId')}, the subnets of {', '.join(vpcs)}"
        if other
        else ""
    )


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
