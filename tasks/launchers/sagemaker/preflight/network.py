"""Preflight of the network: whether the subnets exist, are large enough and lead to S3, and what the security groups allow.

The security groups must let the machines of a job talk to each other, over EFA as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tasks.launchers.base import PreflightCheck
from tasks.launchers.preflight import ok, unseen, wrong
from tasks.launchers.sagemaker.api import Clients
from tasks.launchers.sagemaker.preflight.requirements import Requirements

SUBNETS, WAY, GROUPS = "subnets", "route to S3", "security groups"
# AWS, "Give SageMaker AI Training Jobs Access to Resources in Your Amazon VPC": private addresses an instance.
ADDRESSES, ADDRESSES_EFA = 2, 5
# What a private subnet's default route may lead to. An internet gateway is none: the interfaces that SageMaker makes
# have no public address.
WAYS_OUT = (
    "NatGatewayId", "TransitGatewayId", "InstanceId", "NetworkInterfaceId", "VpcPeeringConnectionId",
    "LocalGatewayId", "CarrierGatewayId", "CoreNetworkArn",
)  # fmt: skip
ALL = "-1"
WAYS = {"ingress": "IpPermissions", "egress": "IpPermissionsEgress"}
Rows = Sequence[Mapping[str, Any]]


def _described(asked: Requirements, clients: Clients) -> Rows:
    """The subnets as EC2 has them. Raises Refused, LaunchError."""
    found: Rows = clients.request("ec2", "describe_subnets", SubnetIds=list(asked.options.subnets))["Subnets"]
    return found


def subnets(asked: Requirements, clients: Clients) -> tuple[PreflightCheck, ...]:
    """One subnet holds all machines, for SageMaker puts a job into one (observed)."""
    free = {one["SubnetId"]: int(one["AvailableIpAddressCount"]) for one in _described(asked, clients)}
    each = ADDRESSES_EFA if asked.efa else ADDRESSES
    needed = asked.nodes * each
    shown = ", ".join(f"{name}: {count} free" for name, count in free.items())
    if max(free.values()) < needed:
        said = f"{asked.nodes} machines want {needed} addresses ({each} each) in one subnet: {shown}"
        return (wrong(SUBNETS, said, "Name a larger subnet, or free addresses."),)
    return (ok(SUBNETS, f"{shown}; {needed} wanted"),)


def ways(asked: Requirements, clients: Clients) -> tuple[PreflightCheck, ...]:
    """Each subnet reaches S3 by an endpoint or by a route out: without one no channel is read and no report written."""
    found = _described(asked, clients)
    named = [{"Name": "vpc-id", "Values": [found[0]["VpcId"]]}]
    endpoints = _endpoints(named, asked.region, clients)
    if any(one["VpcEndpointType"] == "Interface" for one in endpoints):
        return (
            unseen(
                WAY, "there is an interface endpoint for S3; whether its groups let the job in is not seen"
            ),
        )
    tables = clients.request("ec2", "describe_route_tables", Filters=named)["RouteTables"]
    gateways = {table for one in endpoints for table in one.get("RouteTableIds", ())}
    return tuple(_way(one, _table_of(one["SubnetId"], tables), gateways, asked.region) for one in found)


def _way(
    subnet: Mapping[str, Any], table: Mapping[str, Any] | None, gateways: set[str], region: str
) -> PreflightCheck:
    name = subnet["SubnetId"]
    if table is None:
        return unseen(WAY, f"{name}: EC2 shows no route table of it")
    outs = [
        key for route in table.get("Routes", ()) if _is_default(route) for key in WAYS_OUT if route.get(key)
    ]
    if table["RouteTableId"] in gateways or outs:
        return ok(WAY, f"{name}: a gateway endpoint or a route out")
    make = (
        f"aws ec2 create-vpc-endpoint --region {region} --vpc-id {subnet['VpcId']} --vpc-endpoint-type Gateway "
        f"--service-name com.amazonaws.{region}.s3 --route-table-ids {table['RouteTableId']}"
    )
    return wrong(WAY, f"{name} has neither an endpoint for S3 nor a route out", make)


def _endpoints(named: Rows, region: str, clients: Clients) -> Rows:
    services = [f"{start}com.amazonaws.{region}.s3" for start in ("", "cn.")]
    filters = [*named, {"Name": "service-name", "Values": services}]
    answer = clients.request("ec2", "describe_vpc_endpoints", Filters=filters)
    return [one for one in answer["VpcEndpoints"] if str(one.get("State", "")).lower() == "available"]


def _table_of(subnet: str, tables: Rows) -> Mapping[str, Any] | None:
    """The subnet's own route table, or else the VPC's main one (Amazon VPC, "Subnet route tables")."""
    pairs = [(link, table) for table in tables for link in table.get("Associations", ())]
    own = (table for link, table in pairs if link.get("SubnetId") == subnet)
    return next(own, next((table for link, table in pairs if link.get("Main")), None))


def _is_default(route: Mapping[str, Any]) -> bool:
    return route.get("DestinationCidrBlock") == "0.0.0.0/0" and route.get("State", "active") == "active"


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
