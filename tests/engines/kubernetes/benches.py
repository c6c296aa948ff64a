"""Launchers and gates for the tests' Kubernetes, whose pods see this machine's Python."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from checks.documents.decode import decode
from tasks.gate.outcome import GateOutcome
from tasks.launchers.kubernetes.launcher import KubernetesLauncher
from tasks.launchers.kubernetes.options import KubernetesOptions
from tests.engines.kubernetes.cluster import IMAGE, ROOT, KubernetesCluster
from tests.flows.driving import request_of, run
from tests.survival import few_checks
from tests.tasks.launchers.contract import Bench

SHIPPED = ROOT / "deployments" / "gates" / "kind-cpu.toml"


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
        f'placement = "{placement}"', f'python = "{python}"', f'kubeconfig_file = "{cluster.kubeconfig}"', "poll_seconds = 0.3",
        f'pod_template_file = "{cluster.template(folder)}"', "grace_s = 1.0",
    ]  # fmt: skip
    changes = {
        'placement = "in_job"': "\n".join(options),
        "one_pod_per_node = false": "one_pod_per_node = true",
        'image = "prelaunch:cpu"': f'image = "{IMAGE}"',
        'command = ["/opt/train/train_tiny.py", "--steps", "20"]': f"command = {json.dumps(['{python}', '-c', trains])}",
        'distributed = "torchrun"': 'distributed = "none"',
    }
    return few_checks.gate_file(SHIPPED, folder, changes)


def gate(path: Path, **more: Any) -> GateOutcome:
    """Run the flow to its end."""
    with few_checks.chosen():
        _, outcome = asyncio.run(run(request_of(path, **more)))
    return outcome


def kept(path: Path, outcome: GateOutcome, name: str) -> Any:
    """A document that the gate kept."""
    return json.loads((path.parent / "store" / "gates" / outcome.gate_id / name).read_bytes())
