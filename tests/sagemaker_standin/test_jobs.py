"""A job's life: what its containers find, how it ends, what it leaves."""

from __future__ import annotations

import io
import json
import tarfile
import time
from pathlib import Path
from typing import Any

from tests.fakes.sagemaker.bench import BUCKET, IMAGE, Cloud

SHELL = ("sh", "-c")
PYTHON = ("python3", "-c")


def test_a_good_job_passes_through_every_status(cloud: Cloud) -> None:
    """Starting, Downloading, Training, Uploading, Completed, each with its times and message."""
    seen = cloud.wait(cloud.create("good", "true"))
    told = seen["SecondaryStatusTransitions"]

    assert ["Starting", "Starting", "Downloading", "Training", "Uploading", "Completed"] == [
        entry["Status"] for entry in told
    ]
    assert all(entry["EndTime"] >= entry["StartTime"] and entry["StatusMessage"] for entry in told[:-1])
    assert ("Completed", 1, 1) == (
        seen["TrainingJobStatus"],
        seen["BillableTimeInSeconds"],
        seen["TrainingTimeInSeconds"],
    )


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
    keys = {row["access_key"][:4] for row in cloud.calls() if row["path"].endswith("/by-container")}

    assert (["container-role False"], b"x", {"ASIA"}) == (
        _log(cloud, name, "algo-1"),
        cloud.read("by-container"),
        keys,
    )


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


def test_without_an_entrypoint_the_image_gets_train(cloud: Cloud) -> None:
    """Ours is the agent, which finds no bundle and says so."""
    seen = cloud.wait(cloud.create("default-entrypoint"))

    assert ("Failed", True) == (seen["TrainingJobStatus"], "bundle" in seen["FailureReason"])


def test_outputs_of_all_hosts_are_in_one_archive(cloud: Cloud) -> None:
    """output/data and model, each an archive below <S3OutputPath>/<job>/output/."""
    code = "echo $(hostname) >/opt/ml/output/data/$(hostname).txt; echo w >/opt/ml/model/weights"
    name = cloud.create("archived", *SHELL, code, instances=2)
    seen = cloud.wait(name)

    assert {"algo-1.txt": b"algo-1\n", "algo-2.txt": b"algo-2\n"} == _members(
        cloud, f"out/{name}/output/output.tar.gz"
    )
    assert f"s3://{BUCKET}/out/{name}/output/model.tar.gz" == seen["ModelArtifacts"]["S3ModelArtifacts"]


def test_uncompressed_output_is_objects(cloud: Cloud) -> None:
    """CompressionType NONE."""
    output = {"S3OutputPath": f"s3://{BUCKET}/plain", "CompressionType": "NONE"}
    name = cloud.create("plain", *SHELL, "echo 1 >/opt/ml/output/data/a", OutputDataConfig=output)
    cloud.wait(name)

    assert [f"plain/{name}/output/output/a"] == cloud.keys("plain/")


def test_failure_is_the_files_words_and_the_code(cloud: Cloud) -> None:
    """At most 1024 characters; what was written is uploaded all the same."""
    code = "printf %02000d 7 >/opt/ml/output/failure; echo 1 >/opt/ml/output/data/a; exit 7"
    name = cloud.create("failing", *SHELL, code)
    reason = cloud.wait(name)["FailureReason"]

    assert (1024, "AlgorithmError: 000", ", exit code: 7") == (len(reason), reason[:19], reason[-14:])
    assert {"a": b"1\n"} == _members(cloud, f"out/{name}/output/output.tar.gz")


def test_one_host_that_fails_ends_the_others(cloud: Cloud) -> None:
    """By SIGTERM, which they may heed."""
    code = "[ $(hostname) = algo-1 ] && sleep 0.3 && exit 3; trap 'echo told; exit 0' TERM; while :; do sleep 0.05; done"
    name = cloud.create("one-fails", *SHELL, code, instances=2)
    seen = cloud.wait(name)

    assert ("AlgorithmError: , exit code: 3", ["told"]) == (
        seen["FailureReason"],
        _log(cloud, name, "algo-2"),
    )


