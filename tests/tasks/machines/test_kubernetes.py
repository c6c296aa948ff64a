"""The Kubernetes back end over a stand-in of the API server: it changes only what is free or ours, and exactly what it saw."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tasks.launchers.kubernetes.api import Api
from tasks.launchers.kubernetes.pod import HELD
from tasks.machines.base import (
    ActAmbiguous,
    ActRefused,
    EngineSilent,
    Holder,
    Machine,
    Mark,
    Rung,
    ServiceState,
    Settled,
)
from tasks.machines.kubernetes import KubernetesMachineOptions, KubernetesMachines
from tasks.machines.kubernetes_nodes import (
    CLAIMS,
    DEEP,
    EKS_CONDITIONS,
    HEALTH,
    IN_PROGRESS,
    PENDING_REBOOT,
    TAINT,
    TAINTS,
    health_change,
    machine_of,
)
from tests.fakes.kubernetes.api_server import ApiServer, merged
from tests.fakes.kubernetes.cluster import Cluster, kubernetes

MARK, OTHER = Mark("gate-1", "gpu.ecc"), Mark("gate-2", "gpu.ecc")
AT = datetime(2026, 11, 26, 12, 0, tzinfo=UTC)
GPU = {"key": "nvidia.com/gpu", "effect": "NoSchedule"}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """Three nodes with a taint of their own."""
    with kubernetes(tmp_path, 3, 8) as made:
        for node in made.server.objects["nodes"].values():
            node["spec"] = {"taints": [dict(GPU)]}
        yield made


def machines(cluster: Cluster, hyperpod: bool = False) -> KubernetesMachines:
    """The back end for it."""
    options = KubernetesMachineOptions(hyperpod=hyperpod)
    return KubernetesMachines(options, Api("default", cluster.kubeconfig), lambda: AT)


def fenced(cluster: Cluster) -> KubernetesMachines:
    """The back end, after it has fenced worker-0."""
    here = machines(cluster)
    here.fence("worker-0", MARK)
    return here


def node(cluster: Cluster, name: str = "worker-0") -> dict[str, Any]:
    """The Node itself."""
    return cluster.server.objects["nodes"][name]


def changes(server: ApiServer) -> int:
    """How many patches were sent."""
    return sum(method == "PATCH" for method, _, _ in server.calls)


def test_a_fence_is_a_cordon_a_taint_and_a_mark(cluster: Cluster) -> None:
    """Never NoExecute, which would end what runs; the site's own taints stay; a second time nothing is sent."""
    here = fenced(cluster)
    here.fence("worker-0", MARK)
    seen = here.by_name()["worker-0"]

    assert node(cluster)["spec"]["unschedulable"] is True
    assert node(cluster)["spec"]["taints"] == [GPU, {"key": TAINT, "value": "gate-1", "effect": "NoSchedule"}]
    assert (seen.service, seen.holder) == (ServiceState.OUT, Holder.PRELAUNCH)
    assert (seen.mark, seen.since) == (MARK, AT.timestamp())
    assert changes(cluster.server) == 1


def test_freeing_leaves_the_node_as_it_was(cluster: Cluster) -> None:
    """Only our own marks go."""
    before = dict(node(cluster)["spec"])
    here = fenced(cluster)
    here.free("worker-0", MARK)
    annotations = node(cluster)["metadata"].get("annotations", {})

    assert node(cluster)["spec"] == before
    assert not [key for key in annotations if key.startswith("prelaunch.dev/")]
    assert here.by_name()["worker-0"].service is ServiceState.SERVING


def failing(condition: str) -> dict[str, Any]:
    """A node that is ready, and of which the agent of EKS says this."""
    rows = [{"type": "Ready", "status": "True"}, {"type": condition, "status": "False"}]
    return {"status": {"conditions": rows}}


CLAIMED: list[tuple[dict[str, Any], str]] = [
    *[({"metadata": {"labels": {key: "x"}}}, who) for key, who in CLAIMS.items()],
    *[({"metadata": {"annotations": {key: "x"}}}, who) for key, who in CLAIMS.items()],
    *[({"spec": {"taints": [{"key": key, "effect": "NoSchedule"}]}}, who) for key, who in TAINTS.items()],
    *[(failing(key), "EKS") for key in EKS_CONDITIONS],
    ({"metadata": {"labels": {HEALTH: "UnschedulablePendingReplacement"}}}, "HyperPod"),
    ({"metadata": {"labels": {HEALTH: "Unschedulable"}}}, "HyperPod"),
    ({"metadata": {"labels": {"sagemaker.amazonaws.com/deep-health-check-status": "InProgress"}}}, "HyperPod"),
    ({"spec": {"unschedulable": True}}, "somebody who cordoned it"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "who"), CLAIMED)
