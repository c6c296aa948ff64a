"""A stand-in of Kubernetes for each test of this folder, and launchers for it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from checks.documents.decode import decode
from tasks.launchers.kubernetes import submit as submission
from tasks.launchers.kubernetes.launcher import KubernetesLauncher
from tasks.launchers.kubernetes.options import KubernetesOptions
from tests.fakes.kubernetes.cluster import IMAGE, Cluster, kubernetes
from tests.tasks.launchers.kubernetes.jobs import Make


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """Two nodes, and an API server for which a launcher waits for a moment."""
    monkeypatch.setattr(submission, "SILENT_S", 1.0)
    monkeypatch.setattr(submission, "AGAIN_S", 0.05)
    folder = tmp_path / "cluster"
    folder.mkdir()
    with kubernetes(folder) as made:
        yield made
        assert [] == [name for name in made.running() if made.server.objects["pods"].get(name) is None]


@pytest.fixture
def make(cluster: Cluster, tmp_path: Path) -> Make:
    """Launchers with these options, each as of another process."""

    def made(**changes: Any) -> KubernetesLauncher:
        # The pods have the checkout's code: to unpack and compile it in each of them was most of these tests' time.
        given = {
            "image": IMAGE, "kubeconfig_file": cluster.kubeconfig, "code": "image", "grace_s": 1.0, "poll_seconds": 0.1,
            "image_minutes": 0.01,
        }  # fmt: skip
        options = decode(KubernetesOptions, {**given, **changes}, "options")
        return KubernetesLauncher(tmp_path / "root", options)

    return made
