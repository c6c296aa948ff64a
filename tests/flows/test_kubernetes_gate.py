"""Whole gates and a whole remediation on the stand-in of Kubernetes, with a HyperPod that reboots by labels: all are simulations."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tasks import remedy as remedies
from tasks.gate.outcome import HELD, LEFT_OUT, Decision
from tasks.machines.kubernetes_nodes import HEALTH, MARK, PENDING_REBOOT, TAINT
from tasks.remediation.records import Records
from tasks.store.folder import FolderStore
from tests.fakes.kubernetes.cluster import IMAGE, Cluster, kubernetes
from tests.flows.driving import gate_of_few_checks, kept, remedy_of_few_checks
from tests.survival import few_checks

REBOOTED = "99999999-0000-1111-2222-333333333333"
SITE = {"key": "nvidia.com/gpu", "effect": "PreferNoSchedule"}
OWN = {"key": "sagemaker.amazonaws.com/node-health-status", "value": "Unschedulable", "effect": "NoSchedule"}

LIMITS = "max_out_fraction = 0.7\nwait_minutes = 2.0\nask_minutes = 0.02\n"
REMEDIATION = f'[remediation]\nmode = "act"\nmachines = "kubernetes"\n{LIMITS}'
TRAINING = 'command = ["{python}", "-c", "print(\'trained\')"]'
# The first life of the training loses a node; with "sick" that node computes wrongly from then on.
TRAINS = """
import os, pathlib, sys
first, sick, token = pathlib.Path({first!r}), pathlib.Path({sick!r}), os.environ["PRELAUNCH_ATTEMPT"]
print("trained in", token, flush=True)
try:
    first.open("x").write(token)
except FileExistsError:
    pass
if first.read_text() in ("", token):
    if {breaks!r}:
        (sick / "worker-1").touch()
    sys.exit(1)
"""
pytestmark = [pytest.mark.usefixtures("prefect_backend"), pytest.mark.timeout(180)]


@pytest.fixture(autouse=True)
def _least(monkeypatch: pytest.MonkeyPatch) -> None:
    few_checks.take_least(monkeypatch)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """Three nodes."""
    folder = tmp_path / "cluster"
    folder.mkdir()
    with kubernetes(folder, 3) as made:
        yield made


def gate_file(
    folder: Path,
    cluster: Cluster,
    placement: str,
    workload: str = "jobs",
    more: tuple[str, ...] = (),
    training: str = TRAINING,
    sick: Path | None = None,
) -> Path:
    """The shipped gate file with few checks, on the stand-in; `more` are options, and `training` is lines of that table."""
    python = few_checks.interpreter(folder / "few-python", sick)
    options = [
        f'placement = "{placement}"', f'workload = "{workload}"',
        f'kubeconfig_file = "{cluster.kubeconfig}"', "poll_seconds = 0.2", *more,
    ]  # fmt: skip
    return few_checks.kind_gate_file(folder, python, "\n".join(options), IMAGE, training)


def trained(cluster: Cluster) -> dict[str, str]:
    """The nodes of Kubernetes on which the training ran, by the pods' host names; those of an Indexed Job have none."""
    pods = cluster.server.objects["pods"]
    return {
        pods[name]["spec"].get("hostname", name): pods[name]["spec"]["nodeName"]
        for name, rows in cluster.server.logs.items()
        if name in pods and any(line == "trained" for _, line in rows)
    }


def test_a_spare_trains_in_place_of_a_node_that_failed(cluster: Cluster, tmp_path: Path) -> None:
    """In the same job, and without its pod, which ends well."""
    (sick := tmp_path / "sick").mkdir()
    (sick / "worker-1").touch()
    outcome = gate_of_few_checks(
        gate_file(tmp_path, cluster, "in_job", sick=sick), "cluster.declared.spares=1"
    )

    assert (Decision.LAUNCHED, 0, 1) == (outcome.decision, outcome.code, len(outcome.left_out)), (
        outcome.reason
    )
    assert ["worker-0", "worker-2"] == sorted(trained(cluster).values())
    [refusal] = [path.read_text() for path in (tmp_path / "store" / "pages").glob("*.txt")]
    assert LEFT_OUT in refusal and HELD not in refusal and "kubectl cordon worker-1" in refusal


