"""What is shipped for Kubernetes: objects of the API, and just the rights that the launcher uses."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from tasks.launchers.kubernetes.options import Workload
from tasks.launchers.kubernetes.preflight import rights
from tasks.launchers.kubernetes.workload_forms import FORMS

FOLDER = Path(__file__).resolve().parents[2] / "deployments" / "kubernetes"
BASES = sorted(path.parent for path in FOLDER.glob("*/kustomization.yaml"))
FILES = sorted(path for base in BASES for path in base.glob("*.yaml") if path.name != "kustomization.yaml")


def documents(path: Path) -> Iterator[dict[str, Any]]:
    """The objects in a file."""
    return (made for made in yaml.safe_load_all(path.read_text()) if made)


@pytest.mark.parametrize("version", ["1.25", "1.31", "1.37"])
@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_every_object_is_one_of_the_api(path: Path, version: str) -> None:
    """By the schemas of its versions, in which no unknown key is allowed."""
    assert list(documents(path))
    for made in documents(path):
        kubernetes_validate.validate(made, version, strict=True)


def test_the_role_of_a_gate_has_just_the_rights_that_it_uses() -> None:
    """No wildcard, nothing more, nothing less."""
    (role,) = (
        made for made in documents(FOLDER / "gate" / "rbac.yaml")
        if made["kind"] == "Role" and made["metadata"]["name"] == "prelaunch-gate"
    )  # fmt: skip
    granted = {
        (group, resource, verb)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    used = {
        (kind.group, f"{kind.plural}/{part}" if part else kind.plural, verb)
        for kind, verbs, part in rights(FORMS[Workload.JOBS])
        for verb in verbs
    }

    assert used == granted


def built_from(base: Path) -> int:
    """How many objects a base is made of, those of other bases included."""
    described = yaml.safe_load((base / "kustomization.yaml").read_text())
    places = [(base / resource).resolve() for resource in described["resources"]]
    made = sum(built_from(place) if place.is_dir() else len(list(documents(place))) for place in places)
    return made + len(described.get("configMapGenerator", ()))


@pytest.mark.parametrize("base", BASES, ids=lambda base: base.name)
def test_kustomize_builds_it(base: Path) -> None:
    """With every file of the folder, and in the namespace that it names."""
    if shutil.which("kubectl") is None:
        pytest.skip("there is no kubectl here, which brings kustomize")
    done = subprocess.run(
        ("kubectl", "kustomize", str(base)), capture_output=True, text=True, check=True, timeout=60
    )
    made = [one for one in yaml.safe_load_all(done.stdout) if one]
    described = yaml.safe_load((base / "kustomization.yaml").read_text())
    files = {path.name for path in base.glob("*.yaml")} - {"kustomization.yaml"}

    assert len(made) == built_from(base)
    assert files <= set(described["resources"])
    assert {one["metadata"].get("namespace", described["namespace"]) for one in made} == {
        described["namespace"]
    }
    assert {who["namespace"] for one in made for who in one.get("subjects", ())} <= {described["namespace"]}


def test_the_image_of_a_gate_in_a_cluster_has_a_digest() -> None:
    """A tag may be another image tomorrow."""
    (image,) = yaml.safe_load((FOLDER / "runner" / "kustomization.yaml").read_text())["images"]

    assert re.fullmatch(r"sha256:[0-9a-f]{64}", image["digest"]) and "newTag" not in image


@pytest.mark.parametrize("workload", [Workload.PYTORCHJOB, Workload.HYPERPODPYTORCHJOB])
def test_the_rights_on_workloads_of_operators_are_granted(workload: Workload) -> None:
    """Those of a gate, and of one more role."""
    (extra,) = (made for made in documents(FOLDER / "hyperpod" / "rbac.yaml") if made["kind"] == "Role")
    kind, verbs, _ = rights(FORMS[workload])[0]

    assert {"apiGroups": [kind.group], "resources": [kind.plural], "verbs": list(verbs)} in extra["rules"]
