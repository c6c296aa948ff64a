"""What preflight finds, and that it leaves nothing behind. Over the stand-in.

What it says of the secrets with which images are pulled is over a double.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any, cast

import pytest

from checks.documents.decode import decode
from tasks.launchers.base import PreflightCheck, PreflightResult
from tasks.launchers.kubernetes.api import Api, ObjectKind
from tasks.launchers.kubernetes.launcher import KubernetesLauncher
from tasks.launchers.kubernetes.options import KubernetesOptions
from tasks.launchers.kubernetes.preflight import _pull_secrets
from tests.fakes.kubernetes.cluster import IMAGE, Cluster, kubernetes
from tests.tasks.launchers.kubernetes.planned import JOB


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """Two nodes with eight GPUs each."""
    with kubernetes(tmp_path, 2, 8) as made:
        yield made


def look(cluster: Cluster, **changes: Any) -> tuple[PreflightCheck, ...]:
    """What preflight says; the cluster has the same objects before and after."""
    given = {"image": IMAGE, "kubeconfig_file": cluster.kubeconfig, **changes}
    launcher = KubernetesLauncher(cluster.server.folder, decode(KubernetesOptions, given, "options"))
    before = deepcopy(cluster.server.objects)
    found = launcher.preflight((launcher.plan(JOB),))

    assert before == cluster.server.objects
    return found


def wrong(found: tuple[PreflightCheck, ...]) -> list[str]:
    """The texts of what would keep the gate from starting."""
    bad = (PreflightResult.WRONG, PreflightResult.NO_CAPACITY)
    return [check.text for check in found if check.result in bad]


def test_a_healthy_cluster_is_ok(cluster: Cluster) -> None:
    """Everything was looked at."""
    found = look(cluster, gpus_per_node=8)

    assert {check.result for check in found} == {PreflightResult.OK}
    assert [check.subject for check in found] == ["API server", "rights", f"objects of {JOB.name}", "nodes"]


@pytest.mark.parametrize(
    ("verb", "plural", "group"),
    [
        ("create", "jobs", "batch"),
        ("get", "pods/log", ""),
        ("delete", "secrets", ""),
        ("patch", "configmaps", ""),
    ],
)
def test_a_missing_right_is_named_with_the_rule(cluster: Cluster, verb: str, plural: str, group: str) -> None:
    """As a Role would grant it."""
    cluster.server.denied.add((verb, plural))
    (first, *_) = wrong(look(cluster))

    assert f'{{"apiGroups": ["{group}"], "resources": ["{plural}"], "verbs": ["{verb}"]}}' in first


def test_preflight_finds_a_pod_that_admission_refuses(cluster: Cluster) -> None:
    """A Job is taken, and its pods would never be made."""
    refusal = 'violates PodSecurity "restricted:latest"'
    cluster.server.takes = lambda made: refusal if made["kind"] == "Pod" else ""
    (said,) = wrong(look(cluster))

    assert "PodSecurity" in said and said.startswith("Pod gate-1-train-1-preflight")


@pytest.mark.parametrize(
    ("denied", "unseen"), [(("create", "pods"), "Pod gate-1-train-1-preflight"), (("list", "nodes"), "nodes")]
)
def test_preflight_leaves_unseen_whatever_it_has_no_right_for(
    cluster: Cluster, denied: tuple[str, str], unseen: str
) -> None:
    """The gate itself can do without: admission is not checked, and nodes, for a whole cluster, are not counted."""
    cluster.server.denied.add(denied)
    found = look(cluster)

    assert wrong(found) == []
    assert [check.subject for check in found if check.result is PreflightResult.UNSEEN] == [unseen]


def test_too_few_gpus_are_wrong_and_a_cordoned_node_is_no_capacity(cluster: Cluster) -> None:
    """No waiting gives a node more GPUs."""
    assert "0 of 2 nodes" in wrong(look(cluster, gpus_per_node=16))[0]
    cluster.server.objects["nodes"]["worker-1"]["spec"]["unschedulable"] = True
    found = look(cluster, gpus_per_node=8)

    assert ["nodes"] == [check.subject for check in found if check.result is PreflightResult.NO_CAPACITY]
    assert "1 of 2 nodes are ready" in wrong(found)[0]


def test_preflight_of_a_retest_counts_its_own_nodes(cluster: Cluster) -> None:
    """They are cordoned for it, and its pods tolerate that. A node that is not ready is not used, and no other may take its place."""
    nodes = cluster.server.objects["nodes"]
    for node in nodes.values():
        node["spec"]["unschedulable"] = True
    nodes["worker-2"] = {**deepcopy(nodes["worker-0"]), "metadata": {"name": "worker-2"}, "spec": {}}
    assert "1 of 3 nodes" in wrong(look(cluster, gpus_per_node=8))[0]
    assert wrong(look(cluster, gpus_per_node=8, only_nodes="worker-0,worker-1")) == []
    nodes["worker-1"]["status"]["conditions"] = []
    assert "1 of 2 nodes" in wrong(look(cluster, gpus_per_node=8, only_nodes="worker-0,worker-1"))[0]


def test_a_queue_that_is_not_there_is_wrong(cluster: Cluster) -> None:
    """A workload for it would wait for ever."""
    assert "LocalQueue gpu" in wrong(look(cluster, queue="gpu", workload="indexed"))[0]
    cluster.server.create("localqueues", {"kind": "LocalQueue", "metadata": {"name": "gpu"}})
    assert wrong(look(cluster, queue="gpu", workload="indexed")) == []


def test_an_api_server_that_does_not_answer_says_nothing(cluster: Cluster) -> None:
    """It is not known, and not wrong."""
    cluster.server.fails[("POST", "selfsubjectaccessreviews")] = 503
    found = look(cluster)

    assert wrong(found) == []
    assert any(check.result is PreflightResult.UNSEEN and "503" in check.text for check in found)
    assert any(check.unreachable and "kubectl version" in check.remedy for check in found)


def test_a_cluster_that_cannot_be_found_is_wrong(tmp_path: Path) -> None:
    """With what to correct."""
    options = KubernetesOptions(IMAGE, kubeconfig_file=str(tmp_path / "none"))
    launcher = KubernetesLauncher(tmp_path, options)
    (check,) = launcher.preflight((launcher.plan(JOB),))

    assert (check.result, "kubeconfig_file" in check.text) == (PreflightResult.WRONG, True)


OK, WRONG, UNSEEN = PreflightResult.OK, PreflightResult.WRONG, PreflightResult.UNSEEN
TAKEN, OPAQUE = {"type": "kubernetes.io/dockerconfigjson"}, {"type": "Opaque"}
NAMED = {"imagePullSecrets": [{"name": "regcred"}]}


class Objects:
    """The objects of one namespace, by the plural of their kind and their names."""

    namespace = "default"

    def __init__(self, rows: Mapping[str, Mapping[str, Any]]) -> None:
        self.rows = rows

    def get(self, kind: ObjectKind, name: str) -> Mapping[str, Any] | None:
        """None where there is none."""
        return self.rows.get(f"{kind.plural}/{name}")


@pytest.mark.parametrize(
    ("rows", "spec", "results"),
    [
        ({}, {}, ()),
        ({"serviceaccounts/default": {}}, {}, ()),
        ({"secrets/regcred": TAKEN}, NAMED, (OK,)),
        ({"secrets/regcred": {"type": "kubernetes.io/dockercfg"}}, NAMED, (OK,)),
        ({"secrets/regcred": OPAQUE}, NAMED, (WRONG,)),
        ({}, NAMED, (WRONG,)),
        ({}, {"serviceAccountName": "trainer"}, (WRONG,)),
        ({"serviceaccounts/trainer": NAMED}, {"serviceAccountName": "trainer"}, (WRONG,)),
        ({"serviceaccounts/trainer": NAMED, "secrets/regcred": TAKEN}, {"serviceAccountName": "trainer"}, (OK,)),
        # Nobody declared it, and the image may be on every node.
        ({"serviceaccounts/default": NAMED}, {}, (UNSEEN,)),
    ],
)  # fmt: skip
def test_a_secret_that_a_kubelet_would_leave_out_is_found(
    rows: Mapping[str, Mapping[str, Any]], spec: Mapping[str, Any], results: tuple[PreflightResult, ...]
) -> None:
    """It is wrong where the pod template or the service account of the gate file names it; the remedy is what to type."""
    lines = tuple(_pull_secrets(cast("Api", Objects(rows)), spec))
    lacks = [line for line in lines if "Secret" in line.subject and line.result is not OK]

    assert tuple(line.result for line in lines) == results
    assert all("kubectl create secret" in line.remedy for line in lacks)