def test_a_pinned_training_of_one_workload_gets_nodes_that_passed(cluster: Cluster, tmp_path: Path) -> None:
    """An Indexed Job, as a queue needs it. Its pods get the nodes in another order than those that checked. Nothing but records and
    ended pods is left.
    """
    path = gate_file(tmp_path, cluster, "pinned", "indexed", ('code = "image"',))
    turned: list[bool] = []

    def turn() -> None:
        if not turned and len(cluster.server.names("jobs")) > 1:
            cluster.nodes.reverse()
            turned.append(True)

    cluster.beside.append(turn)
    outcome = gate_of_few_checks(path)
    report = kept(tmp_path, outcome, "health_check_metrics.json")
    tested = {node["identity"]["engine_node"] for node in report["nodes"]}

    assert (Decision.LAUNCHED, 0) == (outcome.decision, outcome.code), outcome.reason
    assert turned and set(trained(cluster).values()) == tested
    assert any("confirmed" in proof for proof in kept(tmp_path, outcome)["placement"]["proof"])
    assert {node["identity"]["engine_boot_id"] for node in report["nodes"]} == {cluster.boot_id}
    assert cluster.server.names("secrets") == [] and cluster.running() == []


@pytest.mark.parametrize("breaks", [True, pytest.param(False, marks=pytest.mark.long)])
def test_every_start_of_a_resumed_job_is_gated(tmp_path: Path, breaks: bool) -> None:
    """A healthy second start trains under a token of its own. One on a node that is sick by now is refused, and trains nothing."""
    sick = tmp_path / "sick"
    sick.mkdir()
    more = (
        "auto_resume = true", 'reports = "volume"', 'volume_claim = "shared"', f'folder = "{tmp_path / "shared"}"', 'code = "image"',
    )  # fmt: skip
    code = TRAINS.format(first=str(tmp_path / "first"), sick=str(sick), breaks=breaks)
    training = f"command = {json.dumps(['{python}', '-c', code])}\nmax_attempts = 3"
    (tmp_path / "cluster").mkdir()
    with kubernetes(tmp_path / "cluster") as cluster:
        for node in cluster.server.objects["nodes"].values():
            node["metadata"]["labels"]["sagemaker.amazonaws.com/node-health-status"] = "Schedulable"
        path = gate_file(tmp_path, cluster, "in_job", "pytorchjob", more, training, sick)
        outcome = gate_of_few_checks(path)
        lines = {line for rows in cluster.server.logs.values() for _, line in rows}
    trained = {line.removeprefix("trained in ") for line in lines if line.startswith("trained in ")}
    (out,) = (tmp_path / "shared" / "jobs").glob("*/out")
    gated = {place.parent.name for place in out.glob("*/nodes") if len(list(place.glob("*.json"))) == 2}
    said = [row.read_text() for row in sorted(out.glob("*/failure/*"))]

    assert (tmp_path / "first").read_text() in trained <= gated
    if breaks:
        assert len(trained) == 1 and len(gated) > 1
        assert outcome.decision is not Decision.LAUNCHED or outcome.code != 0
        assert any("site.adds" in one for one in said), said
    else:
        assert (Decision.LAUNCHED, 0) == (outcome.decision, outcome.code), outcome.reason
        assert len(trained) == len(gated) == 2


