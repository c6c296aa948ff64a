"""The example training: real ranks that learn, resume, and refuse another machine."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from checks.bundle import Pass, PassedNode, dump
from checks.probes.host.system import identity_of_node
from checks.process.free_ports import free_port

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "deployments" / "examples" / "train_tiny.py"
LAST = re.compile(r"trained (\d+) steps from (scratch|step \d+): loss ([\d.]+) -> ([\d.]+)")

pytestmark = pytest.mark.timeout(180)


def train(folder: Path, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
    """Two ranks on this machine."""
    port = free_port("127.0.0.1")
    torchrun = ("-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", str(port))
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT), **more}
    argv = (sys.executable, *torchrun, str(SCRIPT), *words)
    return subprocess.run(argv, cwd=folder, env=environment, capture_output=True, text=True)


def one_rank(folder: Path, *argv: str, **more: str) -> subprocess.CompletedProcess[str]:
    """A rank alone, as torchrun starts it."""
    port = free_port("127.0.0.1")
    alone = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    environment = {**os.environ, **alone, "OMP_NUM_THREADS": "1", **more}
    return subprocess.run(
        (sys.executable, *argv), cwd=folder, env=environment, capture_output=True, text=True
    )


@pytest.mark.long
def test_example_training_learns_and_resumes_from_the_last_valid_checkpoint(tmp_path: Path) -> None:
    """The loss falls; a checkpoint that was cut short is passed over for the one before it."""
    first = LAST.search(train(tmp_path, "--steps", "40", "--checkpoint-every", "20").stdout)
    newest = tmp_path / "checkpoints" / "step-00000040.pt"
    newest.write_bytes(newest.read_bytes()[:1000])
    again = LAST.search(train(tmp_path, "--steps", "50", "--checkpoint-every", "20").stdout)

    assert first is not None and again is not None
    assert first.groups()[:2] == ("40", "scratch")
    assert float(first[4]) < 0.5 * float(first[3])
    assert again.groups()[:2] == ("30", "step 20")
    assert float(again[3]) < 0.5 * float(first[3])
    assert not list((tmp_path / "checkpoints").glob(".*"))


def test_example_training_refuses_a_machine_that_was_not_proven(tmp_path: Path) -> None:
    """Its first act is to confirm that this is the machine that passed, also where it has a package `checks` of its own."""
    other = {**identity_of_node(), "boot_id": "another"}
    token = Pass(1, "g", "d", "2026-01-01T00:00:00Z", (PassedNode("node-0", 0, other),))
    (tmp_path / "pass.json").write_bytes(dump(token))

    (tmp_path / "checks").mkdir()
    (tmp_path / "checks" / "__init__.py").write_text("raise SystemExit('a package of the training itself')")
    given = {"PRELAUNCH_PASS": str(tmp_path / "pass.json"), "PRELAUNCH_NODE": "node-0"}
    done = one_rank(tmp_path, str(SCRIPT), **given, PYTHONPATH=f"{tmp_path}:{ROOT}")

    assert done.returncode != 0
    assert "not the machine that was proven: boot_id was another" in done.stderr
    assert "step 1" not in done.stdout


WRAPPED = """
import atexit, runpy, sys
script, *sys.argv[1:] = sys.argv[1:]
atexit.register(print, "the interpreter ends")
runpy.run_path(script, run_name="__main__")
"""


def test_a_rank_does_not_wait_for_the_end_of_the_interpreter(tmp_path: Path) -> None:
    """A thread of gloo that drops a tensor then would abort the process, and the gate would say that the training failed."""
    done = one_rank(tmp_path, "-c", WRAPPED, str(SCRIPT), "--steps", "1")

    assert 0 == done.returncode, done.stderr
    assert "trained 1 steps from scratch" in done.stdout and "the interpreter ends" not in done.stdout
