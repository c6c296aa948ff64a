"""Whether the subnets are there, are large enough, and lead to S3."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tasks.launchers.base import Line
from tasks.launchers.sagemaker.preflight.asked import Asked, Network
from tasks.launchers.sagemaker.preflight.looking import Clients, Unseen, ask, ok, unseen, wrong

SUBNETS, WAY = "subnets", "way to S3"
# AWS, "Give SageMaker AI Training Jobs Access to Resources in Your Amazon VPC": private addresses an instance.
ADDRESSES, ADDRESSES_EFA = 2, 5
# What a private subnet's default route may lead to. An internet gateway is none: the interfaces that SageMaker makes
# have no public address.
WAYS_OUT = (
    "NatGatewayId", "TransitGatewayId", "InstanceId", "NetworkInterfaceId", "VpcPeeringConnectionId",
    "LocalGatewayId", "CarrierGatewayId", "CoreNetworkArn",
)  # fmt: skip


def subnets(asked: Asked, clients: Clients) -> tuple[Line, ...]:
    """A line for each VpcConfig: one subnet holds all machines, for SageMaker puts a job into one (observed)."""
    return tuple(_subnets(network, asked.efa, clients) for network in asked.networks)


def ways(asked: Asked, clients: Clients) -> tuple[Line, ...]:
    """Each subnet reaches S3 by an endpoint or by a route out: without one no channel is read and no report written."""
    return tuple(line for network in asked.networks for line in _ways(network, asked.region, clients))


def described(network: Network, clients: Clients) -> list[Mapping[str, Any]]:
    """The subnets as EC2 has them. Raises Unseen."""
    answer = ask(clients.ec2, "describe_subnets", SubnetIds=list(network.subnets))
    return list(answer["Subnets"])


def _subnets(network: Network, efa: bool, clients: Clients) -> Line:
    try:
        found = described(network, clients)
    except Unseen as error:
        if error.code in ("InvalidSubnetID.NotFound", "InvalidSubnetID.Malformed"):
            return wrong(SUBNETS, error.said, "Correct subnets in the gate file.")
        return error.line(SUBNETS)
    vpcs = sorted({one["VpcId"] for one in found})
    if len(vpcs) > 1:
        return wrong(SUBNETS, f"they are of {len(vpcs)} VPCs: {', '.join(vpcs)}", "Name subnets of one VPC.")
    needed = network.nodes * (ADDRESSES_EFA if efa else ADDRESSES)
    shown = ", ".join(f"{one['SubnetId']} in {one['AvailabilityZone']}: {_free(one)} free" for one in found)
    if max(map(_free, found)) < needed:
        each = ADDRESSES_EFA if efa else ADDRESSES
        said = f"{network.nodes} machines want {needed} addresses ({each} each) in one subnet: {shown}"
        return wrong(SUBNETS, said, "Name a larger subnet, or free addresses.")
    return ok(SUBNETS, f"{vpcs[0]}: {shown}; {needed} wanted")


def _ways(network: Network, region: str, clients: Clients) -> Iterable[Line]:
    found = described(network, clients)
    vpc = found[0]["VpcId"]
    endpoints = _endpoints(vpc, region, clients)
    if any(one["VpcEndpointType"] == "Interface" for one in endpoints):
        return [
            unseen(
                WAY, f"{vpc} has an interface endpoint for S3; whether its groups let the job in is not seen"
            )
        ]
    tables = _tables(vpc, clients)
    gateways = {table for one in endpoints for table in one.get("RouteTableIds", ())}
    return [_way(one, _table_of(one["SubnetId"], tables), gateways, region) for one in found]


def _way(subnet: Mapping[str, Any], table: Mapping[str, Any] | None, gateways: set[str], region: str) -> Line:
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
    answer = ask(
        clients.ec2,
        "describe_vpc_endpoints",
        Filters=[
            {"Name": "vpc-id", "Values": [vpc]},
            {
                "Name": "service-name",
                "Values": [f"com.amazonaws.{region}.s3", f"cn.com.amazonaws.{region}.s3"],
            },
        ],
    )
    return [one for one in answer["VpcEndpoints"] if str(one.get("State", "")).lower() == "available"]


def _tables(vpc: str, clients: Clients) -> list[Mapping[str, Any]]:
    answer = ask(clients.ec2, "describe_route_tables", Filters=[{"Name": "vpc-id", "Values": [vpc]}])
    return list(answer["RouteTables"])


def _table_of(subnet: str, tables: list[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """Its own, or else the VPC's main one (Amazon VPC, "Subnet route tables")."""
    pairs = [(link, table) for table in tables for link in table.get("Associations", ())]
    own = (table for link, table in pairs if link.get("SubnetId") == subnet)
    return next(own, next((table for link, table in pairs if link.get("Main")), None))


def _is_default(route: Mapping[str, Any]) -> bool:
    return route.get("DestinationCidrBlock") == "0.0.0.0/0" and route.get("State", "active") == "active"


def _out(route: Mapping[str, Any]) -> str:
    return next((str(route[key]) for key in WAYS_OUT if route.get(key)), "")


def _free(subnet: Mapping[str, Any]) -> int:
    return int(subnet["AvailableIpAddressCount"])