@dataclass
class HyperPod:
    """What HyperPod does for a label: it taints the node, reboots it, and calls it healthy again."""

    cluster: Cluster
    sick: Path
    seen: list[dict[str, Any]] = field(default_factory=list)
    _since: dict[str, float] = field(default_factory=dict)

    def __call__(self) -> None:
        """One round of its controller."""
        for node in self.cluster.nodes:
            made = self.cluster.server.objects["nodes"][node.name]
            if made["metadata"]["labels"].get(HEALTH) != PENDING_REBOOT:
                continue
            if node.name not in self._since:
                self._since[node.name] = time.monotonic()
                self.seen.append(json.loads(json.dumps(made)))
                self._taint(made, [OWN])
            elif time.monotonic() - self._since[node.name] > 0.3:
                del self._since[node.name]
                node.boot_id = made["status"]["nodeInfo"]["bootID"] = REBOOTED
                made["metadata"]["labels"][HEALTH] = "Schedulable"
                self._taint(made, [])
                (self.sick / node.name).unlink()

    def _taint(self, made: dict[str, Any], own: list[dict[str, Any]]) -> None:
        made["spec"]["taints"] = [row for row in made["spec"]["taints"] if row != OWN] + own
        made["metadata"]["resourceVersion"] = str(int(made["metadata"]["resourceVersion"]) + 1)


@pytest.fixture
def hyperpod(tmp_path: Path) -> Iterator[HyperPod]:
    """Three nodes that HyperPod watches, with a taint of the site's own; worker-1 computes wrongly."""
    sick, folder = tmp_path / "sick", tmp_path / "cluster"
    sick.mkdir()
    folder.mkdir()
    (sick / "worker-1").touch()
    with kubernetes(folder, 3) as cluster:
        for node in cluster.server.objects["nodes"].values():
            node["metadata"]["labels"][HEALTH] = "Schedulable"
            node["metadata"]["annotations"] = {"site": "kept"}
            node["spec"]["taints"] = [dict(SITE)]
        made = HyperPod(cluster, sick)
        cluster.beside.append(made)
        yield made


def file_of(folder: Path, hyperpod: HyperPod) -> Path:
    """A gate file whose finding asks for a reboot, and which lets the remediation request it."""
    path = gate_file(folder, hyperpod.cluster, "in_job", sick=hyperpod.sick)
    rules = folder / "few.json"
    policy = json.loads(rules.read_text())
    policy["checks"][few_checks.adds.name]["rules"][0]["action"] = "reboot"
    rules.write_text(json.dumps(policy))
    options = f'{{ hyperpod = true, kubeconfig_file = "{hyperpod.cluster.kubeconfig}" }}'
    path.write_text(f"{path.read_text()}{REMEDIATION}options = {options}\n")
    return path


def refused(path: Path) -> str:
    """Run a gate that refuses; its id."""
    outcome = gate_of_few_checks(path)
    assert Decision.REFUSED is outcome.decision, outcome.reason
    return outcome.gate_id


@pytest.mark.root
def test_a_sick_node_is_fenced_rebooted_by_hyperpod_proven_and_given_back(
    hyperpod: HyperPod, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The re-test runs on the held node with our toleration; in the end all that is left of us is gone, and nothing else."""
    monkeypatch.setattr(remedies, "LOOK_S", 0.2)
    path, server = file_of(tmp_path, hyperpod), hyperpod.cluster.server
    gate_id = refused(path)
    before = json.loads(json.dumps(server.objects["nodes"]))
    state = remedy_of_few_checks(path)
    acts = Records(FolderStore(tmp_path / "store"), "kind-cpu").acts()
    (fenced,) = hyperpod.seen

    assert "Repaired" == state.name, state.message
    assert [act.rung.value for act in acts] == ["fence", "recheck", "reboot", "recheck", "return"]
    assert {(act.node, act.gate_id) for act in acts} == {("worker-1", gate_id)}
    assert [act.proof.value for act in acts if act.proof] == ["failed", "passed"]
    assert acts[-2].found.boot_id == REBOOTED
    taints = [SITE, {"key": TAINT, "value": gate_id, "effect": "NoSchedule"}]
    assert fenced["spec"] == {"unschedulable": True, "taints": taints}
    assert fenced["metadata"]["annotations"][MARK].startswith(f"prelaunch: {gate_id} ")
    for name, node in server.objects["nodes"].items():
        assert node["spec"] == before[name]["spec"]
        assert node["metadata"]["labels"] == before[name]["metadata"]["labels"]
        assert node["metadata"]["annotations"] == {"site": "kept"}
