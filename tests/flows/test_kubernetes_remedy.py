"""A whole remediation on the stand-in of Kubernetes, with a HyperPod that reboots by labels. Both are simulations."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tasks import remedy as remedies
from tasks.gate.outcome import Decision
from tasks.gate_file.request import RemedyRequest
from tasks.machines.kubernetes_nodes import HEALTH, MARK, PENDING_REBOOT, TAINT
from tasks.remediation.records import Records
from tasks.store.folder import FolderStore
from tests.fakes.kubernetes.cluster import Cluster, kubernetes
from tests.flows.driving import request_of, run
from tests.flows.test_kubernetes_gate import gate_file
from tests.survival import few_checks

pytestmark = [pytest.mark.usefixtures("prefect_backend"), pytest.mark.timeout(180), pytest.mark.root]
REBOOTED = "99999999-0000-1111-2222-333333333333"
SITE = {"key": "nvidia.com/gpu", "effect": "PreferNoSchedule"}
OWN = {"key": "sagemaker.amazonaws.com/node-health-status", "value": "Unschedulable", "effect": "NoSchedule"}


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
def hyperpod(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[HyperPod]:
    """Three nodes that HyperPod watches, with a taint of the site's own; worker-1 computes wrongly."""
    few_checks.take_least(monkeypatch)
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
    path.write_text(
        path.read_text()
        + '[remediation]\nmode = "act"\nmachines = "kubernetes"\nmax_out_fraction = 0.7\nwait_minutes = 2.0\nask_minutes = 0.02\n'
        f"options = {options}\n"
    )
    return path


def refused(path: Path) -> str:
    """Run a gate that refuses; its id."""
    with few_checks.chosen():
        _, outcome = asyncio.run(run(request_of(path)))
    assert Decision.REFUSED is outcome.decision, outcome.reason
    return outcome.gate_id


def remedy(path: Path) -> Any:
    """Run the remediation to its end."""
    from flows.remedy import remedy as flow

    async def go() -> Any:
        return await flow(RemedyRequest(gate_file=str(path)), return_state=True)

    with few_checks.chosen():
        return asyncio.run(go())


def test_a_sick_node_is_fenced_rebooted_by_hyperpod_proven_and_given_back(
    hyperpod: HyperPod, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The re-test runs on the held node with our toleration; in the end all that is left of us is gone, and nothing else."""
    monkeypatch.setattr(remedies, "LOOK_S", 0.2)
    path, server = file_of(tmp_path, hyperpod), hyperpod.cluster.server
    gate_id = refused(path)
    before = json.loads(json.dumps(server.objects["nodes"]))
    state = remedy(path)
    acts = Records(FolderStore(tmp_path / "store"), "kind-cpu").acts()
    (fenced,) = hyperpod.seen

    assert "Repaired" == state.name, state.message
    assert [act.rung.value for act in acts] == ["fence", "recheck", "reboot", "recheck", "return"]
    assert {(act.node, act.gate_id) for act in acts} == {("worker-1", gate_id)}
    assert [act.proof.value for act in acts if act.proof] == ["failed", "passed"]
    assert acts[-2].found.boot_id == REBOOTED
    assert fenced["spec"] == {
        "unschedulable": True,
        "taints": [SITE, {"key": TAINT, "value": gate_id, "effect": "NoSchedule"}],
    }
    assert fenced["metadata"]["annotations"][MARK].startswith(f"prelaunch: {gate_id} ")
    for name, node in server.objects["nodes"].items():
        assert (node["spec"], node["metadata"]["labels"]) == (
            before[name]["spec"],
            before[name]["metadata"]["labels"],
        )
        assert node["metadata"]["annotations"] == {"site": "kept"}
