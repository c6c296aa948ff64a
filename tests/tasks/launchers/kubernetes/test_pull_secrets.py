"""What preflight says of the secrets with which images are pulled."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import pytest

from tasks.launchers.base import PreflightResult
from tasks.launchers.kubernetes.api import Api, ObjectKind
from tasks.launchers.kubernetes.preflight import _pull_secrets

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
