"""JobSpec -> objects of Kubernetes: as in tests/golden/kubernetes, and as the API's own schemas want them. UPDATE_GOLDEN=1 writes."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest

from checks import bundle as bundles
from tasks.gate.context import open_gate_context
from tasks.gate.jobs import TORCHRUN, planned_jobs
from tasks.gate_file.request import GateRequest
from tasks.launchers.base import JobSpec, LaunchRejected, Work
from tasks.launchers.kubernetes.objects import config_maps, secret
from tasks.launchers.kubernetes.options import Workload
from tasks.launchers.kubernetes.pod import port_of
from tests.fakes.kubernetes.operator_schemas import problem_of
from tests.tasks.launchers.golden import GOLDEN, gates_of, golden_text
from tests.tasks.launchers.kubernetes.planned import CONFIRM, JOB, PASSED, options, plan, pods, variables

OBJECTS, WORKLOADS = GOLDEN / "kubernetes", GOLDEN / "kubernetes_workloads"
OPERATORS = ("pytorchjob", "hyperpodpytorchjob")
GATES = gates_of("kubernetes")
ON_S3 = {"reports": "s3", "prefix": "s3://bucket/p", "region": "us-east-1"}
RESUMED: dict[str, Any] = {"auto_resume": True, **ON_S3}
VERSIONS = ("1.25", "1.37")
CONTAINER: dict[str, Any] = {
    "name": "anything",
    "env": [{"name": "SITE", "value": "1"}],
    "resources": {"limits": {"memory": "1Ti"}, "requests": {"cpu": "4"}},
    "volumeMounts": [{"name": "shm", "mountPath": "/dev/shm"}],
}
TEMPLATE: dict[str, Any] = {
    "metadata": {"labels": {"team": "a"}},
    "spec": {
        "hostNetwork": True,
        "nodeSelector": {"kind": "p5"},
        "imagePullSecrets": [{"name": "pull"}],
        "containers": [CONTAINER],
        "volumes": [{"name": "shm", "emptyDir": {}}],
    },
}
# The site's own alternatives of nodes; another user and rights, and another home.
ZONES = [{"matchExpressions": [{"key": "zone", "operator": "In", "values": [zone]}]} for zone in "ab"]
IN_ZONES = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": ZONES}}
ROOT = {"securityContext": {"privileged": True}, "env": [{"name": "HOME", "value": "/root"}]}
PINNED, TORCH = {"placement": "pinned"}, replace(JOB, training=(*TORCHRUN, "train.py"))
KINDS: dict[str, Any] = {
    kind.value: {"workload": kind.value, "gpus_per_node": 8, "efa_per_node": 32, **(RESUMED if kind.value in OPERATORS else {})}
    for kind in Workload
}  # fmt: skip
FEATURES: Mapping[str, tuple[JobSpec, Mapping[str, Any], Mapping[str, Any]]] = {
    **{kind: (JOB, {}, changes) for kind, changes in KINDS.items()},
    # Each pod gets the very node that passed, a term for each of the site's alternatives.
    "pinned": (CONFIRM, {}, PINNED),
    "pinned_in_zones": (CONFIRM, {"spec": {"affinity": {"nodeAffinity": IN_ZONES}}}, PINNED),
    # So that a queue can admit a pinned training as a whole: a term per node, and each pod finds out which of them it has.
    "pinned_indexed": (CONFIRM, {}, {**PINNED, "workload": "indexed", "queue": "gpu"}),
    "excludes": (replace(JOB, exclude=("worker-9", "worker-8")), {}, {}),
    # A term per node; its pods tolerate the cordon and our taint.
    "retest": (replace(JOB, exclude=("worker-9",)), {}, {"only_nodes": "worker-1,worker-0"}),
    "template": (JOB, TEMPLATE, {"gpus_per_node": 8}),
    "template_for_root": (JOB, {"spec": {"securityContext": {"runAsUser": 0}, "containers": [ROOT]}}, {}),
    "priority": (JOB, {}, {"priority_class": "training"}),
    # torchrun waits 600 s for its store by default, and as long as the pods do where a node may be replaced.
    "torchrun": (TORCH, {}, {"workload": "pytorchjob"}),
    "torchrun_resumed": (TORCH, {}, {"workload": "pytorchjob", **RESUMED}),
}


@pytest.mark.parametrize("path", GATES, ids=lambda path: path.stem)
def test_the_objects_of_shipped_gate_files_are_the_golden_ones(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All that is planned, but for the files."""
    monkeypatch.chdir(tmp_path)
    context = open_gate_context(GateRequest(gate_file=str(path)))
    made = [call.body for job in planned_jobs(context, 600.0) for call in context.launcher.plan(job).calls]
    text = json.dumps(made, indent=1) + "\n"

    assert text == golden_text(OBJECTS / f"{path.stem}.json", text)


