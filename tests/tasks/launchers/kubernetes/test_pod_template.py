"""A site's own template of a pod: what it may say, and that nothing of it is lost or overwritten.

And what a pod of a gate may do on its node, which nodes it may get, whether it may be moved, and its priority.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tasks.launchers.base import LaunchRejected, Plan, Work
from tasks.launchers.kubernetes.options import PINNABLE, Workload
from tasks.launchers.kubernetes.pod_template import checked, read_template, united
from tests.tasks.launchers.kubernetes.planned import CONFIRM, JOB, plan
from tests.tasks.launchers.kubernetes.test_objects import specs_with_pods

SHIPPED = Path(__file__).resolve().parents[4] / "deployments" / "kubernetes" / "pods"


@pytest.mark.parametrize(
    ("template", "says"),
    [
        ({"spec": {"containers": [{"name": "a", "image": "x"}]}}, "decides spec.containers\\[0\\].image"),
        ({"spec": {"nodeName": "a"}}, "decides spec.nodeName"),
        ({"spec": {"containers": [{"name": "a"}, {"name": "b"}]}}, "at most one container"),
        ({"metadata": {"labels": {"prelaunch.dev/job": "x"}}}, "decides metadata.labels.prelaunch.dev/job"),
        ({"metadata": {"name": "x"}}, "decides metadata.name"),
        ({"kind": "Pod"}, "a table with metadata and spec"),
        ({"spec": ["a"]}, "a table with metadata and spec"),
    ],
)
def test_pod_template_with_a_forbidden_value_is_rejected(template: dict[str, Any], says: str) -> None:
    """With the key, and why."""
    with pytest.raises(LaunchRejected, match=says):
        checked(template, "pods.yaml")


@pytest.mark.parametrize(
    "template",
    [
        {"spec": {"containers": [{"name": "a", "env": [{"name": "PRELAUNCH_POD", "value": "0"}]}]}},
        {"spec": {"volumes": [{"name": "prelaunch", "emptyDir": {}}]}},
        {"spec": {"containers": [{"name": "a", "resources": {"limits": {"nvidia.com/gpu": "1"}}}]}},
        {"spec": {"serviceAccountName": "other"}},
    ],
)
def test_pod_template_that_conflicts_with_the_gate_is_refused(template: dict[str, Any]) -> None:
    """And never overwritten in silence."""
    with pytest.raises(LaunchRejected, match="template"):
        plan(JOB, template, gpus_per_node=8, service_account="own")


def test_the_same_value_twice_is_no_contradiction() -> None:
    """Whoever repeats the gate file is right."""
    assert united({"a": 1, "b": {"c": 2}}, {"a": 1, "b": {"d": 3}}, "x") == {"a": 1, "b": {"c": 2, "d": 3}}


def test_a_file_that_is_no_template_is_rejected(tmp_path: Path) -> None:
    """By its name; no path is no template."""
    assert read_template("") == {}
    for text in ("[1]", "a: [", "\tx"):
        (tmp_path / "pod.yaml").write_text(text)
        with pytest.raises(LaunchRejected, match=r"pod\.yaml"):
            read_template(str(tmp_path / "pod.yaml"))
    with pytest.raises(LaunchRejected, match="cannot be read"):
        read_template("/nowhere/pod.yaml")


@pytest.mark.parametrize("path", sorted(SHIPPED.glob("*.yaml")), ids=lambda path: path.stem)
def test_every_shipped_template_is_one(path: Path) -> None:
    """With the keys that are allowed."""
    assert "spec" in read_template(str(path))


@pytest.mark.parametrize("workload", [kind.value for kind in Workload])
@pytest.mark.parametrize("work", [Work.CHECK, Work.GATE])
def test_a_namespace_that_is_restricted_takes_the_pods(workload: str, work: Work) -> None:
    """What Pod Security Standards, "Restricted", list: also every volume is of a kind that it allows, and has a limit."""
    for pod in templates(plan(replace(JOB, work=work), workload=workload)):
        spec = pod["spec"]
        (container,) = spec["containers"]

        assert spec["securityContext"]["runAsNonRoot"] and spec["securityContext"]["runAsUser"]
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        rights = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
        assert container["securityContext"] == rights
        assert not {"hostNetwork", "hostPID", "hostIPC"} & set(spec)
        kinds = [{*volume} - {"name"} for volume in spec["volumes"]]
        assert all(kind <= {"emptyDir", "projected", "configMap"} for kind in kinds)
        assert all(row["emptyDir"].get("sizeLimit") for row in spec["volumes"] if "emptyDir" in row)


def test_the_priority_is_the_gate_files() -> None:
    """A template that names another contradicts it."""
    with pytest.raises(LaunchRejected, match="priorityClassName"):
        plan(JOB, {"spec": {"priorityClassName": "other"}}, priority_class="training")


def templates(made: Plan) -> list[Any]:
    """The templates of all pods, whatever holds them."""
    bodies: list[Any] = [call.body for call in made.calls if call.body["kind"] != "Service"]
    specs = [[body["spec"]] if "template" in body["spec"] else specs_with_pods(body) for body in bodies]
    return [spec["template"] for group in specs for spec in group]


@pytest.mark.parametrize("placement", ["in_job", "pinned"])
@pytest.mark.parametrize("workload", list(Workload))
def test_every_workload_can_queue(placement: str, workload: Workload) -> None:
    """Each of its objects has the label by which Kueue holds it; of plain Jobs that is one for each node."""
    options: dict[str, Any] = {"placement": placement, "workload": workload.value, "queue": "gpu"}
    if placement == "pinned" and workload not in PINNABLE:
        pytest.skip("this workload cannot be pinned")
    jobs = [call.body for call in plan(CONFIRM, **options).calls if call.body["kind"] != "Service"]

    assert len(jobs) == (CONFIRM.nodes if workload is Workload.JOBS else 1)
    assert {job["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] for job in jobs} == {"gpu"}  # type: ignore[index]