def test_stopping_is_sigterm_then_sigkill(cloud: Cloud) -> None:
    """The grace is 120 s on AWS, one here; who does not heed it is killed, and the job is Stopped."""
    code = "trap 'echo told' TERM; echo up; while :; do sleep 0.05; done"
    name = cloud.create("stopped", *SHELL, code)
    _until_said(cloud, name, "up")
    cloud.client("sagemaker").stop_training_job(TrainingJobName=name)
    at_once = cloud.jobs()[name]["TrainingJobStatus"]
    seen = cloud.wait(name)

    assert ("Stopping", "Stopped", "Stopped", ["up", "told"]) == (
        at_once,
        seen["TrainingJobStatus"],
        seen["SecondaryStatus"],
        _log(cloud, name, "algo-1"),
    )
    assert 137 == cloud.hosts(name)[0]["exit_code"]


def test_the_time_limit_stops_and_does_not_fail(cloud: Cloud) -> None:
    """Status Stopped, secondary status MaxRuntimeExceeded."""
    seen = cloud.wait(cloud.create("too-long", "sleep", "60", StoppingCondition={"MaxRuntimeInSeconds": 1}))

    assert ("Stopped", "MaxRuntimeExceeded", None) == (
        seen["TrainingJobStatus"],
        seen["SecondaryStatus"],
        seen.get("FailureReason"),
    )


def test_an_image_that_is_not_there(cloud: Cloud) -> None:
    """A ClientError after the job was taken, not a refusal."""
    uri = "999999999999.dkr.ecr.us-west-2.amazonaws.com/other:1"
    algorithm = {"TrainingImage": uri, "TrainingInputMode": "File"}
    seen = cloud.wait(cloud.create("imageless", AlgorithmSpecification=algorithm))

    assert (
        "ClientError: Cannot find repository: other in registry ID: 999999999999"
        == seen["FailureReason"][:71]
    )


def test_input_that_is_not_there(cloud: Cloud) -> None:
    """SageMaker's own ClientError."""
    source = {"S3DataType": "S3Prefix", "S3Uri": f"s3://{BUCKET}/nowhere/"}
    channel = {"ChannelName": "data", "DataSource": {"S3DataSource": source}}
    seen = cloud.wait(cloud.create("inputless", "true", InputDataConfig=[channel]))

    assert f'ClientError: No S3 objects found under S3 URL "{source["S3Uri"]}"' in seen["FailureReason"]


def test_a_host_that_dies_leaves_nothing(cloud: Cloud) -> None:
    """Its output is gone with it, its peers' is there."""
    code = "echo 1 >/opt/ml/output/data/$(hostname); echo up; sleep 60"
    name = cloud.create("dying", *SHELL, code, instances=2)
    _until_said(cloud, name, "up", "up")
    cloud.kill(name, "algo-2")
    seen = cloud.wait(name)

    assert "AlgorithmError: , exit code: 137" == seen["FailureReason"]
    assert {"algo-1": b"1\n"} == _members(cloud, f"out/{name}/output/output.tar.gz")


def test_a_machine_may_die_at_a_line_of_its_log(cloud: Cloud) -> None:
    """So that a test can choose the moment, without a clock."""
    machine = next(m for m in cloud.machines() if m["type"] == "ml.m5.xlarge")
    cloud.machine(machine["id"], fault={"dies_at_line": "^now"})
    try:
        seen = cloud.wait(cloud.create("timed", *SHELL, "echo now; sleep 60", type="ml.m5.xlarge"))
    finally:
        cloud.machine(machine["id"], fault={})

    assert "AlgorithmError: , exit code: 137" == seen["FailureReason"]


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


def test_groups_of_several_types_are_one_cluster(cloud: Cloud) -> None:
    """Hosts are numbered over the groups, and each knows its own."""
    groups = [
        {"InstanceType": "ml.m5.large", "InstanceCount": 1, "InstanceGroupName": "small"},
        {"InstanceType": "ml.m5.xlarge", "InstanceCount": 1, "InstanceGroupName": "big"},
    ]
    resources = {"InstanceGroups": groups, "VolumeSizeInGB": 10}
    name = cloud.create("mixed", "cat", "/opt/ml/input/config/resourceconfig.json", ResourceConfig=resources)
    cloud.wait(name)
    found = json.loads(_log(cloud, name, "algo-2")[0])

    assert ("big", "ml.m5.xlarge", ["algo-1", "algo-2"]) == (
        found["current_group_name"],
        found["current_instance_type"],
        found["hosts"],
    )


