"""An allocation that nobody prepared: one file and the Python of the nodes give the first verdict."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from flows.cli.main import main as command
from tests.engines.slurm_cluster import SlurmCluster

pytestmark = [pytest.mark.root, pytest.mark.timeout(180)]

LOCAL = Path(__file__).resolve().parents[2] / "checks" / "policies" / "local.json"
SCRIPTS = Path(__file__).resolve().parents[2] / "deployments" / "slurm"
FIRST_VERDICT_S = 240.0  # docs/slurm.md says a minute of this cluster; only a hang reaches it


def first_verdict(
    slurm: SlurmCluster, folder: Path, python: Path, nodes: int, *words: str
) -> subprocess.CompletedProcess[str]:
    """`srun -N NODES python3 prelaunch.pyz check` in the folder, which must end in time."""
    assert command(["node", "pack", "--out", str(folder / "prelaunch.pyz")]) == 0
    srun = (str(slurm.folder / "bin" / "srun"), f"-N{nodes}", str(python), "prelaunch.pyz")
    argv = (*srun, "check", "--instance-type", "cpu", *words)
    return subprocess.run(argv, cwd=folder, capture_output=True, text=True, timeout=FIRST_VERDICT_S)


def least_mtu(folder: Path) -> tuple[str, ...]:
    """A policy with a minimum: by the shipped one, of two nodes that differ neither is the wrong one."""
    rules = json.loads(LOCAL.read_text())
    least = {"metric": "interface_mtu_bytes", "fail_below": 1500, "cause": "CONFIGURATION"}
    rules["checks"]["network.mtu"]["rules"] = [{**least, "source": "a test"}]
    (folder / "rules.json").write_text(json.dumps(rules))
    return ("--policy", "rules.json")


@pytest.mark.parametrize("nodes", [2, pytest.param(3, marks=pytest.mark.long)])
def test_a_broken_node_is_named_and_left_out_next(slurm: SlurmCluster, tmp_path: Path, nodes: int) -> None:
    """With Python's own library alone on the nodes. Three are compared with each other, by the shipped policy."""
    words = least_mtu(tmp_path) if nodes == 2 else ()
    venv.create(tmp_path / "bare")
    namespace = f"{slurm.name}-1"
    subprocess.run(("ip", "-n", namespace, "link", "set", "eth0", "mtu", "1200"), check=True)
    try:
        done = first_verdict(slurm, tmp_path, tmp_path / "bare" / "bin" / "python", nodes, *words)
    finally:
        subprocess.run(("ip", "-n", namespace, "link", "set", "eth0", "mtu", "1500"), check=True)
    lines = done.stdout.splitlines()

    assert (done.returncode, lines[-1]) == (1, "--exclude=n1"), done.stdout + done.stderr
    assert sum(line.startswith(f"NO-GO: {nodes} of {nodes} nodes") for line in lines) == 1
    said = {
        2: "n1 network.mtu: 'has an interface with an MTU of 1,200 bytes, threshold 1,500'",
        3: "n1 network.mtu: 'MTU of the interface is 1200, but on 2 of 3 it is 1500'",
    }
    assert any(said[nodes] in line for line in lines)


@pytest.mark.long
def test_healthy_nodes_are_a_go(slurm: SlurmCluster, tmp_path: Path) -> None:
    """All quick checks, rank checks included, with an interpreter that has PyTorch."""
    done = first_verdict(slurm, tmp_path, Path(sys.executable), 2)
    lines = done.stdout.splitlines()

    assert done.returncode == 0, done.stdout + done.stderr
    assert any(line.startswith("GO: 2 of 2 nodes") for line in lines), lines
    assert not any("--exclude" in line for line in lines)


@pytest.mark.parametrize(
    ("script", "nodes"),
    [("check-node.sbatch", 1), pytest.param("check-nodes.sbatch", 2, marks=pytest.mark.long)],
)
def test_the_shipped_batch_files(slurm: SlurmCluster, tmp_path: Path, script: str, nodes: int) -> None:
    """As their comments say, with a larger number for a check and a line for each group."""
    assert command(["node", "pack", "--out", str(tmp_path / "prelaunch.pyz")]) == 0
    words = (str(SCRIPTS / script), "cpu", "--option", "training.smoke.steps=40")
    argv = (str(slurm.folder / "bin" / "sbatch"), "--wait", *words)
    environment = {**os.environ, "PRELAUNCH_PYTHON": sys.executable}
    done = subprocess.run(argv, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    said = "".join(file.read_text() for file in tmp_path.glob("*.out"))

    assert (0, True) == (done.returncode, f"GO: {nodes} of {nodes} nodes" in said), done.stderr + said
    groups = ("ENV", "COMPUTE", "TRAIN", "DDP")
    assert all(f"[{group}] " in said for group in groups) and "training.smoke: steps=40" in said
    assert nodes == 1 or "[DDP] n0/rank-0 collective.all_reduce: busbw_peak_gbps=" in said