def test_a_node_that_somebody_else_has_is_theirs(change: dict[str, Any], who: str) -> None:
    """By whatever mark, and it is said who has it."""
    healthy = {"conditions": [{"type": "Ready", "status": "True"}]}
    seen = machine_of({"metadata": {"name": "n"}, "spec": {}, "status": healthy, **change})

    assert seen.holder is Holder.OTHER and who in seen.owner


@pytest.mark.parametrize(
    "rows", [[{"type": "Ready", "status": "Unknown", "lastTransitionTime": "2026-11-26T12:00:00Z"}], []]
)
def test_nothing_is_known_of_a_node_that_is_not_ready(cluster: Cluster, rows: list[dict[str, str]]) -> None:
    """It is nobody's for that, or ours: nothing is sent, its reboot is not judged, and a re-test of it is ended."""
    here = machines(cluster)
    for name in ("worker-0", "worker-1"):
        here.fence(name, MARK)
    here.open_retest("worker-0", (), MARK)
    for name in ("worker-0", "worker-2"):
        node(cluster, name)["status"]["conditions"] = rows
    with pytest.raises(EngineSilent, match="Ready="):
        here.fence("worker-2", MARK)
    here.close_retest("worker-0", MARK)
    found, before = here.by_name(), Machine("worker-0", ServiceState.CHANGING, boot_id="another")
    node(cluster)["status"]["conditions"] = node(cluster, "worker-1")["status"]["conditions"]

    seen = [(one.service, one.holder, one.owner) for one in found.values()]
    assert seen == [
        (ServiceState.UNKNOWN, Holder.PRELAUNCH, ""),
        (ServiceState.OUT, Holder.PRELAUNCH, ""),
        (ServiceState.UNKNOWN, Holder.NOBODY, ""),
    ]
    assert found["worker-2"].unknown_since == (AT.timestamp() if rows else None)
    assert here.settled(Rung.REBOOT, before, found["worker-0"]) is Settled.PENDING
    assert here.by_name()["worker-0"].service is ServiceState.OUT


def test_a_node_that_somebody_else_has_is_only_looked_at(cluster: Cluster) -> None:
    """Also as the partner of a re-test."""
    node(cluster)["spec"]["unschedulable"] = True
    here = machines(cluster, True)
    here.fence("worker-1", MARK)
    acts: tuple[Callable[[], object], ...] = (
        lambda: here.fence("worker-0", MARK),
        lambda: here.act(Rung.REBOOT, "worker-0", MARK),
        lambda: here.free("worker-0", MARK),
        lambda: here.open_retest("worker-0", (), MARK),
        lambda: here.open_retest("worker-1", ("worker-0",), MARK),
    )
    for act in acts:
        with pytest.raises(ActRefused):
            act()

    assert changes(cluster.server) == 1  # the fence of the other node


def test_healthy_words_of_others_claim_nothing(cluster: Cluster) -> None:
    """HyperPod's Schedulable, a deep check that passed, and conditions that hold."""
    labels = {HEALTH: "Schedulable", "sagemaker.amazonaws.com/deep-health-check-status": "Passed"}
    node(cluster)["metadata"]["labels"] = labels
    node(cluster)["status"]["conditions"] += [{"type": name, "status": "True"} for name in EKS_CONDITIONS]

    assert machines(cluster).by_name()["worker-0"].holder is Holder.NOBODY