@pytest.mark.parametrize("name", FEATURES)
def test_the_objects_of_each_kind_and_feature_are_the_golden_ones(name: str) -> None:
    """Also of the kinds that no shipped gate file has. Only plain Jobs ran on a real server."""
    job, template, changes = FEATURES[name]
    text = json.dumps([call.body for call in plan(job, template, **changes).calls], indent=1) + "\n"

    assert text == golden_text(WORKLOADS / f"{name}.json", text)


def test_every_golden_file_is_of_a_shipped_gate_file_or_a_feature() -> None:
    """A file that nobody compares says nothing."""
    assert {path.stem for path in GATES} == {path.stem for path in OBJECTS.iterdir()}
    assert set(FEATURES) == {path.stem for path in WORKLOADS.iterdir()}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("job", "changes"),
    [
        (JOB, {}),
        (JOB, {"workload": "indexed", "queue": "gpu", "gpus_per_node": 8, "efa_per_node": 32}),
        (CONFIRM, {"placement": "pinned"}),
        (CONFIRM, {"placement": "pinned", "queue": "gpu"}),
        (CONFIRM, {"placement": "pinned", "workload": "indexed", "queue": "gpu", "priority_class": "training"}),
        (replace(JOB, ask_s=600.0, exclude=("worker-9",)), {"reports": "volume", "folder": "/fsx", "volume_claim": "fsx"}),
        (replace(JOB, work=Work.CHECK), ON_S3),
    ],
)  # fmt: skip
def test_every_object_is_one_of_the_api(version: str, job: JobSpec, changes: dict[str, Any]) -> None:
    """By the schemas of its versions, in which no unknown key is allowed. podReplacementPolicy came with 1.28."""
    made = plan(job, **changes)
    for body in (*config_maps(made), secret(made, b"0" * 65), *(dict(call.body) for call in made.calls)):
        if version < "1.28" and body["kind"] == "Job":
            body = {**body, "spec": {k: v for k, v in body["spec"].items() if k != "podReplacementPolicy"}}
        kubernetes_validate.validate(body, version, strict=True)


def test_no_secret_is_in_an_object_that_is_none() -> None:
    """Whoever may read Jobs and ConfigMaps learns no value of the training's variables."""
    made = plan()

    assert "secret's" not in json.dumps([*config_maps(made), *(call.body for call in made.calls)])
    assert set(secret(made, b"key")["data"]) == {"NCCL_DEBUG", "WANDB_API_KEY", "exchange.key"}


def required_nodes(pod: Any) -> Any:
    """The alternatives by which the pod's node is chosen."""
    affinity = pod["spec"]["affinity"]["nodeAffinity"]
    return affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]


def test_before_anything_passed_the_plan_has_a_name_that_the_api_takes() -> None:
    """The preflight creates the objects with dryRun, and a real API server refuses capitals in the name of a node."""
    empty = bundles.dump(replace(PASSED, nodes=()))
    made = plan(replace(CONFIRM, files={**CONFIRM.files, "pass.json": empty}), placement="pinned")
    (name,) = required_nodes(pods(made)[0])[0]["matchFields"][0]["values"]

    assert re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", name)