def test_an_ultraserver_pins(tmp_path: Path, cloud: Cloud) -> None:
    """Machines of that server, and no others."""
    last = [m["id"] for m in cloud.machines() if m["type"] == "ml.m5.xlarge"][-1]
    cloud.machine(last, ultraserver="us-1")
    placed = {"PlacementSpecifications": [{"UltraServerId": "us-1", "InstanceCount": 1}]}
    resources = {"InstanceType": "ml.m5.xlarge", "InstanceCount": 1, "VolumeSizeInGB": 10}
    name = cloud.create("pinned", "true", ResourceConfig=resources | {"InstancePlacementConfig": placed})
    cloud.wait(name)

    assert [last] == [host["machine"] for host in cloud.hosts(name)]


def test_the_first_type_with_capacity_is_taken(cloud: Cloud) -> None:
    """InstancePreferences, in their order; the answer is in SelectedInstanceType."""
    preferences = [{"InstanceType": "ml.p4d.24xlarge"}, {"InstanceType": "ml.m5.large"}]
    resources = {"InstancePreferences": preferences, "InstanceCount": 1, "VolumeSizeInGB": 10}
    seen = cloud.wait(cloud.create("preferring", "true", ResourceConfig=resources))

    assert ("Completed", "ml.m5.large") == (
        seen["TrainingJobStatus"],
        seen["ResourceConfig"]["SelectedInstanceType"],
    )


def test_checkpoints_come_back(cloud: Cloud) -> None:
    """What one job left at the prefix is there when another starts."""
    given = {"CheckpointConfig": {"S3Uri": f"s3://{BUCKET}/checkpoints/one"}}
    cloud.wait(cloud.create("kept", *SHELL, "echo 7 >/opt/ml/checkpoints/step", **given))
    name = cloud.create("resumed", "cat", "/opt/ml/checkpoints/step", **given)
    cloud.wait(name)

    assert ["7"] == _log(cloud, name, "algo-1")


def test_jobs_run_side_by_side(cloud: Cloud, tmp_path: Path) -> None:
    """Several clients, several jobs, no shared machine, no shared address. Each host waits until all six run."""
    together = f"mktemp -p {tmp_path}; until [ $(ls {tmp_path} | wc -l) = 6 ]; do sleep 0.1; done"
    names = [cloud.create(f"beside-{i}", *SHELL, together, instances=2) for i in range(3)]
    hosts = [host for name in names if cloud.wait(name) for host in cloud.hosts(name)]

    assert (6, 6) == (len({host["machine"] for host in hosts}), len({host["address"] for host in hosts}))


def test_images_are_a_table(cloud: Cloud) -> None:
    """The bench's own is this repository's."""
    assert IMAGE.startswith("123456789012.dkr.ecr.us-west-2.amazonaws.com/prelaunch")


def _log(cloud: Cloud, job: str, host: str) -> list[str]:
    return next(lines for stream, lines in cloud.log(job).items() if f"/{host}-" in stream)


def _members(cloud: Cloud, key: str) -> dict[str, bytes]:
    with tarfile.open(fileobj=io.BytesIO(cloud.read(key))) as archive:
        found = {member.name: archive.extractfile(member) for member in archive.getmembers()}
        return {name: file.read() for name, file in found.items() if file}


def _until_said(cloud: Cloud, job: str, *words: str) -> None:
    deadline = time.monotonic() + 60
    while sorted(line for lines in cloud.log(job).values() for line in lines) != sorted(words):
        assert time.monotonic() < deadline, cloud.log(job)
        time.sleep(0.05)


def _file(cloud: Cloud, name: str, text: str) -> Path:
    path = cloud.folder / name
    path.write_text(text)
    return path
