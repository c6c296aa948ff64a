"""Drills on a real Slurm cluster, where the gate or the engine notices the fault."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tasks.launchers.local.plan import ENTER
from tests.engines.slurm_cluster import SlurmCluster, of_other_debian
from tests.engines.slurm_gates import slurm_gate
from tests.engines.test_slurm_remedy import LoggingCluster, acts, gate_file, refused, remedy, state_of
from tests.engines.test_slurm_remedy import slurm as logging_slurm  # noqa: F401 - a fixture

pytestmark = [pytest.mark.root, pytest.mark.timeout(300)]
ROOT = Path(__file__).resolve().parents[2]
SLURM = '\n[remediation]\nmode = "plan"\nmachines = "slurm"\n'
ACTS = '\n[approval]\noverriders = ["U0PERSON2"]\n\n[remediation]\nmode = "act"\nmachines = "slurm"\nwait_minutes = 4\n'


def plain_gate(folder: Path) -> Path:
    """A gate file of the cluster, whose remediation only looks."""
    path = slurm_gate(folder)
    path.write_text(path.read_text() + SLURM)
    return path


@contextmanager
def drill(path: Path, *words: str) -> Iterator[None]:
    """The fault of a `prelaunch drill` in a process of its own, which SIGTERM ends: all is undone afterwards."""
    argv = (sys.executable, "-m", "flows.cli.main", "drill", words[0], str(path), *words[1:])
    child = subprocess.Popen(
        argv, stderr=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)}
    )
    assert child.stderr is not None
    try:
        while "The fault was made" not in (line := child.stderr.readline()):
            assert line, child.communicate()
        yield
    finally:
        if child.poll() is None:
            child.send_signal(signal.SIGTERM)
        _, printed = child.communicate()
    assert (0, True) == (child.returncode, "The fault is undone." in printed), printed


@pytest.mark.parametrize("name", ["killed-daemon", "frozen-process"])
def test_a_daemon_that_dies_or_freezes_is_noticed_and_comes_back(
    slurm: SlurmCluster, tmp_path: Path, name: str
) -> None:
    """slurmctld takes the node out of service; after the drill has undone the fault the node serves again."""
    start = (
        "env", f"SLURM_CONF={slurm.folder}/slurm.conf", sys.executable, "-I", ENTER, f"{slurm.name}-1", "n1",
        str(slurm.folder / "hosts"), *of_other_debian(), "slurmd", "-N", "n1", "-c",
    )  # fmt: skip
    words = (
        "--node", "n1", "--through", "env", "--pid-file", str(slurm.folder / "slurmd-n1.pid"), "--start", shlex.join(start),
    )  # fmt: skip
    before = slurm.pid("n1")

    with drill(plain_gate(tmp_path), name, *words):
        while "down*" not in slurm.run("sinfo", "-h", "-N", "-n", "n1", "-o", "%T"):
            time.sleep(0.2)
    assert (name == "frozen-process") == (before == slurm.pid("n1"))
    slurm.until_idle()


def inside(cluster: SlurmCluster, node: str) -> str:
    """What runs a command on a node, with the mounts, the network and the name that it has; also after it was rebooted."""
    enter = f'exec nsenter --target $(cat {cluster.folder}/slurmd-{node}.pid) --mount --net --uts "$@"'
    return shlex.join(("sh", "-c", enter, "inside"))


@pytest.mark.usefixtures("prefect_backend")
def test_an_xid_is_detected_and_acted_upon(logging_slurm: LoggingCluster, tmp_path: Path) -> None:  # noqa: F811
    """The line goes into the node's log; the gate refuses, and a person is called, as NVIDIA asks for an inspection after Xid 74."""
    path = gate_file(tmp_path / "shared", ACTS)
    log = logging_slurm.folder / "var_log" / "n2" / "messages"
    words = (
        "--node", "n2", "--through", inside(logging_slurm, "n2"), "--kernel-log", "/var/log/messages",
    )  # fmt: skip
    with drill(path, "xid-74", *words):
        refused(path)
    state = remedy(path)

    assert "NotRepaired" == state.name
    assert ["fence", "page"] == [act.rung.value for act in acts(path)]
    assert "idle" not in state_of(logging_slurm, "n2")
    assert "NVRM" not in log.read_text()
