"""Whole gates on the stand-in of Kubernetes, with reports through pod logs alone: they train, or refuse. It is a simulation."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from tasks.gate.outcome import Decision, Outcome
from tests.fakes.kubernetes.cluster import IMAGE, Cluster, kubernetes
from tests.flows.driving import kept, request_of, run
from tests.survival import few_checks

SHIPPED = Path(__file__).resolve().parents[2] / "deployments" / "gates" / "kind-cpu.toml"
pytestmark = [pytest.mark.usefixtures("prefect_backend"), pytest.mark.timeout(180)]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """Three nodes."""
    folder = tmp_path / "cluster"
    folder.mkdir()
    with kubernetes(folder, 3) as made:
        yield made


def gate_file(folder: Path, cluster: Cluster, placement: str, workload: str = "jobs") -> Path:
    """The shipped gate file with few checks, on the stand-in."""
    python = few_checks.interpreter(folder / "few-python")
    options = [
        f'placement = "{placement}"', f'workload = "{workload}"',
        f'python = "{python}"', f'kubeconfig_file = "{cluster.kubeconfig}"', "poll_seconds = 0.2",
        "grace_s = 1.0",
    ]  # fmt: skip
    changes = {
        'placement = "in_job"': "\n".join(options),
        "one_pod_per_node = false": "one_pod_per_node = true",
        'image = "prelaunch:cpu"': f'image = "{IMAGE}"',
        'command = ["/opt/train/train_tiny.py", "--steps", "20"]': 'command = ["{python}", "-c", "print(\'trained\')"]',
        'distributed = "torchrun"': 'distributed = "none"',
    }
    return few_checks.gate_file(SHIPPED, folder, changes)


def gate(path: Path) -> Outcome:
    """Run the flow to its end."""
    with few_checks.chosen():
        _, outcome = asyncio.run(run(request_of(path)))
    return outcome


def trained(cluster: Cluster) -> dict[str, str]:
    """The nodes of Kubernetes on which the training ran, by the pods' host names; those of an Indexed Job have none."""
    pods = cluster.server.objects["pods"]
    return {
        pods[name]["spec"].get("hostname", name): pods[name]["spec"]["nodeName"]
        for name, rows in cluster.server.logs.items()
        if name in pods and any(line == "trained" for _, line in rows)
    }


def test_a_healthy_cluster_trains(cluster: Cluster, tmp_path: Path) -> None:
    """On the nodes that were tested, and nothing but records and ended pods is left."""
    path = gate_file(tmp_path, cluster, "in_job")
    outcome = gate(path)
    report = kept(tmp_path, outcome, "health_check_metrics.json")
    tested = {node["name"]: node["identity"]["engine_node"] for node in report["nodes"]}

    assert (Decision.LAUNCHED, 0) == (outcome.decision, outcome.code), outcome.reason
    assert trained(cluster) == tested
    assert {node["identity"]["engine_boot_id"] for node in report["nodes"]} == {cluster.boot_id}
    assert cluster.server.names("secrets") == [] and cluster.running() == []


def test_a_pinned_training_of_one_workload_gets_the_nodes_that_passed(
    cluster: Cluster, tmp_path: Path
) -> None:
    """An Indexed Job, as a queue needs it. Its pods get the nodes in another order than those that checked."""
    path = gate_file(tmp_path, cluster, "pinned", "indexed")
    turned: list[bool] = []

    def turn() -> None:
        if not turned and len(cluster.server.names("jobs")) > 1:
            cluster.nodes.reverse()
            turned.append(True)

    cluster.beside.append(turn)
    outcome = gate(path)
    report = kept(tmp_path, outcome, "health_check_metrics.json")
    tested = {node["identity"]["engine_node"] for node in report["nodes"]}

    assert (Decision.LAUNCHED, 0) == (outcome.decision, outcome.code), outcome.reason
    assert turned and set(trained(cluster).values()) == tested
    assert any(
        "confirmed" in proof for proof in kept(tmp_path, outcome, "outcome.json")["placement"]["proof"]
    )


def test_a_pod_that_is_not_where_kubernetes_says_is_refused(cluster: Cluster, tmp_path: Path) -> None:
    """Its boot id is another than its node's kubelet reports: it is not known what was tested."""
    for node in cluster.server.objects["nodes"].values():
        node["status"]["nodeInfo"]["bootID"] = "00000000-0000-0000-0000-000000000000"
    path = gate_file(tmp_path, cluster, "pinned")
    outcome = gate(path)

    assert outcome.code == 3, outcome.reason
    assert trained(cluster) == {}
    said = [
        row["message"]
        for row in kept(tmp_path, outcome, "verdict.json")["findings"]
        if row["level"] == "FAIL"
    ]
    assert any("the engine says that worker-" in one and "boot id 0000" in one for one in said)
