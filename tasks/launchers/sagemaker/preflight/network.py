"""Preflight of the network: whether the subnets exist, are large enough and lead to S3, and what the security groups allow.

The security groups must let the machines of a job talk to each other, over EFA as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tasks.launchers.base import LaunchError, PreflightCheck
from tasks.launchers.sagemaker.api import Clients
from tasks.launchers.sagemaker.preflight.probe import ok, unseen, wrong
from tasks.launchers.sagemaker.preflight.requirements import Requirements
from tasks.store.aws import Refused

SUBNETS, WAY = "subnets", "route to S3"
# AWS, "Give SageMaker AI Training Jobs Access to Resources in Your Amazon VPC": private addresses an instance.
ADDRESSES, ADDRESSES_EFA = 2, 5
# What a private subnet's default route may lead to. An internet gateway is none: the interfaces that SageMaker makes
# have no public address.
WAYS_OUT = (
    "NatGatewayId", "TransitGatewayId", "InstanceId", "NetworkInterfaceId", "VpcPeeringConnectionId",
    "LocalGatewayId", "CarrierGatewayId", "CoreNetworkArn",
)  # fmt: skip
WHAT = "security groups"
ALL = "-1"
WAYS = {"ingress": "IpPermissions", "egress": "IpPermissionsEgress"}


def described(asked: Requirements, clients: Clients) -> list[Mapping[str, Any]]:
    """The subnets as EC2 has them. Raises Refused, LaunchError."""
    answer = clients.request("ec2", "describe_subnets", SubnetIds=list(asked.options.subnets))
    return list(answer["Subnets"])


def subnets(asked: Requirements, clients: Clients) -> tuple[PreflightCheck, ...]:
    """One subnet holds all machines, for SageMaker puts a job into one (observed)."""
    try:
        found = described(asked, clients)
    except Refused as error:
        if error.code not in ("InvalidSubnetID.NotFound", "InvalidSubnetID.Malformed"):
            raise
        return (wrong(SUBNETS, error.message, "Correct subnets in the gate file."),)
    return (_room(asked, found),)


def _room(asked: Requirements, found: list[Mapping[str, Any]]) -> PreflightCheck:
    vpcs = sorted({one["VpcId"] for one in found})
    if len(vpcs) > 1:
        return wrong(SUBNETS, f"they are of {len(vpcs)} VPCs: {', '.join(vpcs)}", "Name subnets of one VPC.")
    each = ADDRESSES_EFA if asked.efa else ADDRESSES
    needed = asked.nodes * each
    shown = ", ".join(f"{one['SubnetId']} in {one['AvailabilityZone']}: {_free(one)} free" for one in found)
    if max(map(_free, found)) < needed:
        said = f"{asked.nodes} machines want {needed} addresses ({each} each) in one subnet: {shown}"
        return wrong(SUBNETS, said, "Name a larger subnet, or free addresses.")
    return ok(SUBNETS, f"{vpcs[0]}: {shown}; {needed} wanted")


def ways(asked: Requirements, clients: Clients) -> tuple[PreflightCheck, ...]:
    """Each subnet reaches S3 by an endpoint or by a route out: without one no channel is read and no report written."""
    found = described(asked, clients)
    vpc = found[0]["VpcId"]
    endpoints = _endpoints(vpc, asked.region, clients)
    if any(one["VpcEndpointType"] == "Interface" for one in endpoints):
        said = f"{vpc} has an interface endpoint for S3; whether its groups let the job in is not seen"
        return (unseen(WAY, said),)
    tables = clients.request("ec2", "describe_route_tables", Filters=[{"Name": "vpc-id", "Values": [vpc]}])
    gateways = {table for one in endpoints for table in one.get("RouteTableIds", ())}
    return tuple(
        _way(one, _table_of(one["SubnetId"], tables["RouteTables"]), gateways, asked.region) for one in found
    )


def _way(
    subnet: Mapping[str, Any], table: Mapping[str, Any] | None, gateways: set[str], region: str
) -> PreflightCheck:
    name, vpc = subnet["SubnetId"], subnet["VpcId"]
    if table is None:
        return unseen(WAY, f"{name}: EC2 shows no route table of it")
    if table["RouteTableId"] in gateways:
        return ok(WAY, f"{name}: a gateway endpoint")
    outs = [_out(route) for route in table.get("Routes", ()) if _is_default(route)]
    if any(outs):
        return ok(WAY, f"{name}: no endpoint, but a route out by {next(filter(None, outs))}")
    make = (
        f"aws ec2 create-vpc-endpoint --region {region} --vpc-id {vpc} --vpc-endpoint-type Gateway "
        f"--service-name com.amazonaws.{region}.s3 --route-table-ids {table['RouteTableId']}"
    )
    return wrong(WAY, f"{name} has neither an endpoint for S3 nor a route out", make)


def _endpoints(vpc: str, region: str, clients: Clients) -> list[Mapping[str, Any]]:
    services = [f"{start}com.amazonaws.{region}.s3" for start in ("", "cn.")]
    named = [{"Name": "vpc-id", "Values": [vpc]}, {"Name": "service-name", "Values": services}]
    answer = clients.request("ec2", "describe_vpc_endpoints", Filters=named)
    return [one for one in answer["VpcEndpoints"] if str(one.get("State", "")).lower() == "available"]


def _table_of(subnet: str, tables: list[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """The subnet's own route table, or else the VPC's main one (Amazon VPC, "Subnet route tables")."""
    pairs = [(link, table) for table in tables for link in table.get("Associations", ())]
    own = (table for link, table in pairs if link.get("SubnetId") == subnet)
    return next(own, next((table for link, table in pairs if link.get("Main")), None))


def _is_default(route: Mapping[str, Any]) -> bool:
    return route.get("DestinationCidrBlock") == "0.0.0.0/0" and route.get("State", "active") == "active"


def _out(route: Mapping[str, Any]) -> str:
    return next((str(route[key]) for key in WAYS_OUT if route.get(key)), "")


def _free(subnet: Mapping[str, Any]) -> int:
    return int(subnet["AvailableIpAddressCount"])


def groups(asked: Requirements, clients: Clients) -> tuple[PreflightCheck, ...]:
    """Whether they let the machines talk; for EFA there has to be one (SageMaker, "Run training with EFA")."""
    if not asked.options.subnets:
        said = (
            f"{asked.nodes} x {asked.kind} talk over EFA, and no VPC is named whose security group lets them"
        )
        return (
            wrong(WHAT, said, "Set subnets and security_group_ids in [cluster.options] (docs/sagemaker.md)."),
        )
    names = list(asked.options.security_group_ids)
    try:
        found = clients.request("ec2", "describe_security_groups", GroupIds=names)["SecurityGroups"]
    except Refused as error:
        if error.code not in ("InvalidGroup.NotFound", "InvalidGroupId.Malformed", "InvalidGroup.Malformed"):
            raise
        return (wrong(WHAT, error.message, "Correct security_group_ids in the gate file."),)
    if strange := _strange(asked, found, clients):
        return (wrong(WHAT, strange, "Name security groups of the subnets' own VPC."),)
    return (_talk(asked, found, names),)


def _talk(asked: Requirements, found: list[Mapping[str, Any]], names: list[str]) -> PreflightCheck:
    if asked.nodes == 1:
        return ok(WHAT, f"{', '.join(names)}: one machine, which talks to no other")
    closed = shut(found, asked.efa)
    if not closed:
        what = "all traffic" if asked.efa else "the machines' traffic"
        return ok(WHAT, f"{', '.join(names)}: {what} to and from itself is allowed")
    efa, any_traffic = (
        "EFA needs all protocols, to and from the group itself",
        "the machines must reach each other",
    )
    said = f"{names[0]} does not allow {' and '.join(closed)} of itself; {efa if asked.efa else any_traffic}"
    return wrong(WHAT, said, " && ".join(_opening(way, names[0], asked.region) for way in closed))


def shut(groups_found: Iterable[Mapping[str, Any]], efa: bool) -> list[str]:
    """The directions ("ingress", "egress") in which machines with all these groups cannot reach each other. Pure.

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


def _strange(asked: Requirements, found: list[Mapping[str, Any]], clients: Clients) -> str:
    """Groups and subnets of different VPCs; "" if they are of one, or where the subnets' own line says what is wrong."""
    try:
        vpcs = {one["VpcId"] for one in described(asked, clients)}
    except (Refused, LaunchError):
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
