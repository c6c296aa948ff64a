"""Whole gates on a real Kubernetes 1.20.2, with reports through pod logs alone: they train, or refuse and name the node."""

from __future__ import annotations

from pathlib import Path

import pytest

from tasks.gate.outcome import Decision
from tests.engines.kubernetes.benches import gate_file
from tests.engines.kubernetes.cluster import KubernetesCluster
from tests.flows.driving import gate_of_few_checks, kept

pytestmark = [
    pytest.mark.root,
    pytest.mark.long,
    pytest.mark.timeout(3600),
    pytest.mark.usefixtures("prefect_backend"),
]


def trained(cluster: KubernetesCluster) -> set[str]:
    """The nodes of Kubernetes on which the training ran."""
    found = set()
    columns = "custom-columns=:metadata.name,:spec.nodeName"
    for line in cluster.kubectl("get", "pods", "-o", columns, "--no-headers").splitlines():
        pod, node = line.split()
        if "\ntrained\n" in cluster.kubectl("logs", pod, check=False):
            found.add(node)
    return found


@pytest.mark.parametrize("placement", ["in_job", "pinned"])
def test_a_healthy_cluster_trains(cluster: KubernetesCluster, tmp_path: Path, placement: str) -> None:
    """On the nodes that were tested; the boot id that each pod read is the one that its kubelet reports."""
    path = gate_file(cluster, tmp_path, placement)
    outcome = gate_of_few_checks(path)
    report = kept(path.parent, outcome, "health_check_metrics.json")
    ids = [node["identity"] for node in report["nodes"]]
    boots = {(row["boot_id"], row["engine_boot_id"]) for row in ids}

    assert (Decision.LAUNCHED, 0) == (outcome.decision, outcome.code), outcome.reason
    assert trained(cluster) == {row["engine_node"] for row in ids} == {"worker-0", "worker-1"}
    assert len(boots) == 1 and len(set(next(iter(boots)))) == 1


def test_a_pod_that_is_not_where_it_is_said_is_refused(cluster: KubernetesCluster, tmp_path: Path) -> None:
    """The kubelet of worker-2 reports a simulated boot id, which is not the one that its pods read."""
    cluster.kubectl("cordon", "worker-0")
    cluster.kubectl("uncordon", "worker-2")
    try:
        path = gate_file(cluster, tmp_path, "pinned")
        outcome = gate_of_few_checks(path)
    finally:
        cluster.kubectl("uncordon", "worker-0")
        cluster.kubectl("cordon", "worker-2")
    failed = [row for row in kept(path.parent, outcome, "verdict.json")["findings"] if row["level"] == "FAIL"]

    assert outcome.code == 3, outcome.reason
    assert [row for row in failed if "worker-2" in row["message"] and "boot id" in row["message"]]
    assert trained(cluster) == set()