def test_jobs_on_one_host_have_ports_of_their_own() -> None:
    """Pods with hostNetwork share their node's; below the kernel's ephemeral ports."""
    ports = {port_of(f"gate-{number}") for number in range(100)}
    assert len(ports) > 95
    assert all(20000 <= port < 32768 and port % 4 == 0 for port in ports)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"name": "Gate"}, "not of the form"),
        ({"name": "a" * 60}, "not of the form"),
        ({"max_runtime_s": 0.0}, "above 0"),
        ({"files": {"exchange.key": b""}}, "plain, free name"),
        ({"environment": {"PRELAUNCH_POD": "1"}}, "PRELAUNCH_POD"),
        ({"environment": {"BASH_ENV": "x"}}, "BASH_ENV"),
        ({"request": {"x": 1}}, "SageMaker"),
    ],
)
def test_a_job_that_cannot_be_is_rejected(changes: dict[str, Any], says: str) -> None:
    """Before anything is made."""
    with pytest.raises(LaunchRejected, match=says):
        plan(replace(JOB, **changes))


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"reports": "s3"}, "prefix and a region"),
        ({"prefix": "s3://bucket/p", "region": "us-east-1"}, "prefix and a region"),
        ({"reports": "volume"}, "needs a folder"),
        ({"folder": "/x"}, "needs a folder"),
        ({"volume_claim": "x"}, "Name a folder"),
        ({"workload": "indexed", "placement": "pinned", "one_pod_per_node": False}, "one_pod_per_node"),
        ({"auto_resume": True}, "HyperPod resumes no other"),
        ({"auto_resume": True, "workload": "pytorchjob"}, "may be gone"),
        ({**RESUMED, "workload": "pytorchjob", "exclude_failed": True}, "Set one of them"),
        ({"workload": "pytorchjob", "placement": "pinned"}, 'workload = "jobs"'),
    ],
)
def test_options_that_contradict_each_other_are_rejected(changes: dict[str, Any], says: str) -> None:
    """With the remedy."""
    with pytest.raises(LaunchRejected, match=says):
        options(**changes)


def test_a_volume_for_reports_has_to_be_somewhere() -> None:
    """As a claim, or in the site's template."""
    with pytest.raises(LaunchRejected, match="volume_claim"):
        plan(reports="volume", folder="/fsx")
    template = {"spec": {"volumes": [{"name": "reports", "nfs": {"server": "x", "path": "/"}}]}}
    (pod, _) = pods(plan(JOB, template, reports="volume", folder="/fsx"))

    assert variables(pod)["PRELAUNCH_OUT"] == f"/fsx/jobs/{JOB.name}/out"


def test_a_pass_without_nodes_of_kubernetes_cannot_pin() -> None:
    """Such a pass came from another engine."""
    without = replace(PASSED, nodes=tuple(replace(node, identity={}) for node in PASSED.nodes))
    with pytest.raises(LaunchRejected, match="on which nodes"):
        plan(replace(CONFIRM, files={"pass.json": bundles.dump(without)}), placement="pinned")
    assert options().placement.value == "in_job"


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("workload", OPERATORS)
@pytest.mark.parametrize("changes", [{}, RESUMED])
def test_pods_of_operators_are_pods_of_the_api(version: str, workload: str, changes: dict[str, Any]) -> None:
    """The operators' own objects were never run; what is in them is compared with the schema of a Job's pod."""
    body: Any = plan(workload=workload, **changes).calls[-1].body
    (row,) = specs_with_pods(body)
    spec = {"template": {**row["template"], "spec": {**row["template"]["spec"], "restartPolicy": "Never"}}}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": body["metadata"], "spec": spec}
    kubernetes_validate.validate(job, version, strict=True)


@pytest.mark.parametrize("workload", OPERATORS)
@pytest.mark.parametrize("changes", [{}, RESUMED, {"gpus_per_node": 8, "efa_per_node": 32}])
def test_objects_of_operators_have_fields_of_their_clients(workload: str, changes: dict[str, Any]) -> None:
    """Neither kind was ever run: a field that an operator does not know would be dropped silently, or refused."""
    body = json.loads(json.dumps(plan(workload=workload, **changes).calls[-1].body))
    assert problem_of(body) == ""
    body["spec"]["runPolicy"]["backofLimit"] = 1
    assert "backofLimit" in problem_of(body)


def specs_with_pods(body: dict[str, Any]) -> list[dict[str, Any]]:
    """The replicas of an operator's object."""
    spec = body["spec"]
    return [*spec.get("pytorchReplicaSpecs", {}).values(), *spec.get("replicaSpecs", ())]
