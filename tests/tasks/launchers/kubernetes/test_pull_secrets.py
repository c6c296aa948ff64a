"""What preflight says of the secrets with which images are pulled. Over the stand-in, which makes no pods here."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from checks.documents.decode import decode
from tasks.launchers.base import PreflightCheck, PreflightResult
from tasks.launchers.kubernetes.launcher import KubernetesLauncher
from tasks.launchers.kubernetes.options import KubernetesOptions
from tasks.launchers.kubernetes.pull_secrets import covers
from tests.fakes.kubernetes.cluster import IMAGE, Cluster
from tests.tasks.launchers.kubernetes.planned import JOB

OK, WRONG, UNSEEN = PreflightResult.OK, PreflightResult.WRONG, PreflightResult.UNSEEN
JSON = "kubernetes.io/dockerconfigjson"
PASSWORD = "swordfish"


def secret(
    name: str = "regcred", registry: str = "registry.example", kind: str = JSON, **data: str
) -> dict[str, Any]:
    """A Secret with credentials of that registry."""
    config = {registry: {"username": "me", "password": PASSWORD, "auth": PASSWORD}}
    kept = {".dockerconfigjson": json.dumps({"auths": config}), ".dockercfg": json.dumps(config)}
    shown = {key: base64.b64encode(value.encode()).decode() for key, value in (data or kept).items()}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "type": kind, "data": shown}


def look(
    cluster: Cluster, tmp_path: Path, *, named: tuple[str, ...] = (), **changes: Any
) -> list[PreflightCheck]:
    """What preflight says of pull secrets, with these in the pod template."""
    template = tmp_path / "pod.yaml"
    template.write_text(
        json.dumps({"spec": {"imagePullSecrets": [{"name": name} for name in named]} if named else {}})
    )
    given = {
        "image": IMAGE,
        "kubeconfig_file": cluster.kubeconfig,
        "pod_template_file": str(template),
        **changes,
    }
    launcher = KubernetesLauncher(tmp_path, decode(KubernetesOptions, given, "options"))
    found = launcher.preflight((launcher.plan(JOB),))
    others = ("API server", "rights", "objects", "nodes", "right to")
    return [check for check in found if not check.subject.startswith(others)]


def account(cluster: Cluster, name: str, *secrets: str) -> None:
    """A service account with these pull secrets."""
    made = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}}
    cluster.server.create("serviceaccounts", {**made, "imagePullSecrets": [{"name": one} for one in secrets]})


def test_without_pull_secrets_there_is_nothing_to_say(cluster: Cluster, tmp_path: Path) -> None:
    """With and without a default service account: most clusters need none."""
    assert look(cluster, tmp_path) == []
    account(cluster, "default")
    assert look(cluster, tmp_path) == []


@pytest.mark.parametrize("kind", [JSON, "kubernetes.io/dockercfg"])
def test_a_secret_that_a_kubelet_takes_is_ok(cluster: Cluster, tmp_path: Path, kind: str) -> None:
    """Of both types; nothing of it is shown but the names of its registries."""
    cluster.server.create("secrets", secret(kind=kind))
    (check,) = look(cluster, tmp_path, named=("regcred",))

    assert (check.result, check.subject) == (OK, "pull secrets")
    assert PASSWORD not in repr(check)


@pytest.mark.parametrize(
    ("made", "says"),
    [
        (None, "namespace default has none of that name"),
        (secret(kind="Opaque"), "its type is Opaque and not kubernetes.io/dockerconfigjson"),
        (secret(**{".dockerconfigjson": "{"}), "is no Docker config"),
        (secret(**{".dockerconfigjson": '{"auths": []}'}), "is no Docker config"),
        (secret(other="{}"), "is no Docker config"),
    ],
)
def test_a_secret_that_a_kubelet_leaves_out_is_wrong(
    cluster: Cluster, tmp_path: Path, made: dict[str, Any] | None, says: str
) -> None:
    """The pod template names it, so the image would not be pulled; the remedy is what to type."""
    if made is not None:
        cluster.server.create("secrets", made)
    (check,) = look(cluster, tmp_path, named=("regcred",))

    assert (check.result, check.subject) == (WRONG, "Secret regcred")
    assert says in check.text and "kubectl create secret docker-registry regcred -n default" in check.text


def test_an_image_of_another_registry_may_be_pulled_all_the_same(cluster: Cluster, tmp_path: Path) -> None:
    """It may be public, and nodes of EKS have credentials of ECR: it is not known, and refuses nothing."""
    cluster.server.create("secrets", secret(registry="registry.example:5000"))
    (check,) = look(cluster, tmp_path, named=("regcred",))

    assert check.result is UNSEEN
    assert IMAGE in check.text and "regcred" in check.text
    cluster.server.create("secrets", secret("more"))
    assert [one.result for one in look(cluster, tmp_path, named=("regcred", "more"))] == [OK]


def test_the_secrets_of_a_service_account_that_is_declared_count(cluster: Cluster, tmp_path: Path) -> None:
    """A pod without pull secrets of its own gets them; one with some does not."""
    assert [one.result for one in look(cluster, tmp_path, service_account="trainer")] == [WRONG]
    account(cluster, "trainer", "regcred")
    (missing,) = look(cluster, tmp_path, service_account="trainer")
    assert missing.result is WRONG and "service account trainer names it" in missing.text
    cluster.server.create("secrets", secret("own"))
    assert [one.result for one in look(cluster, tmp_path, named=("own",), service_account="trainer")] == [OK]
    cluster.server.create("secrets", secret())
    assert [one.result for one in look(cluster, tmp_path, service_account="trainer")] == [OK]


def test_a_stale_secret_of_the_default_service_account_refuses_nothing(
    cluster: Cluster, tmp_path: Path
) -> None:
    """Nobody declared it, and the image may be on every node."""
    account(cluster, "default", "old")
    (check,) = look(cluster, tmp_path)

    assert check.result is UNSEEN and "Secret old" in check.text


def test_without_the_right_it_is_said_with_the_rule(cluster: Cluster, tmp_path: Path) -> None:
    """What cannot be read refuses nothing, also where the template declares it: a gate with older rights still runs."""
    cluster.server.denied |= {("get", "serviceaccounts"), ("get", "secrets")}
    rule = '{"apiGroups": [""], "resources": ["%s"], "verbs": ["get"]}'
    (check,) = look(cluster, tmp_path)
    (declared,) = look(cluster, tmp_path, named=("regcred",))

    assert check.result is UNSEEN and rule % "serviceaccounts" in check.text
    assert declared.result is UNSEEN and rule % "secrets" in declared.text


@pytest.mark.parametrize(
    ("key", "image", "takes"),
    [
        ("registry.example", "registry.example/team/a:1", True),
        ("https://registry.example", "registry.example/a@sha256:0", True),
        ("http://registry.example/v2/", "registry.example/a", True),
        ("registry.example/team", "registry.example/team/a", True),
        ("registry.example/other", "registry.example/team/a", False),
        ("registry.example:5000", "registry.example:5000/a:1", True),
        ("registry.example", "registry.example:5000/a", False),
        ("*.dkr.ecr.us-east-1.amazonaws.com", "1234.dkr.ecr.us-east-1.amazonaws.com/a", True),
        ("*.example", "a.registry.example/a", False),
        ("https://index.docker.io/v1/", "nginx:1", True),
        ("docker.io", "team/a", True),
        ("https://index.docker.io/v1/", "registry.example/a", False),
        ("localhost:5000", "localhost:5000/a", True),
        ("", "registry.example/a", False),
    ],
)
def test_a_registry_is_compared_as_a_kubelet_does_it(key: str, image: str, takes: bool) -> None:
    """By host, port and the beginning of the path; a part of a host may be a pattern."""
    assert covers(key, image) is takes
