"""What is shipped for Kubernetes: objects of the API, and just the rights that the launcher uses."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from checks.bundle import load, plan_of
from checks.documents.report import dump_plain
from checks.policy import Rule
from tasks.launchers.kubernetes.options import Workload
from tasks.launchers.kubernetes.preflight import rights
from tasks.launchers.kubernetes.workload_forms import FORMS
from tasks.machines import kubernetes
from tests.container.agents import fake_python, make_bundle

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "deployments" / "kubernetes"
BASES = sorted(path.parent for path in FOLDER.glob("*/kustomization.yaml"))
EXAMPLES = sorted((FOLDER / "examples").glob("*.yaml"))
FILES = sorted(path for base in BASES for path in base.glob("*.yaml") if path.name != "kustomization.yaml")


def documents(path: Path) -> Iterator[dict[str, Any]]:
    """The objects in a file."""
    return (made for made in yaml.safe_load_all(path.read_text()) if made)


def roles(base: str, *kinds: str) -> Iterator[dict[str, Any]]:
    """The roles of these kinds that a base has."""
    return (made for made in documents(FOLDER / base / "rbac.yaml") if made["kind"] in kinds)


def granted(role: dict[str, Any]) -> set[tuple[str, ...]]:
    """What a role allows: group, resource and verb."""
    rules = role["rules"]
    return {right for row in rules for right in product(row["apiGroups"], row["resources"], row["verbs"])}


def kustomization(base: str) -> dict[str, Any]:
    """What a base is made of."""
    return dict(yaml.safe_load((FOLDER / base / "kustomization.yaml").read_text()))


@pytest.mark.parametrize("version", ["1.25", "1.31", "1.37"])
@pytest.mark.parametrize("path", [*FILES, *EXAMPLES], ids=lambda path: f"{path.parent.name}/{path.name}")
def test_every_object_is_one_of_the_api(path: Path, version: str) -> None:
    """By the schemas of its versions, in which no unknown key is allowed."""
    assert list(documents(path))
    for made in documents(path):
        kubernetes_validate.validate(made, version, strict=True)


def test_the_role_of_a_gate_has_just_the_rights_that_it_uses() -> None:
    """No wildcard, nothing more, nothing less."""
    (role,) = (one for one in roles("gate", "Role") if one["metadata"]["name"] == "prelaunch-gate")
    uses = [(kind, verb, part) for kind, verbs, part in rights(FORMS[Workload.JOBS]) for verb in verbs]
    used = {(kind.group, f"{kind.plural}/{part}" if part else kind.plural, verb) for kind, verb, part in uses}

    assert used == granted(role)


def built_from(base: Path) -> int:
    """How many objects a base is made of, those of other bases included."""
    described = kustomization(base.name)
    places = [(base / resource).resolve() for resource in described["resources"]]
    made = sum(built_from(place) if place.is_dir() else len(list(documents(place))) for place in places)
    return made + len(described.get("configMapGenerator", ()))


@pytest.mark.parametrize("base", BASES, ids=lambda base: base.name)
def test_kustomize_builds_it(base: Path) -> None:
    """With every file of the folder, and in the namespace that it names."""
    if shutil.which("kubectl") is None:
        pytest.skip("there is no kubectl here, which brings kustomize")
    done = subprocess.run(("kubectl", "kustomize", str(base)), capture_output=True, text=True, check=True)
    made = [one for one in yaml.safe_load_all(done.stdout) if one]
    described = kustomization(base.name)
    files = {path.name for path in base.glob("*.yaml")} - {"kustomization.yaml"}

    assert len(made) == built_from(base)
    assert files <= set(described["resources"])
    home = described["namespace"]
    assert {one["metadata"].get("namespace", home) for one in made} == {home}
    assert {who["namespace"] for one in made for who in one.get("subjects", ())} <= {described["namespace"]}
    names = {(one["kind"], one["metadata"]["name"]) for one in made}
    assert {(one["roleRef"]["kind"], one["roleRef"]["name"]) for one in made if "roleRef" in one} <= names
    wide = [name for kind, name in names if kind.startswith("Cluster")]
    assert all(name.endswith(f":{home}") for name in wide)
    for one in made:
        kubernetes_validate.validate(one, "1.31", strict=True)


@pytest.mark.parametrize("base", ["gate", "hyperpod", "remediation"])
def test_cluster_wide_objects_bear_the_namespace_in_their_names(base: str) -> None:
    """So that the gate of another namespace takes nothing over, and its removal removes nothing of this one."""
    (replaced,) = kustomization(base)["replacements"]
    option = {"delimiter": ":", "index": 1}
    targets = [target for target in replaced["targets"] if target.get("options") == option]
    places = {(target["select"]["kind"], field) for target in targets for field in target["fieldPaths"]}
    wide = [*roles("gate" if base == "hyperpod" else base, "ClusterRole", "ClusterRoleBinding")]
    names = {made["metadata"]["name"] for made in wide}

    assert ("metadata.namespace", 2) == (replaced["source"]["fieldPath"], len(wide))
    assert {
        ("ClusterRole", "metadata.name"),
        ("ClusterRoleBinding", "metadata.name"),
        ("ClusterRoleBinding", "roleRef.name"),
    } == places
    assert all(name.endswith(":prelaunch") for name in names)
    assert {made["roleRef"]["name"] for made in wide if "roleRef" in made} <= names


def test_no_base_is_in_a_namespace_of_others() -> None:
    """A gate reads secrets and pods of its namespace."""
    assert {"prelaunch", "hyperpod-prelaunch"} == {kustomization(base.name)["namespace"] for base in BASES}


def test_prometheus_may_scrape_a_training() -> None:
    """From its own namespace, on any port: what a training serves is its own decision."""
    (policy,) = documents(FOLDER / "gate" / "network-policy.yaml")
    (rule,) = policy["spec"]["ingress"]

    assert "ports" not in rule
    assert ["podSelector", "namespaceSelector"] == [key for row in rule["from"] for key in row]


def test_every_empty_folder_of_a_pod_has_a_limit() -> None:
    """A node whose disk is full ends the pods of others."""
    watch = ROOT / "deployments" / "monitoring" / "kubernetes" / "watch-daemonset.yaml"
    kinds = ("Pod", "Job", "DaemonSet")
    objects = [made for path in (*FILES, *EXAMPLES, watch) for made in documents(path)]
    pods = [one["spec"].get("template") or one for one in objects if one["kind"] in kinds]
    volumes = [volume for pod in pods for volume in pod["spec"]["volumes"] if "emptyDir" in volume]

    assert volumes and all(volume["emptyDir"].get("sizeLimit") for volume in volumes)


@pytest.mark.parametrize("gate", ["eks-p5", "eks-p5-injob", "hyperpod-eks"])
def test_the_images_of_a_gate_file_have_digests(gate: str) -> None:
    """A tag may be another image tomorrow; nor has the image of a gate in a cluster one."""
    made = tomllib.loads((FOLDER.parent / "gates" / f"{gate}.toml").read_text())
    (runner,) = kustomization("runner")["images"]

    for image in (made["cluster"]["options"]["image"], made["training"]["image"]):
        assert re.fullmatch(r"[^@:]+@sha256:[0-9a-f]{64}", image)
    assert re.fullmatch(r"sha256:[0-9a-f]{64}", runner["digest"]) and "newTag" not in runner


@pytest.mark.parametrize("workload", [Workload.PYTORCHJOB, Workload.HYPERPODPYTORCHJOB])
def test_the_rights_on_workloads_of_operators_are_granted(workload: Workload) -> None:
    """Those of a gate, and of one more role."""
    (extra,) = roles("hyperpod", "Role")
    kind, verbs, _ = rights(FORMS[workload])[0]

    assert {"apiGroups": [kind.group], "resources": [kind.plural], "verbs": list(verbs)} in extra["rules"]


def test_the_rights_of_remediation_are_just_those_that_it_uses() -> None:
    """Apart from the gate's, which may change no node."""
    (role,) = roles("remediation", "ClusterRole")
    used = {(kind.plural, verb) for kind, verbs in kubernetes.RIGHTS for verb in verbs}
    others = [role for base in ("gate", "hyperpod") for role in roles(base, "Role", "ClusterRole")]
    gates = {verb for one in others for _, resource, verb in granted(one) if resource == "nodes"}

    assert used == {right[1:] for right in granted(role)}
    assert gates == {"get", "list"}