def test_kubernetes_fence_leaves_a_node_that_was_changed_meanwhile(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The patch holds for the version that was seen: a cordon that came in between is not overwritten, and the step is made again."""
    here = machines(cluster)
    known = here._listed

    def meanwhile(name: str) -> Any:
        seen = known(name)
        node(cluster)["metadata"]["resourceVersion"] = "77"
        return seen

    monkeypatch.setattr(here, "_listed", meanwhile)
    with pytest.raises(EngineSilent, match="changed meanwhile"):
        here.fence("worker-0", MARK)
    assert "unschedulable" not in node(cluster)["spec"]
    monkeypatch.undo()
    here.fence("worker-0", MARK)
    assert here.by_name()["worker-0"].mark == MARK


def test_a_node_under_another_gates_mark_is_not_touched(cluster: Cluster) -> None:
    """Neither fenced again nor freed."""
    here = machines(cluster)
    here.fence("worker-0", OTHER)
    for act in (here.fence, here.free):
        with pytest.raises(ActRefused):
            act("worker-0", MARK)

    assert here.by_name()["worker-0"].mark == OTHER


def test_a_change_whose_answer_was_lost_is_not_known(cluster: Cluster) -> None:
    """It may have been taken, and is never sent twice."""
    here = machines(cluster)
    cluster.server.lost.add(("PATCH", "nodes"))
    with pytest.raises(ActAmbiguous):
        here.fence("worker-0", MARK)

    assert here.by_name()["worker-0"].mark == MARK
    assert changes(cluster.server) == 1


def test_an_api_server_that_does_not_answer_is_silent(cluster: Cluster) -> None:
    """Nothing was sent."""
    cluster.server.fails[("GET", "nodes")] = 503
    with pytest.raises(EngineSilent):
        machines(cluster).fence("worker-0", MARK)
    cluster.server.fails.clear()
    cluster.server.denied.add(("list", "nodes"))
    with pytest.raises(EngineSilent, match='"resources": \\["nodes"\\]'):
        machines(cluster).by_name()
    assert changes(cluster.server) == 0


def test_kubernetes_itself_repairs_nothing(cluster: Cluster) -> None:
    """Only a person, or HyperPod, can."""
    here = fenced(cluster)
    with pytest.raises(ActRefused, match="A person has to do it"):
        here.act(Rung.REBOOT, "worker-0", MARK)
    assert here.rungs == frozenset()


def test_hyperpod_is_asked_by_a_label_that_only_it_may_take_back(cluster: Cluster) -> None:
    """A node that HyperPod does not watch, one that is not fenced, and one that runs pods are refused."""
    here = machines(cluster, True)
    with pytest.raises(ActRefused, match="not held by Prelaunch"):
        here.act(Rung.REBOOT, "worker-0", MARK)
    here.fence("worker-0", MARK)
    with pytest.raises(ActRefused, match="no label"):
        here.act(Rung.REBOOT, "worker-0", MARK)
    node(cluster)["metadata"]["labels"][HEALTH] = "Schedulable"
    cluster.server.objects["pods"]["busy"] = pod_with_gpu("worker-0")
    with pytest.raises(ActRefused, match="default/busy"):
        here.act(Rung.REBOOT, "worker-0", MARK)
    del cluster.server.objects["pods"]["busy"]
    here.act(Rung.REBOOT, "worker-0", MARK)

    assert node(cluster)["metadata"]["labels"][HEALTH] == PENDING_REBOOT
    assert here.by_name()["worker-0"].service is ServiceState.CHANGING
    with pytest.raises(ValueError, match="not to be written"):
        health_change(here.by_name()["worker-0"], "Schedulable")


def pod_with_gpu(on: str) -> dict[str, Any]:
    """A pod that holds a GPU, as the API has it."""
    container = {"name": "a", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    meta = {"name": "busy", "namespace": "default", "labels": {}, "ownerReferences": [{"name": "none"}]}
    spec = {"nodeName": on, "containers": [container]}
    return {"metadata": meta, "spec": spec, "status": {"phase": "Running"}}


GPUS = {"resources": {"limits": {"nvidia.com/gpu": "8"}}}
CPUS = {"resources": {"limits": {"cpu": "4", "hugepages-2Mi": "1Gi"}}}


@pytest.mark.parametrize(
    ("spec", "in_use"),
    [
        ({"containers": [GPUS]}, True),
        ({"containers": [{"resources": {"limits": {"deviceclass.resource.kubernetes.io/gpu.nvidia.com": "8"}}}]}, True),
        ({"containers": [CPUS], "initContainers": [{**GPUS, "restartPolicy": "Always"}]}, True),
        ({"containers": [{"resources": {"claims": [{"name": "gpu"}]}}], "resourceClaims": [{"name": "gpu"}]}, True),
        ({"containers": [CPUS], "initContainers": [CPUS], "resourceClaims": []}, False),
    ],
)  # fmt: skip
def test_a_node_is_in_use_however_its_pod_got_the_device(
    cluster: Cluster, spec: dict[str, Any], in_use: bool
) -> None:
    """Limits of a container or of a sidecar, or a claim (dynamic resource allocation). Without a device a pod holds nothing."""
    busy = pod_with_gpu("worker-0")
    cluster.server.objects["pods"]["busy"] = {**busy, "spec": {"nodeName": "worker-0", **spec}}

    assert machines(cluster).by_name()["worker-0"].jobs == ("default/busy",) * in_use


def test_a_reboot_is_done_once_the_boot_id_is_another_one(cluster: Cluster) -> None:
    """A node that came back with the same one was not rebooted; while HyperPod has it nothing is known.

    Of the machine as it was before, the remediation has what its records keep.
    """
    seen = machines(cluster).by_name()["worker-0"]
    before = Machine("worker-0", ServiceState.OUT, boot_id=seen.boot_id)
    changing = replace(before, service=ServiceState.CHANGING)
    away = replace(before, holder=Holder.OTHER)
    other = replace(before, boot_id="other")
    settled = machines(cluster).settled

    assert settled(Rung.REBOOT, before, before) is Settled.PENDING
    assert settled(Rung.REBOOT, before, replace(other, holder=Holder.OTHER)) is Settled.PENDING
    assert settled(Rung.REBOOT, before, away) is Settled.PENDING
    assert settled(Rung.REBOOT, before, other) is Settled.DONE
    assert settled(Rung.REBOOT, changing, before) is Settled.FAILED
    assert settled(Rung.REBOOT, before, replace(before, service=ServiceState.GONE)) is Settled.FAILED
    assert settled(Rung.REPLACE, before, replace(before, service=ServiceState.GONE)) is Settled.DONE
    assert settled(Rung.REPLACE, before, other) is Settled.PENDING
    assert settled(Rung.REBOOT, replace(before, boot_id=""), other) is Settled.PENDING


def test_a_retest_runs_where_nobody_elses_pods_do(cluster: Cluster) -> None:
    """The partner is fenced meanwhile, and serves again afterwards; the node itself stays out."""
    here = fenced(cluster)
    place = here.open_retest("worker-0", ("worker-1",), MARK)
    during = here.by_name()
    assert here.open_retest("worker-0", ("worker-1",), MARK) == place
    here.close_retest("worker-0", MARK)
    here.close_retest("worker-0", MARK)
    after = here.by_name()

    assert (place.nodes, place.options) == (("worker-0", "worker-1"), {"only_nodes": "worker-0,worker-1"})
    states = [(found["worker-0"].service, found["worker-1"].service) for found in (during, after)]
    assert states[0] == (ServiceState.TESTING, ServiceState.OUT)
    assert states[1] == (ServiceState.OUT, ServiceState.SERVING)
    assert HELD == (TAINT, "node.kubernetes.io/unschedulable")


@pytest.mark.parametrize(
    ("claim", "cordon"),
    [
        ({"metadata": {"labels": {DEEP: IN_PROGRESS}}}, {}),
        (failing("NetworkingReady"), {}),
        ({"metadata": {"annotations": {"quarantineHealthEvent": "x"}}}, {"unschedulable": True}),
    ],
)
def test_a_partner_that_somebody_else_claims_meanwhile_is_given_back(
    cluster: Cluster, claim: dict[str, Any], cordon: dict[str, bool]
) -> None:
    """Nothing of ours stays on it. Its cordon stays for NVSentinel only, which would otherwise end the quarantine."""
    here = fenced(cluster)
    here.open_retest("worker-0", ("worker-1",), MARK)
    merged(node(cluster, "worker-1"), claim)
    here.close_retest("worker-0", MARK)
    seen = here.by_name()["worker-1"]

    assert (seen.holder, seen.mark, seen.since) == (Holder.OTHER, None, None)
    assert node(cluster, "worker-1")["spec"] == {"taints": [GPU], **cordon}
    assert here.by_name()["worker-0"].service is ServiceState.OUT


def test_a_partner_that_works_is_not_taken(cluster: Cluster) -> None:
    """And nothing is changed."""
    here = fenced(cluster)
    cluster.server.objects["pods"]["busy"] = pod_with_gpu("worker-1")
    with pytest.raises(ActRefused, match="worker-1 still runs default/busy"):
        here.open_retest("worker-0", ("worker-1",), MARK)

    assert here.by_name()["worker-1"].service is ServiceState.SERVING


def test_commands_are_quoted_and_say_what_the_back_end_does(cluster: Cluster) -> None:
    """For a person; without HyperPod there is none for a reboot."""
    here = machines(cluster, True)

    assert here.command(Rung.FENCE, "a b", MARK).startswith("kubectl patch node 'a b' --type=merge --patch ")
    label = f"kubectl label node n {HEALTH}={PENDING_REBOOT} --overwrite"
    assert here.command(Rung.REBOOT, "n", MARK) == label
    assert machines(cluster).command(Rung.REBOOT, "n", MARK) == ""
