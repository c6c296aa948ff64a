"""The launcher on a real Kubernetes 1.20.2 in which something goes wrong."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path

import pytest

from tasks.launchers.base import JobSpec, JobState, LaunchError, LaunchRejected, PreflightResult
from tasks.launchers.kubernetes.launcher import KubernetesLauncher
from tasks.launchers.kubernetes.options import KubernetesOptions
from tests.engines.kubernetes.benches import bench, launcher
from tests.engines.kubernetes.cluster import GATE, ROOT, KubernetesCluster
from tests.tasks.launchers.contract import SAY, WAIT, told, until, until_final, until_told

pytestmark = [pytest.mark.root, pytest.mark.long, pytest.mark.timeout(3600)]
SECONDS = 90.0


def waiting(cluster: KubernetesCluster, folder: Path) -> tuple[KubernetesLauncher, JobSpec]:
    """A launcher, and its job whose two pods wait."""
    one, spec = launcher(cluster, folder), bench(cluster, folder).job(WAIT)
    one.submit(one.plan(spec))
    until_told(bench(cluster, folder), one, spec.name, 2)
    return one, spec


def test_cancel_never_says_that_pods_of_a_frozen_kubelet_are_gone(
    cluster: KubernetesCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pods do run on. Once the kubelet goes on, the next cancel succeeds."""
    monkeypatch.setattr("tasks.launchers.kubernetes.launcher.CANCEL_S", 5.0)
    monkeypatch.setattr("tasks.launchers.kubernetes.launcher.UPLOAD_S", 0.0)
    one, spec = waiting(cluster, tmp_path)
    frozen = cluster.freeze("kubelet", 1)
    try:
        with pytest.raises(LaunchError, match=r"may still run: .* on worker-1"):
            one.cancel(spec.name)
        status = launcher(cluster, tmp_path).state(spec.name)
    finally:
        cluster.thaw(frozen)
    monkeypatch.undo()
    launcher(cluster, tmp_path).cancel(spec.name)
    label = f"prelaunch.dev/job={spec.name}"
    left = cluster.kubectl("get", "pods,jobs,services,secrets", "-l", label, "-o", "name")

    assert (status.state, "not known to be gone" in status.detail) == (JobState.RUNNING, True)
    assert (launcher(cluster, tmp_path).state(spec.name).state, left) == (JobState.CANCELLED, "")


def test_an_api_server_that_stops_for_a_while_ends_no_job(
    cluster: KubernetesCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its pods run on; what was known stays known."""
    monkeypatch.setattr("tasks.launchers.kubernetes.api.READ_S", 3.0)
    one, spec = waiting(cluster, tmp_path)
    before = until(one, spec.name, SECONDS, lambda status: bool(status.attempt))
    frozen = cluster.freeze("kube-apiserver")
    try:
        silent = one.state(spec.name)
        time.sleep(60.0)
    finally:
        cluster.thaw(frozen)
    after = until(one, spec.name, SECONDS, lambda status: status.state is not JobState.UNKNOWN)
    one.cancel(spec.name)

    assert (silent.state, silent.absent, silent.attempt) == (JobState.UNKNOWN, False, before.attempt)
    assert (after.state, after.attempt) == (JobState.RUNNING, before.attempt)


def test_an_evicted_pod_ends_its_job_and_nothing_trains_in_its_place(
    cluster: KubernetesCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the API with which `kubectl drain` does it: the Job makes another one, which comes too late for the roll call."""
    monkeypatch.setattr(KubernetesOptions, "joins_s", 5.0)
    one, spec = waiting(cluster, tmp_path)
    labels = f"prelaunch.dev/job={spec.name},prelaunch.dev/node-index=1"
    pods = cluster.kubectl("get", "pods", "-l", labels, "-o", "name").split()
    victim = pods[0].partition("/")[2]
    namespace = cluster.kubectl("get", "pod", victim, "-o", "jsonpath={.metadata.namespace}")
    named = {"name": victim, "namespace": namespace}
    eviction = {"apiVersion": "policy/v1beta1", "kind": "Eviction", "metadata": named}
    where = f"/api/v1/namespaces/{namespace}/pods/{victim}/eviction"
    cluster.kubectl("create", "--raw", where, "-f", "-", data=json.dumps(eviction))
    status = until(one, spec.name, SECONDS, lambda status: "began with an earlier start" in status.detail)
    one.cancel(spec.name)

    # Its peer trains on, until the collective fails or the gate ends it.
    assert status.state is JobState.RUNNING
    assert one.state(spec.name).state is JobState.CANCELLED


def test_the_shipped_rights_are_all_that_a_gate_needs(cluster: KubernetesCluster, tmp_path: Path) -> None:
    """Without them each is named with its rule and nothing is made; with them a user who has nothing else runs a job."""
    one = launcher(cluster, tmp_path, kubeconfig_file=cluster.user(GATE))
    spec = replace(bench(cluster, tmp_path).job(SAY), nodes=1)
    lines = one.preflight((one.plan(spec),))
    wrong = [check.text for check in lines if check.result is PreflightResult.WRONG]
    with pytest.raises(LaunchRejected, match='"configmaps"'):
        one.submit(one.plan(spec))
    right = '{"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["create"]}'
    assert any(right in text for text in wrong)

    rules = (ROOT / "deployments" / "kubernetes" / "gate" / "rbac.yaml").read_text()
    subject = "  - kind: ServiceAccount\n    name: prelaunch-gate\n"
    user = "  - kind: User\n    apiGroup: rbac.authorization.k8s.io\n    name: gate\n"
    rules = rules.replace(f"{subject}    namespace: prelaunch ", f"{user}  # ").replace(subject, user)
    cluster.kubectl("apply", "-f", "-", data=rules)
    before = everything(cluster)
    checks = one.preflight((one.plan(spec),))
    assert {check.result for check in checks} == {PreflightResult.OK}, [check.text for check in checks]
    assert before == everything(cluster)

    one.submit(one.plan(spec))
    assert until_final(one, spec.name, SECONDS).state is JobState.SUCCEEDED
    assert sorted(told(one, spec.name, tmp_path / "out")) == ["node-0"]
    one.cancel(spec.name)


def everything(cluster: KubernetesCluster) -> str:
    """The names of all objects that a gate could have made."""
    return cluster.kubectl("get", "jobs,pods,services,configmaps,secrets", "-o", "name")
