"""What a container of the stand-in finds, and what it may not: as in a container of SageMaker's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.fakes.sagemaker.bench import BUCKET, Cloud

SHELL = ("sh", "-c")
PYTHON = ("python3", "-c")


def test_containers_find_their_configuration(cloud: Cloud) -> None:
    """resourceconfig.json with every field, hyperparameters.json, inputdataconfig.json, the channel's files."""
    cloud.put("in/some/a.txt", b"one")
    cloud.put("in/some/deep/b.txt", b"two")
    channel = {"ChannelName": "data", "DataSource": {"S3DataSource": {"S3DataType": "S3Prefix"}}}
    channel["DataSource"]["S3DataSource"]["S3Uri"] = f"s3://{BUCKET}/in/some/"  # type: ignore[index]
    given: dict[str, Any] = {"InputDataConfig": [channel], "HyperParameters": {"level": "2"}}
    words = (*SHELL, "cd /opt/ml/input; cat config/*.json; cat data/data/a.txt data/data/deep/b.txt")
    name = cloud.create("configured", *words, instances=2, **given)
    cloud.wait(name)
    text = "".join(_log(cloud, name, "algo-2"))

    resources = text[text.index('{"current_host"') : text.rindex("}") + 1]
    assert text.endswith("onetwo")
    assert '{"level": "2"}' in text
    assert '{"data": {"TrainingInputMode": "File"' in text
    assert {
        "current_host": "algo-2",
        "current_instance_type": "ml.m5.large",
        "current_group_name": "homogeneousCluster",
        "hosts": ["algo-1", "algo-2"],
        "instance_groups": [
            {
                "instance_group_name": "homogeneousCluster",
                "instance_type": "ml.m5.large",
                "hosts": ["algo-1", "algo-2"],
            }
        ],
        "network_interface_name": "lo",
        "topology": None,
    } == json.loads(resources)


def test_a_container_is_process_1_with_names_of_its_own(cloud: Cloud) -> None:
    """Its own host name, process numbers, /opt/ml, and an address that its peers resolve."""
    words = (*SHELL, "hostname; echo $$; ls /opt/ml | tr '\\n' ' '; echo; getent hosts algo-1 algo-2")
    name = cloud.create("contained", *words, instances=2)
    cloud.wait(name)
    said = _log(cloud, name, "algo-2")
    addresses = [host["address"] for host in cloud.hosts(name)]

    assert ["algo-2", "1", "checkpoints code input model output sagemaker "] == said[:3]
    assert (addresses, 2) == ([line.split()[0] for line in said[3:]], len(set(addresses)))


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


def test_credentials_are_temporary_and_the_roles(cloud: Cloud) -> None:
    """boto3 finds them by itself, as on AWS; none is in the environment."""
    code = (
        "import boto3, os; s = boto3.Session(); print(s.get_credentials().method, 'AWS_SECRET_ACCESS_KEY' in os.environ);"
        f"s.client('s3').put_object(Bucket='{BUCKET}', Key='by-container', Body=b'x')"
    )
    name = cloud.create("credited", *PYTHON, code)
    cloud.wait(name)

    assert (["container-role False"], b"x") == (_log(cloud, name, "algo-1"), cloud.read("by-container"))


def test_the_environment_is_the_requests_and_sagemakers(cloud: Cloud) -> None:
    """And nothing of the machine that the stand-in runs on."""
    name = cloud.create("surrounded", "env", Environment={"MINE": "yes"})
    cloud.wait(name)
    found = dict(line.split("=", 1) for line in _log(cloud, name, "algo-1"))

    arn = f"arn:aws:sagemaker:us-west-2:123456789012:training-job/{name}"
    assert ("yes", name, arn, "us-west-2") == tuple(
        found[k] for k in ("MINE", "TRAINING_JOB_NAME", "TRAINING_JOB_ARN", "AWS_REGION")
    )
    assert not {"VIRTUAL_ENV", "USER", "SHELL", "AWS_ACCESS_KEY_ID"} & set(found)


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
