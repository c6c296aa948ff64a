"""Auto-resume on the stand-in of Kubernetes, where an operator's pods that failed are started again: a simulation."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tasks.gate.outcome import Decision
from tests.fakes.kubernetes.cluster import IMAGE, Cluster, kubernetes
from tests.flows.driving import request_of, run
from tests.survival import few_checks

SHIPPED = Path(__file__).resolve().parents[2] / "deployments" / "gates" / "kind-cpu.toml"
pytestmark = [pytest.mark.usefixtures("prefect_backend"), pytest.mark.timeout(180)]
# The first life of the training loses a node; with "sick" that node computes wrongly from then on.
TRAINS = """
import os, pathlib, sys
first, sick, token = pathlib.Path({first!r}), pathlib.Path({sick!r}), os.environ["PRELAUNCH_ATTEMPT"]
print("trained in", token, flush=True)
try:
    first.open("x").write(token)
except FileExistsError:
    pass
if first.read_text() in ("", token):
    if {breaks!r}:
        (sick / "worker-1").touch()
    sys.exit(1)
"""


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """Two nodes that HyperPod calls healthy."""
    folder = tmp_path / "cluster"
    folder.mkdir()
    with kubernetes(folder) as made:
        for node in made.server.objects["nodes"].values():
            node["metadata"]["labels"]["sagemaker.amazonaws.com/node-health-status"] = "Schedulable"
        yield made


def gate_file(folder: Path, cluster: Cluster, breaks: bool) -> Path:
    """The shipped gate file with few checks, as a PyTorchJob that is resumed."""
    sick = folder / "sick"
    sick.mkdir()
    python = few_checks.interpreter(folder / "few-python", sick)
    code = TRAINS.format(first=str(folder / "first"), sick=str(sick), breaks=breaks)
    options = [
        'placement = "in_job"', 'workload = "pytorchjob"', "auto_resume = true", 'reports = "volume"', 'volume_claim = "shared"',
        f'folder = "{folder / "shared"}"', f'python = "{python}"', f'kubeconfig_file = "{cluster.kubeconfig}"', "poll_seconds = 0.2",
        "grace_s = 1.0", 'code = "image"',
    ]  # fmt: skip
    command = json.dumps(["{python}", "-c", code])
    changes = {
        'placement = "in_job"': "\n".join(options),
        "one_pod_per_node = false": "one_pod_per_node = true",
        'image = "prelaunch:cpu"': f'image = "{IMAGE}"',
        'command = ["/opt/train/train_tiny.py", "--steps", "20"]': f"command = {command}\nmax_attempts = 3",
        'distributed = "torchrun"': 'distributed = "none"',
    }
    return few_checks.gate_file(SHIPPED, folder, changes)


@pytest.mark.parametrize("breaks", [True, pytest.param(False, marks=pytest.mark.long)])
def test_every_start_of_a_resumed_job_is_gated(cluster: Cluster, tmp_path: Path, breaks: bool) -> None:
    """A healthy second start trains under a token of its own. One on a node that is sick by now is refused, and trains nothing."""
    path = gate_file(tmp_path, cluster, breaks)
    with few_checks.chosen():
        _, outcome = asyncio.run(run(request_of(path)))
    lines = {line for rows in cluster.server.logs.values() for _, line in rows}
    trained = {line.removeprefix("trained in ") for line in lines if line.startswith("trained in ")}
    (out,) = (tmp_path / "shared" / "jobs").glob("*/out")
    gated = {place.parent.name for place in out.glob("*/nodes") if len(list(place.glob("*.json"))) == 2}
    said = [row.read_text() for row in sorted(out.glob("*/failure/*"))]

    assert (tmp_path / "first").read_text() in trained <= gated
    if breaks:
        assert len(trained) == 1 and len(gated) > 1
        assert outcome.decision is not Decision.LAUNCHED or outcome.code != 0
        assert any("site.adds" in one for one in said), said
    else:
        assert (Decision.LAUNCHED, 0) == (outcome.decision, outcome.code), outcome.reason
        assert len(trained) == len(gated) == 2
