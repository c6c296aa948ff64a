"""A shipped gate file through the whole flow: gate, launcher, the stand-in of SageMaker, agents, runners, judge, training."""

from __future__ import annotations

import json
import os
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tasks import provision
from tests.fakes.sagemaker.bench import Cloud, stand_in
from tests.fakes.sagemaker.images import SYSTEM
from tests.worlds import machine
from tests.worlds.machine import ROOT

GATES = ROOT / "deployments" / "gates"
REGION, BUCKET = "us-east-1", "prelaunch-123456789012"
REGISTRY = "123456789012.dkr.ecr.us-east-1.amazonaws.com"
# Every rank of the training says so once; only the first line of a rank counts.
TRAIN = "import os\nprint('trained rank', os.environ.get('RANK', '0'))\n"


@dataclass(frozen=True)
class Shipped:
    """What a shipped gate file declares."""

    name: str
    path: Path
    instance_type: str
    nodes: int
    launcher: str


def shipped() -> tuple[Shipped, ...]:
    """Every shipped gate file but those of containers, which run in real ones (tests/flows/cli/test_gate_container.py)."""
    made = []
    for path in sorted(GATES.glob("*.toml")):
        cluster = tomllib.loads(path.read_text(encoding="utf-8"))["cluster"]
        if cluster["launcher"] == "local" and "container_image" in cluster.get("options", {}):
            continue
        kind, nodes = cluster["declared"]["instance_type"], cluster["declared"]["nodes"]
        made.append(Shipped(path.stem, path, kind, nodes, cluster["launcher"]))
    return tuple(made)


@contextmanager
def account(folder: Path, gate: Shipped, nodes: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cloud]:
    """An AWS account that has the gate file's images, bucket and machines, in which this process is signed in."""
    monkeypatch.setattr(provision, "FIRST_S", 0.2)
    rows = [_row(folder / f"machine-{node}", gate, node, nodes) for node in range(nodes)]
    names = ("prelaunch:latest", "training:latest", "prelaunch-neuron:latest", "training-neuron:latest")
    images: dict[str, Any] = {f"{REGISTRY}/{name}": {"environment": {}} for name in names}
    machines, dials = {f"ml.{gate.instance_type}": rows}, {"grace_s": 3.0}
    with stand_in(folder, machines, images, dials, "namespaces", BUCKET, REGION) as cloud:
        for name in [name for name in os.environ if name.startswith("AWS_")]:
            monkeypatch.delenv(name)
        for name, value in cloud.environment.items():
            monkeypatch.setenv(name, value)
        cloud.put("code/train.py", TRAIN.encode())
        cloud.put("code/large.yaml", b"size: large\n")
        yield cloud
        assert [] == cloud.running()


def _row(folder: Path, gate: Shipped, node: int, nodes: int) -> dict[str, Any]:
    made = machine.make(folder, gate.instance_type, node, nodes)
    path = os.pathsep.join((str(made.folder / "tools"), str(Path(sys.executable).parent), SYSTEM))
    own = {"PATH": path, "PRELAUNCH_STATE": os.environ["PRELAUNCH_STATE"]}
    environment = {**made.environment, **own, "PYTHONPATH": os.pathsep.join((made.search, str(ROOT)))}
    return {**made.row, "environment": environment, "id": f"{gate.name}-{node}"}


def network(cloud: Cloud) -> list[str]:
    """A subnet and a security group as docs/sagemaker.md has them made: all traffic to and from itself. For --set."""
    ec2 = cloud.client("ec2")
    vpc = ec2.create_vpc(CidrBlock="10.79.0.0/16")["Vpc"]["VpcId"]
    subnet = ec2.create_subnet(VpcId=vpc, CidrBlock="10.79.0.0/17")["Subnet"]["SubnetId"]
    group = ec2.create_security_group(GroupName="efa", Description="EFA", VpcId=vpc)["GroupId"]
    itself = [{"IpProtocol": "-1", "UserIdGroupPairs": [{"GroupId": group}]}]
    ec2.authorize_security_group_ingress(GroupId=group, IpPermissions=itself)
    ec2.authorize_security_group_egress(GroupId=group, IpPermissions=itself)
    tables = [table["RouteTableId"] for table in ec2.describe_route_tables()["RouteTables"]]
    service = f"com.amazonaws.{REGION}.s3"
    ec2.create_vpc_endpoint(VpcId=vpc, ServiceName=service, VpcEndpointType="Gateway", RouteTableIds=tables)
    return [
        f"cluster.options.subnets={json.dumps([subnet])}",
        f"cluster.options.security_group_ids={json.dumps([group])}",
    ]


def overrides(gate: Shipped, nodes: int) -> list[str]:
    """What every user writes into the file, and how often the service is asked."""
    return [
        "cluster.options.poll_seconds=0.2",
        *([f"cluster.declared.nodes={nodes}"] if nodes != gate.nodes else []),
    ]
