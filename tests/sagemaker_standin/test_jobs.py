"""What a container of the stand-in finds, and what it may not: as in a container of SageMaker's."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.fakes.sagemaker.bench import Cloud, stand_in

SHELL = ("sh", "-c")
PYTHON = ("python3", "-c")


def test_a_container_has_an_unprivileged_containers_rights(cloud: Cloud) -> None:
    """No kernel log, no host's log, nothing under /sys or /proc/sys written, Docker's default capabilities, 64 MiB of /dev/shm."""
    asked = (
        "ls -d /dev/kmsg /dev/mem /var/log/* /run/log/* 2>/dev/null",
        "for p in /sys/made /proc/sys/kernel/hostname /sys/fs/cgroup/made; do echo x 2>/dev/null >$p && echo $p written; done",
        "grep -E 'CapEff|CapBnd' /proc/self/status | tr -s '\\t' ' '",
        "df -m --output=size /dev/shm | tail -1 | tr -d ' '",
        "echo $(ls /dev)",
    )
    name = cloud.create("unprivileged", *SHELL, 'for line; do sh -c "$line"; done', "sh", *asked)
    cloud.wait(name)

    assert [
        "CapEff: 00000000a80425fb",
        "CapBnd: 00000000a80425fb",
        "64",
        "fd full null ptmx pts random shm stderr stdin stdout tty urandom zero",
    ] == _log(cloud, name, "algo-1")


def test_the_machine_is_what_identifies_it(cloud: Cloud) -> None:
    """Boot id, GPUs and driver are the simulated machine's, and the same in every job there."""
    words = (
        *PYTHON,
        "from checks.probes.host.system import identity_of_node; import json; print(json.dumps(identity_of_node()))",
    )
    name = cloud.create("identified", *words, type="ml.g5.12xlarge", instances=2)
    cloud.wait(name)
    found = [json.loads(_log(cloud, name, host)[0]) for host in ("algo-1", "algo-2")]
    machines = [machine for machine in cloud.machines() if machine["type"] == "ml.g5.12xlarge"]

    assert [(m["boot_id"], ",".join(sorted(m["gpus"])), m["driver"]) for m in machines] == [
        (f["boot_id"], f["gpu_uuids"], f["driver"]) for f in found
    ]
    assert 8 == len({uuid for machine in machines for uuid in machine["gpus"]})


@pytest.mark.root
def test_isolated_containers_reach_their_peers_alone(cloud: Cloud) -> None:
    """No credentials, no way to AWS; the hosts of the job still talk to each other."""
    port = int(cloud.url.rpartition(":")[2])
    code = (
        "import os, socket, time; print(any('CREDENTIALS' in k for k in os.environ))\n"
        f"print(socket.socket().connect_ex(('127.0.0.1', {port})) == 0)\n"
        "me = os.uname().nodename\n"
        "if me == 'algo-1': print(socket.create_server((me, 999)).accept()[0].recv(9))\n"
        "else: time.sleep(.3); socket.create_connection(('algo-1', 999)).send(b'hello')\n"
    )
    words = ("python3", str(_file(cloud, "isolated.py", code)))
    name = cloud.create("isolated", *words, instances=2, EnableNetworkIsolation=True)
    cloud.wait(name)

    assert ["False", "False", "b'hello'"] == _log(cloud, name, "algo-1")


def _log(cloud: Cloud, job: str, host: str) -> list[str]:
    return next(lines for stream, lines in cloud.log(job).items() if f"/{host}-" in stream)


def _file(cloud: Cloud, name: str, text: str) -> Path:
    path = cloud.folder / name
    path.write_text(text)
    return path


@pytest.mark.root
@pytest.mark.needs("ip")
def test_hosts_may_have_networks_of_their_own(tmp_path: Path) -> None:
    """One address each on eth0, AWS within reach, and nothing of it is on this machine."""
    code = (
        "import boto3, socket; print(socket.gethostbyname(socket.gethostname()), [n for _, n in socket.if_nameindex()]);"
        "boto3.client('s3').list_objects_v2(Bucket='prelaunch-test'); print('reached')"
    )
    before = os.listdir("/sys/class/net")
    with stand_in(tmp_path, {"ml.m5.large": 2}, network="namespaces") as cloud:
        cloud.create("job", "python3", "-c", code, instances=2)
        cloud.wait("job")
        addresses = [host["address"] for host in cloud.hosts("job")]
        said = [line for lines in cloud.log("job").values() for line in lines]
        beside = os.listdir("/sys/class/net")

    assert [f"{address} ['lo', 'eth0']" for address in addresses] == sorted(said)[:2]
    assert (2, ["reached"] * 2, before) == (len(set(addresses)), sorted(said)[2:], beside)
