"""Which machines a job ran on, as the API server of the stand-in says it. It is a simulation."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tasks.launchers.kubernetes.job_record import FINAL, record_of
from tests.fakes.kubernetes.cluster import Cluster
from tests.tasks.launchers.contract import SAY, WAIT, until_final
from tests.tasks.launchers.kubernetes.jobs import SECONDS, Make, job, started
from tests.tasks.launchers.kubernetes.planned import host_files

BOTH = ("/etc/machine-id", "/sys/class/dmi/id/product_uuid")


@pytest.fixture
def ids(cluster: Cluster) -> None:
    """Every kubelet reports these."""
    for node in cluster.server.objects["nodes"].values():
        node["status"]["nodeInfo"] |= {"machineID": "mine", "systemUUID": "EC2"}


@pytest.mark.usefixtures("ids")
def test_the_ids_of_a_host_are_known_where_its_pod_can_read_them(
    cluster: Cluster, make: Make, tmp_path: Path
) -> None:
    """The boot id always. A container has the machine id of its image, unless the host's file is mounted over it."""
    spec = job(tmp_path, WAIT)
    started(make(), spec)
    seen = {}
    for mounted in (BOTH, BOTH[:1], ()):
        launcher = make(pod_template_file=str(host_files(tmp_path / f"{len(mounted)}.yaml", mounted)))
        seen[mounted] = launcher.state(spec.name).machines["node-1"]
    cluster.server.denied.add(("get", "nodes"))
    unseen = make().state(spec.name).machines["node-1"]
    cluster.server.denied.clear()
    make().cancel(spec.name)

    assert unseen.keys() == {"engine_node"}
    assert seen[()] == {**unseen, "engine_boot_id": cluster.boot_id}
    assert seen[BOTH[:1]] == {**seen[()], "engine_machine_id": "mine"}
    assert seen[BOTH] == {**seen[BOTH[:1]], "engine_product_uuid": "EC2"}


def test_a_container_that_is_started_again_may_be_on_another_boot(
    cluster: Cluster, make: Make, tmp_path: Path
) -> None:
    """Its node was rebooted meanwhile, as HyperPod does it: what the kubelet said before would make a healthy node a liar."""
    launcher, spec = make(), job(tmp_path, WAIT, nodes=1)
    started(launcher, spec)
    before = launcher.state(spec.name).machines["node-0"]
    (name,) = cluster.server.names("pods")
    with cluster.server.lock:
        cluster.server.objects["nodes"][before["engine_node"]]["status"]["nodeInfo"]["bootID"] = "another"
    unchanged = launcher.state(spec.name).machines["node-0"]
    with cluster.server.lock:
        cluster.server.objects["pods"][name]["status"]["containerStatuses"][0]["restartCount"] = 1
    after = launcher.state(spec.name).machines["node-0"]
    launcher.cancel(spec.name)

    assert (before["engine_boot_id"], after["engine_boot_id"]) == (cluster.boot_id, "another")
    assert unchanged == before  # asked once per start


@pytest.mark.usefixtures("ids")
def test_the_machines_are_known_after_the_end(cluster: Cluster, make: Make, tmp_path: Path) -> None:
    """Whoever asks then, also where the nodes are gone."""
    launcher = make(pod_template_file=str(host_files(tmp_path / "pod.yaml", BOTH[:1])))
    spec = job(tmp_path, SAY)
    launcher.submit(launcher.plan(spec))
    until_final(launcher, spec.name, SECONDS)
    cluster.server.denied.add(("get", "nodes"))
    seen = make().state(spec.name).machines

    assert {said["engine_boot_id"] for said in seen.values()} == {cluster.boot_id}
    assert {said["engine_machine_id"] for said in seen.values()} == {"mine"}
    assert {said["engine_node"] for said in seen.values()} == {"worker-0", "worker-1"}


def test_a_record_of_an_earlier_version_says_what_it_has() -> None:
    """It has no machine ids; a gate that was upgraded while a job ran still knows how that ended."""
    final = {
        "state": "succeeded", "trouble": "none", "detail": "", "attempt": "a", "earlier": [], "exit_codes": {},
        "machines": [["node-0", "worker-1", "boot"]],
    }  # fmt: skip
    found = record_of({"metadata": {"annotations": {FINAL: json.dumps(final)}}}, "gate-1").final

    assert found is not None and found.machines == (("node-0", "worker-1", "boot"),)
