"""Whole gates on a real Kubernetes 1.20.2, with reports through pod logs alone: they train, or refuse and name the node."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tasks.gate.outcome import Decision
from tests.engines.kubernetes.benches import gate, gate_file, kept
from tests.engines.kubernetes.cluster import KubernetesCluster
from tests.survival import few_checks
from tests.tasks.launchers.faults import heal, shape

pytestmark = [
    pytest.mark.root,
    pytest.mark.long,
    pytest.mark.timeout(3600),
    pytest.mark.usefixtures("prefect_backend"),
]


def trained(cluster: KubernetesCluster) -> set[str]:
    """The nodes of Kubernetes on which the training ran."""
    found = set()
    for line in cluster.kubectl(
        "get", "pods", "-o", "custom-columns=:metadata.name,:spec.nodeName", "--no-headers"
    ).splitlines():
        pod, node = line.split()
        if "\ntrained\n" in cluster.kubectl("logs", pod, check=False):
            found.add(node)
    return found


@pytest.mark.parametrize("placement", ["in_job", "pinned"])
def test_a_healthy_cluster_trains(cluster: KubernetesCluster, tmp_path: Path, placement: str) -> None:
    """On the nodes that were tested; the boot id that each pod read is the one that its kubelet reports."""
    path = gate_file(cluster, tmp_path, placement)
    outcome = gate(path)
    report = kept(path, outcome, "health_check_metrics.json")
    ids = [node["identity"] for node in report["nodes"]]
    boots = {(row["boot_id"], row["engine_boot_id"]) for row in ids}

    assert (Decision.LAUNCHED, 0) == (outcome.decision, outcome.code), outcome.reason
    assert (
        trained(cluster)
        == {node["identity"]["engine_node"] for node in report["nodes"]}
        == {"worker-0", "worker-1"}
    )
    assert len(boots) == 1 and len(set(next(iter(boots)))) == 1


def test_a_slow_node_is_named_and_nothing_is_trained(cluster: KubernetesCluster, tmp_path: Path) -> None:
    """Its link is shaped; the pods' reports come through their logs all the same, and Kubernetes keeps the verdict's first line."""
    namespace = f"{cluster.name}-1"
    shape(namespace, "8mbit")
    try:
        path = gate_file(cluster, tmp_path)
        outcome = gate(path)
    finally:
        heal(namespace)
    ends = [
        json.loads(pod["status"]["containerStatuses"][0]["state"]["terminated"]["message"])
        for pod in json.loads(cluster.kubectl("get", "pods", "-o", "json"))["items"]
    ]
    verdict = kept(path, outcome, "verdict.json")

    assert outcome.code in (1, 3), outcome.reason
    assert any("node-" in json.dumps(row["subject"]) for row in verdict["findings"] if row["level"] != "PASS")
    assert sorted(end["node"] for end in ends) == ["node-0", "node-1"]
    assert all(end["exit_code"] and "the command was not started" in end["reason"] for end in ends), ends
    assert trained(cluster) == set()


def test_a_pod_that_is_not_where_kubernetes_says_is_refused(
    cluster: KubernetesCluster, tmp_path: Path
) -> None:
    """The kubelet of worker-2 reports a simulated boot id, which is not the one that its pods read."""
    cluster.kubectl("cordon", "worker-0")
    cluster.kubectl("uncordon", "worker-2")
    try:
        path = gate_file(cluster, tmp_path, "pinned")
        outcome = gate(path)
    finally:
        cluster.kubectl("uncordon", "worker-0")
        cluster.kubectl("cordon", "worker-2")
    failed = [row for row in kept(path, outcome, "verdict.json")["findings"] if row["level"] == "FAIL"]

    assert outcome.code == 3, outcome.reason
    assert [row for row in failed if "worker-2" in row["message"] and "boot id" in row["message"]]
    assert trained(cluster) == set()


def test_a_gate_that_is_killed_is_taken_over_by_the_next(cluster: KubernetesCluster, tmp_path: Path) -> None:
    """The second command adopts the job of the first: one job checks and trains, once."""
    path = gate_file(cluster, tmp_path, trains="import time; time.sleep(8); print('trained')")
    argv = (sys.executable, few_checks.__file__, "gate", str(path), "--wait", "finished", "--format", "json")
    environment = {**os.environ, "PYTHONPATH": str(Path(few_checks.__file__).parents[2])}
    environment.pop("PREFECT_API_URL", None)
    with subprocess.Popen(
        argv, env=environment, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    ) as first:  # fmt: skip
        deadline = time.monotonic() + 90.0
        while len(cluster.running()) < 2:
            assert time.monotonic() < deadline and first.poll() is None
            time.sleep(0.3)
        os.killpg(first.pid, signal.SIGKILL)
        first.wait()
    done = subprocess.run(
        argv, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False
    )
    jobs = cluster.kubectl("get", "jobs", "-o", "name").split()

    assert (done.returncode, json.loads(done.stdout)["decision"]) == (0, "launched"), done.stderr
    assert "of an earlier run, whose process is gone" in done.stderr
    assert len(jobs) == 2 and trained(cluster) == {"worker-0", "worker-1"}
