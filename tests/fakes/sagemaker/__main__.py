"""`python -m tests.fakes.sagemaker FD`: SIMULATED SageMaker training control planes, with moto behind them.

It imports what they need, and becomes one in a child for each request on that socket (bench.py): half of a short test's time was these
imports. A child prints one JSON line with its URL, and runs until its standard input ends; then every container dies. A request names
a config file, which is JSON with the keys of `Config`.
"""

from __future__ import annotations

import importlib
import json
import logging
import os
import socket
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.fakes.forks import fork_each
from tests.fakes.sagemaker import account, images, machines
from tests.fakes.sagemaker.dials import Dials
from tests.fakes.sagemaker.front import Front
from tests.fakes.sagemaker.logs import Logs
from tests.fakes.sagemaker.network import CREDENTIALS, SERVER, Loopback, Namespaces
from tests.fakes.sagemaker.plane import Plane
from tests.fakes.sagemaker.storage import Storage


@dataclass(frozen=True)
class Config:
    """`machines`: type -> how many, or a list of machines. `network`: "loopback", or "namespaces" (root)."""

    folder: str
    machines: dict[str, Any]
    images: dict[str, dict[str, Any]] = field(default_factory=dict)
    dials: dict[str, Any] = field(default_factory=dict)
    network: str = "loopback"
    region: str = "us-west-2"
    bucket: str = ""


def _import_all() -> None:
    """What a stand-in imports when it is first asked for it, except what few tests ask for."""
    for name in ("server", "s3.urls", "logs.urls", "iam.urls", "ecr.urls"):
        importlib.import_module(f"moto.{name}")
    for service in ("s3", "logs", "iam", "ecr"):
        _client(service, "http://127.0.0.1:9", "us-east-1")


def _become(asked: Mapping[str, Any], descriptors: Sequence[int]) -> int:
    """In a child: the descriptors are its standard ones, and it ends with its standard input."""
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
        os.close(descriptor)
    return serve(Path(asked["config"]))


def serve(path: Path) -> int:
    """Be the account of this config file. 0 after an orderly end."""
    config = Config(**json.loads(path.read_text()))
    plane, front = build(config)
    _serve(front)
    print(json.dumps({"url": plane.endpoint if config.network == "loopback" else _local(front)}), flush=True)
    sys.stdin.buffer.read()
    plane.close()
    return 0


def build(config: Config) -> tuple[Plane, Front]:
    """Everything but the threads that serve."""
    behind = _moto()
    s3, logs = (_client(name, behind, config.region) for name in ("s3", "logs"))
    fleet = [m for kind, given in config.machines.items() for m in machines.make(kind, given)]
    table, turned = images.images(config.images), Dials(**config.dials)
    plane = Plane(config.region, Path(config.folder), fleet, table, turned, Storage(s3), Logs(logs))
    front = Front(plane, behind)
    plane.endpoint = plane.credentials = _local(front)
    plane.network = Loopback(front.server_port)
    if config.network == "namespaces":
        inside: list[Front] = []
        plane.network = Namespaces(lambda: inside.append(Front(plane, behind, front.server_port, "0.0.0.0")))
        inside[0].faults = front.faults  # one service, two listeners
        _serve(inside[0])
        plane.endpoint = f"http://{SERVER}:{front.server_port}"
        plane.credentials = f"http://{CREDENTIALS}:{front.server_port}"
    if config.bucket:
        # S3 takes every region's name for a location but that of its first one.
        place = {"CreateBucketConfiguration": {"LocationConstraint": config.region}}
        s3.create_bucket(Bucket=config.bucket, **({} if config.region == "us-east-1" else place))
    account.furnish(_client("iam", behind, config.region), _client("ecr", behind, config.region), table)
    return plane, front


def _serve(front: Front) -> None:
    """In a thread that begins where this one is: in the machine's own network, where moto is."""
    threading.Thread(target=front.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True).start()


def _local(front: Front) -> str:
    return f"http://127.0.0.1:{front.server_port}"


def _moto() -> str:
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    return f"http://{host}:{port}"


def _client(service: str, endpoint: str, region: str) -> Any:
    import boto3

    given = {"aws_access_key_id": "stand-in", "aws_secret_access_key": "stand-in", "region_name": region}
    return boto3.client(service, endpoint_url=endpoint, **given)


if __name__ == "__main__":
    _import_all()
    ended = fork_each(socket.socket(fileno=int(sys.argv[1])), _become)
    sys.stdout.flush()
    os._exit(ended)  # moto's threads and the jobs' would be waited for
