"""The launcher over a stand-in of Kubernetes that loses answers, evicts pods, and falls silent. It is a simulation."""

from __future__ import annotations

import shutil
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest.mock import Mock

import pytest

from tasks.launchers.base import EngineUnavailable, JobState, JobStatus, LaunchError, LaunchRejected, Trouble
from tasks.launchers.interruption import Silence, interruptible, silences
from tasks.launchers.kubernetes import submit as submission
from tests import waiting
from tests.fakes.kubernetes.cluster import Cluster
from tests.tasks.launchers.contract import SAY, WAIT, told, until, until_final, until_told
from tests.tasks.launchers.kubernetes.jobs import SECONDS, Make, bench, job, started


def test_cancelled_kubernetes_job_leaves_only_its_record(
    cluster: Cluster, make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The record says how it ended, so that a second gate does not start it again. An answer reached the pods under their token,
    which stays known while the API server is silent.
    """
    launcher, spec = make(), job(WAIT)
    with pytest.raises(LaunchError, match="is gone"):
        launcher.answer(spec.name, "a" * 32, b"{}")
    started(launcher, spec)
    launcher.answer(spec.name, "a" * 32, b"{}")
    found = cluster.server.objects["configmaps"][f"{spec.name}-answers"]
    until_told(bench(tmp_path), launcher, spec.name, 2)
    before = until(launcher, spec.name, SECONDS, lambda one: bool(one.attempt))
    monkeypatch.setattr("tasks.launchers.kubernetes.api.READ_S", 0.3)
    cluster.server.silent.set()
    silent = launcher.state(spec.name)
    cluster.server.silent.clear()
    launcher.cancel(spec.name)

    assert (silent.state, silent.attempt) == (JobState.UNKNOWN, before.attempt)
    assert found["binaryData"] == {f"{'a' * 32}.json": "e30="}
    with pytest.raises(LaunchRejected, match="no attempt"):
        launcher.answer(spec.name, "../x", b"")
    assert cluster.server.names("configmaps") == [spec.name]
    assert [cluster.server.names(kind) for kind in ("pods", "jobs", "secrets", "services")] == [[]] * 4
    assert make().submit(launcher.plan(spec)).adopted
    assert make().state(spec.name).state is JobState.CANCELLED


def test_two_gates_at_once_start_one_job_whose_reports_outlive_its_pods(
    cluster: Cluster, make: Make, tmp_path: Path
) -> None:
    """Every object is made by one of them, and the key goes with the job. A pod that somebody deletes takes its log with it."""
    spec = job(SAY)
    launchers = [make() for _ in range(4)]
    plan = launchers[0].plan(spec)
    with ThreadPoolExecutor(4) as pool:
        handles = [*pool.map(lambda one: one.submit(plan), launchers)]
    secrets, jobs = cluster.server.names("secrets"), cluster.server.names("jobs")
    status = until_final(launchers[0], spec.name, SECONDS)

    assert [handle.adopted for handle in handles].count(False) == 1
    assert (secrets, jobs) == ([spec.name], [f"{spec.name}-0", f"{spec.name}-1"])
    assert (status.state, cluster.server.names("secrets")) == (JobState.SUCCEEDED, [])
    for pod in cluster.server.names("pods"):
        cluster.server.delete("pods", pod)
    waiting.until(lambda: not cluster.server.names("pods"))
    assert sorted(told(make(), spec.name, tmp_path / "later")) == ["node-0", "node-1"]


def test_job_left_by_a_dead_gate_can_be_cancelled(cluster: Cluster, make: Make) -> None:
    """Its lock names the job, and nothing more is known of it."""
    launcher, spec = make(), job(WAIT)
    cluster.server.fails[("POST", "jobs")] = 503
    with pytest.raises(EngineUnavailable):
        launcher.submit(launcher.plan(spec))
    cluster.server.fails.clear()
    make().cancel(spec.name)

    assert cluster.server.names("configmaps") == [spec.name]
    assert cluster.server.names("secrets") == []


def test_one_lost_answer_of_the_api_server_leaves_no_pod_running(
    cluster: Cluster, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its answer is lost at the moment when a gate ends its job: it is asked again, also by a gate that is to end."""
    monkeypatch.setattr("tasks.launchers.kubernetes.submit.AGAIN_S", 0.1)
    launcher, spec = started(make(), job(WAIT))
    cluster.server.lost |= {("PATCH", "configmaps"), ("GET", "configmaps")}
    with interruptible() as stop:
        stop.set()
        launcher.cancel(spec.name)

    assert ([], set()) == (cluster.server.names("pods"), cluster.server.lost)


def test_a_training_that_ended_well_is_not_lost_with_a_log_that_nobody_can_read(
    cluster: Cluster, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its node is gone: the log is asked for until the engine's time to answer is up, and then it is missing."""
    launcher, spec = make(), job(SAY)
    monkeypatch.setattr(launcher.api, "log", Mock(side_effect=EngineUnavailable("no route to host")))
    launcher.submit(launcher.plan(spec))
    waits = until(launcher, spec.name, SECONDS, lambda one: one.state is JobState.UNKNOWN)
    monkeypatch.setattr(launcher, "silence_s", 0.0)
    status = launcher.state(spec.name)

    assert (False, JobState.SUCCEEDED) == (waits.absent, status.state)
    assert "no route to host" in waits.detail and "no route to host" in status.detail


def test_an_object_of_somebody_else_is_not_adopted(cluster: Cluster, make: Make) -> None:
    """Neither is it changed, and nothing of the job is left."""
    launcher, spec = make(), job(SAY)
    other = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": spec.name}, "spec": {}}
    cluster.server.create("services", other)
    with pytest.raises(LaunchRejected, match="not of Prelaunch"):
        launcher.submit(launcher.plan(spec))

    assert cluster.server.names("configmaps") == []
    launcher.cancel(spec.name)
    assert cluster.server.names("services") == [spec.name]


def test_an_image_that_cannot_be_pulled_ends_the_job_after_a_while(cluster: Cluster, make: Make) -> None:
    """A registry may come back; the pods do not wait for ever, and none of them is left. A training that had begun is not ended."""
    launcher, spec = make(image="registry.example/none:1"), job(SAY)
    launcher.submit(launcher.plan(spec))
    begun = launcher._output(spec.name).folder / ("a" * 32)
    for file in (begun / "agent" / "node-0.json", begun / "started" / "node-0"):
        file.parent.mkdir(parents=True)
        file.touch()
    until(launcher, spec.name, SECONDS, lambda one: "ImagePull" in one.detail)
    time.sleep(1.0)
    waits = launcher.state(spec.name)
    shutil.rmtree(begun)
    states: list[JobStatus] = []
    status = until(launcher, spec.name, SECONDS, lambda one: states.append(one) or one.state.final)  # type: ignore[func-returns-value]

    assert waits.state is JobState.PENDING
    assert any("ImagePull" in one.detail and one.state is JobState.PENDING for one in states)
    assert (status.state, status.trouble) == (JobState.FAILED, Trouble.CONFIGURATION)
    assert cluster.server.names("pods") == []


def test_cancel_never_says_that_pods_of_a_silent_node_are_gone(
    cluster: Cluster, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pods may run on; once the kubelet answers again, the next cancel succeeds."""
    monkeypatch.setattr("tasks.launchers.kubernetes.launcher.CANCEL_S", 0.5)
    monkeypatch.setattr("tasks.launchers.kubernetes.launcher.UPLOAD_S", 0.0)
    launcher, spec = started(make(), job(WAIT))
    cluster.nodes[1].frozen = True
    with pytest.raises(LaunchError, match=r"may still run: .* on worker-1"):
        launcher.cancel(spec.name)
    status = make().state(spec.name)
    assert (status.state, "not known to be gone" in status.detail) == (JobState.RUNNING, True)
    assert make().submit(launcher.plan(spec)).adopted

    cluster.nodes[1].frozen = False
    make().cancel(spec.name)
    assert (make().state(spec.name).state, cluster.server.names("pods")) == (JobState.CANCELLED, [])


def test_a_gate_that_is_to_end_waits_for_no_answer(
    cluster: Cluster, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it may have begun is left, known by its name."""
    monkeypatch.setattr("tasks.launchers.kubernetes.api.READ_S", 0.3)
    monkeypatch.setattr(submission, "SILENT_S", 600.0)
    monkeypatch.setattr(submission, "AGAIN_S", 300.0)
    launcher, spec = make(), job(SAY)
    plan = launcher.plan(spec)
    cluster.server.silent.set()
    told: list[Silence] = []
    with interruptible() as stop, silences(told.append), pytest.raises(EngineUnavailable):
        threading.Timer(0.5, stop.set).start()
        launcher.submit(plan)
    cluster.server.silent.clear()

    assert {("the API server does not answer", 600.0)} == {(one.problem, one.most_s) for one in told}


ONE_FAILS = """
import os, sys, time
if os.environ["PRELAUNCH_NODE"] == "node-1":
    raise RuntimeError("my loss exploded")
time.sleep(300)
"""


def test_a_training_that_failed_on_a_node_is_ended_on_the_others(
    cluster: Cluster, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A Job per node: nobody else ends the others. What the failed node printed is kept, for a deleted pod has no log."""
    launcher, spec = make(), job(ONE_FAILS)
    launcher.submit(launcher.plan(spec))
    waits = until(launcher, spec.name, SECONDS, lambda status: "the other nodes have" in status.detail)
    monkeypatch.setattr("tasks.launchers.kubernetes.launcher.FAILED_NODE_GRACE_S", 0.0)
    ended = until_final(launcher, spec.name, SECONDS)

    assert JobState.RUNNING is waits.state and "node-1 failed; the other nodes have" in waits.detail
    assert (JobState.FAILED, Trouble.ENDED, ("node-0",)) == (ended.state, ended.trouble, ended.ended)
    cause = "node-1: RuntimeError: my loss exploded; node-1 ended with 1; the other nodes"
    assert ended.detail.startswith(cause)
    assert cluster.server.names("pods") == [] and make().state(spec.name) == ended


def test_pods_that_outlive_their_failed_workload_are_ended(cluster: Cluster, make: Make) -> None:
    """An operator leaves them alone (cleanPodPolicy None), and nobody would end a job that counts as ended."""
    launcher, spec = started(make(workload="pytorchjob"), job(WAIT))
    cluster.evict(f"{spec.name}-worker-1")
    status = until_final(launcher, spec.name, SECONDS)

    assert (status.state, status.trouble) == (JobState.FAILED, Trouble.SERVICE)
    assert (cluster.server.names("pods"), cluster.running()) == ([], [])


def test_a_job_that_somebody_deleted_was_stopped(cluster: Cluster, make: Make) -> None:
    """And what is left of it is ended."""
    launcher, spec = started(make(), job(WAIT))
    cluster.server.delete("jobs", f"{spec.name}-0")
    status = until_final(launcher, spec.name, SECONDS)

    assert (status.state, status.trouble) == (JobState.CANCELLED, Trouble.STOPPED)
    assert cluster.server.names("jobs") == []


def test_without_its_package_it_names_the_command(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """The extra was not installed: this is no error in Prelaunch."""
    launcher = make()
    plan = launcher.plan(job(WAIT))
    for name in [name for name in sys.modules if name.partition(".")[0] == "kubernetes"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "kubernetes", None)
    said = " ".join(line.text for line in launcher.preflight((plan,)))

    assert "pip install 'prelaunch[kubernetes]'" in said
    with pytest.raises(LaunchRejected, match=r"prelaunch\[kubernetes\]"):
        launcher.submit(plan)


def test_the_boot_that_the_kubelet_reports_is_kept_for_each_start(cluster: Cluster, make: Make) -> None:
    """A node may be rebooted below a pod: what the kubelet said before would make a healthy node a liar. Without the right to ask,
    only the node is known; after the end it is known without asking.
    """
    launcher, spec = started(make(), job(WAIT, nodes=1))
    before = launcher.state(spec.name).machines["node-0"]
    cluster.server.denied.add(("get", "nodes"))
    unseen = make().state(spec.name).machines["node-0"]
    cluster.server.denied.clear()
    (name,) = cluster.server.names("pods")
    with cluster.server.lock:
        cluster.server.objects["nodes"][before["engine_node"]]["status"]["nodeInfo"]["bootID"] = "another"
    unchanged = launcher.state(spec.name).machines["node-0"]
    with cluster.server.lock:
        cluster.server.objects["pods"][name]["status"]["containerStatuses"][0]["restartCount"] = 1
    after = launcher.state(spec.name).machines["node-0"]
    launcher.cancel(spec.name)

    assert unseen == {"engine_node": before["engine_node"]}
    assert (before["engine_boot_id"], after["engine_boot_id"]) == (cluster.boot_id, "another")
    assert unchanged == before  # asked once per start