def test_the_init_container_of_the_example_runs_the_checks_of_its_node(tmp_path: Path) -> None:
    """The same words but for the instance type, with the exit code of the verdict. The measurements are made up:
    tests/engines/test_slurm_unprepared.py makes them, with the same command.
    """
    (pod,) = documents(FOLDER / "examples" / "init-container.yaml")
    (container,) = pod["spec"]["initContainers"]
    local = {"p5.48xlarge": "cpu", "/prelaunch": str(tmp_path)}
    words = [local.get(word, word) for word in container["args"]]
    assert container["command"] == ["python3", "-m", "container.agent.allocation"]
    policy = tmp_path / "policy.json"
    bundle = load(make_bundle())
    lines = dict(bundle.policy.checks)
    for planned in plan_of(bundle)[1]:
        held = {contents.metric for contents in planned.holds}
        number = next(metric for metric in planned.metrics if metric not in held)
        if planned.check in lines:
            lines[planned.check] = replace(lines[planned.check], rules=(Rule(number, "the test", equals=1),))
    policy.write_bytes(dump_plain(replace(bundle.policy, checks=lines)))
    argv = (sys.executable, "-m", "container.agent.allocation", *words, "--policy", str(policy))
    own = {**os.environ, "PRELAUNCH_PYTHON": str(fake_python(tmp_path))}
    ended = {
        part: subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, env={**own, "FAKE": part})
        for part in ("healthy", "wrong", "silent")
    }

    assert {"healthy": 0, "wrong": 1, "silent": 3} == {part: done.returncode for part, done in ended.items()}
    counted = {part: ": 1 of 1 nodes" in done.stdout for part, done in ended.items()}
    assert {"healthy": True, "wrong": True, "silent": False} == counted


@pytest.mark.parametrize(
    ("gate", "base"), [("eks-p5", "gate"), ("eks-p5-injob", "gate"), ("hyperpod-eks", "hyperpod")]
)
def test_a_gate_file_runs_in_the_namespace_in_which_it_has_its_rights(gate: str, base: str) -> None:
    """Both as they are shipped."""
    options = tomllib.loads((FOLDER.parent / "gates" / f"{gate}.toml").read_text())["cluster"]["options"]

    assert kustomization(base)["namespace"] == options["namespace"]
