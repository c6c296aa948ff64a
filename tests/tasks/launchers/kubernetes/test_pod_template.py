"""A site's own template of a pod: what it may say, and that nothing of it is lost or overwritten."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tasks.launchers.base import LaunchRejected
from tasks.launchers.kubernetes.pod_template import checked, read_template, united
from tests.tasks.launchers.kubernetes.planned import JOB, plan, pods, variables

SHIPPED = Path(__file__).resolve().parents[4] / "deployments" / "kubernetes" / "pods"
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


def test_pod_contains_all_of_the_site_template() -> None:
    """Beside what the gate adds."""
    pod = pods(plan(JOB, TEMPLATE, gpus_per_node=8))[0]
    spec, container = pod["spec"], pod["spec"]["containers"][0]
    limits = {"memory": "1Ti", "nvidia.com/gpu": "8"}

    assert {"team": "a", "prelaunch.dev/job": JOB.name}.items() <= pod["metadata"]["labels"].items()
    assert (spec["nodeSelector"], spec["imagePullSecrets"]) == ({"kind": "p5"}, [{"name": "pull"}])
    assert container["resources"] == {"limits": limits, "requests": {"cpu": "4"}}
    assert variables(pod)["SITE"] == "1"
    assert [mount["mountPath"] for mount in container["volumeMounts"]].count("/dev/shm") == 1
    assert spec["dnsPolicy"] == "ClusterFirstWithHostNet"


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
