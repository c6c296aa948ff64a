"""An allocation that nobody prepared: one file and the Python of the nodes give the first verdict."""

from __future__ import annotations

import subprocess
import venv
from pathlib import Path

import pytest

from flows.cli.main import main as command
from tests.engines.slurm_cluster import SlurmCluster

pytestmark = [pytest.mark.root, pytest.mark.timeout(180)]


def test_a_broken_node_is_named_and_left_out_of_the_next_srun(
    slurm: SlurmCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`prelaunch node pack; srun -N4 python3 prelaunch.pyz check`, with Python's own library alone on the nodes."""
    monkeypatch.chdir(tmp_path)
    packed = command(["node", "pack"])
    namespace = f"{slurm.name}-1"
    subprocess.run(("ip", "-n", namespace, "link", "set", "eth0", "mtu", "1200"), check=True)
    venv.create(tmp_path / "bare")
    python, packed_file = tmp_path / "bare" / "bin" / "python", tmp_path / "prelaunch.pyz"
    try:
        srun = (str(slurm.folder / "bin" / "srun"), "-N4", str(python), str(packed_file))
        argv = (*srun, "check", "--instance-type", "cpu")
        done = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120)
    finally:
        subprocess.run(("ip", "-n", namespace, "link", "set", "eth0", "mtu", "1500"), check=True)
    lines = done.stdout.splitlines()

    assert (packed, done.returncode, lines[-1]) == (0, 1, "--exclude=n1"), done.stdout + done.stderr
    assert sum(line.startswith("NO-GO: 4 of 4 nodes") for line in lines) == 1
    assert any(
        "n1 network.mtu: 'interface_mtu_bytes is 1200, but on 3 of 4 it is 1500'" in line for line in lines
    )
