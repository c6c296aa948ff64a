"""What is shipped for Kubernetes: objects of the API, and just the rights that the launcher uses."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from tasks.launchers.kubernetes.preflight import RIGHTS

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
        for kind, verbs, part in RIGHTS
        for verb in verbs
    }

    assert used == granted


@pytest.mark.parametrize("base", BASES, ids=lambda base: base.name)
def test_kustomize_builds_it(base: Path) -> None:
    """With every file of the folder, and in the namespace that it names."""
    if shutil.which("kubectl") is None:
        pytest.skip("there is no kubectl here, which brings kustomize")
    done = subprocess.run(
        ("kubectl", "kustomize", str(base)), capture_output=True, text=True, check=True, timeout=60
    )
    made = [one for one in yaml.safe_load_all(done.stdout) if one]
    expected = [one for path in FILES if path.parent == base for one in documents(path)]
    namespace = yaml.safe_load((base / "kustomization.yaml").read_text())["namespace"]

    assert len(made) == len(expected)
    assert {one["metadata"].get("namespace", namespace) for one in made} == {namespace}
    assert {who["namespace"] for one in made for who in one.get("subjects", ())} <= {namespace}
