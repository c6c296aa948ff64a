"""Launchers and gates for the tests' Kubernetes, whose pods see this machine's Python."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from checks.documents.decode import decode
from tasks.launchers.kubernetes.launcher import KubernetesLauncher
from tasks.launchers.kubernetes.options import KubernetesOptions
from tests.engines.kubernetes.cluster import IMAGE, KubernetesCluster
from tests.survival import few_checks
from tests.tasks.launchers.contract import Bench


def launcher(cluster: KubernetesCluster, place: Path, **changes: Any) -> KubernetesLauncher:
    """A launcher with these options, as of another process."""
    given = {
        "image": IMAGE, "kubeconfig_file": cluster.kubeconfig, "pod_template_file": cluster.template(place), "grace_s": 1.0,
        "poll_seconds": 0.3, "image_minutes": 0.05,
    }  # fmt: skip
    return KubernetesLauncher(place / "root", decode(KubernetesOptions, {**given, **changes}, "options"))


def bench(cluster: KubernetesCluster, place: Path, **changes: Any) -> Bench:
    """For the contract of all launchers."""
    return Bench(lambda: launcher(cluster, place, **changes), place, 90.0, agent=True)


TRAINS = "print('trained')"


def gate_file(
    cluster: KubernetesCluster, folder: Path, placement: str = "in_job", trains: str = TRAINS
) -> Path:
    """The shipped gate file for a cluster of kind with few checks, and a training of one line of Python."""
    python = few_checks.interpreter(folder / "few-python")
    options = [
        f'placement = "{placement}"', f'kubeconfig_file = "{cluster.kubeconfig}"', "poll_seconds = 0.3",
        f'pod_template_file = "{cluster.template(folder)}"',
    ]  # fmt: skip
    training = f"command = {json.dumps(['{python}', '-c', trains])}"
    return few_checks.kind_gate_file(folder, python, "\n".join(options), IMAGE, training)
