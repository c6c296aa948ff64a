"""Every drill on a real Slurm cluster, where the gate or the engine notices the fault."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tasks.launchers.local.plan import ENTER
from tasks.remediation.model import ActState, Proof
from tests.engines.slurm_cluster import SlurmCluster, of_other_debian, running_cluster
from tests.engines.slurm_gates import slurm_gate
from tests.engines.test_slurm_remedy import LoggingCluster, acts, gate_file, refused, state_of
from tests.engines.test_slurm_remedy import slurm as logging_slurm  # noqa: F401 - a fixture
from tests.flows.driving import kept, remedy_of_few_checks
from tests.waiting import until

pytestmark = [pytest.mark.root, pytest.mark.timeout(300)]
ROOT = Path(__file__).resolve().parents[2]
SLURM = '\n[remediation]\nmode = "plan"\nmachines = "slurm"\n'
ACTS = '\n[approval]\noverriders = ["U0PERSON2"]\n\n[remediation]\nmode = "act"\nmachines = "slurm"\nwait_minutes = 4\n'


@contextmanager
def drill(path: Path, *words: str) -> Iterator[None]:
    """The fault of a `prelaunch repair drill` in a process of its own, which SIGTERM ends: all is undone afterwards."""
    argv = (sys.executable, "-m", "flows.cli.main", "repair", "drill", words[0], str(path), *words[1:])
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    child = subprocess.Popen(argv, stderr=subprocess.PIPE, text=True, env=env)
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

    path = slurm_gate(tmp_path)
    path.write_text(path.read_text() + SLURM)
    with drill(path, name, *words):
        until(lambda: "down*" in slurm.run("sinfo", "-h", "-N", "-n", "n1", "-o", "%T"), seconds=240.0)
    assert (name == "frozen-process") == (before == slurm.pid("n1"))
    slurm.until_idle()


def inside(cluster: SlurmCluster, node: str) -> str:
    """What runs a command on a node, with the mounts, the network and the name that it has; also after it was rebooted."""
    enter = f'exec nsenter --target $(cat {cluster.folder}/slurmd-{node}.pid) --mount --net --uts "$@"'
    return shlex.join(("sh", "-c", enter, "inside"))


# What follows, and how it ends: NVIDIA asks for an inspection after Xid 74, and HyperPod restarts a node after Xid 73.
AFTER_XIDS = {
    "xid-74": ("NotRepaired", ["fence", "page"]),
    "xid-73": ("Repaired", ["fence", "reboot", "recheck", "return"]),
}


@pytest.mark.usefixtures("prefect_backend")
@pytest.mark.parametrize("name", ["xid-74", pytest.param("xid-73", marks=pytest.mark.long)])
def test_an_xid_is_detected_and_acted_upon(
    logging_slurm: LoggingCluster,  # noqa: F811
    tmp_path: Path,
    name: str,
) -> None:
    """The line goes into the node's log; the gate refuses, and remediation does what the Xid asks for."""
    path = gate_file(tmp_path / "shared", ACTS)
    if name == "xid-73":
        rules = path.parent / "few.json"
        policy = json.loads(rules.read_text())
        policy["checks"]["kernel.xid"]["overlay"] = "hyperpod"
        rules.write_text(json.dumps(policy))
    log = logging_slurm.folder / "var_log" / "n2" / "messages"
    words = (
        "--node", "n2", "--through", inside(logging_slurm, "n2"), "--kernel-log", "/var/log/messages",
    )  # fmt: skip
    with drill(path, name, *words):
        refused(path)
    state = remedy_of_few_checks(path)
    ended, done = AFTER_XIDS[name]

    assert ended == state.name
    untold = [act for act in acts(path) if act.proof is Proof.CANNOT_TELL or act.state is ActState.REFUSED]
    assert done == [act.rung.value for act in acts(path) if act not in untold]
    # A busy machine may leave evidence of a re-test missing, or Slurm may not take the node back yet: it is made again, once.
    assert [act.rung.value for act in untold] in ([], ["recheck"])
    assert ("return" in done) == ("idle" in state_of(logging_slurm, "n2"))
    assert "NVRM" not in log.read_text()


class FaultyCluster(SlurmCluster):
    """Each node shows no use of its CPUs.

    The nodes share the CPUs of this machine. A slow link of a node that other work keeps busy is no evidence for a gate.
    """

    def before_slurmctld(self) -> None:
        """Take the counters of the CPUs, which then stand still."""
        super().before_slurmctld()
        (self.folder / "stat").write_text(Path("/proc/stat").read_text())

    def _start(self, index: int, host: str, *argv: str, other: bool = True) -> None:
        own = f"mount --bind {self.folder}/stat /proc/stat"
        bind = ("/bin/sh", "-ec", f'{own}; exec "$@"', "own") if host in self.nodes else ()
        super()._start(index, host, *bind, *argv, other=other)


@pytest.fixture
def faulty(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[FaultyCluster]:
    """Three nodes."""
    with running_cluster(FaultyCluster, tmp_path_factory.mktemp("slurm"), 3) as cluster:
        monkeypatch.setenv("PATH", cluster.path)
        yield cluster


@pytest.mark.long
@pytest.mark.usefixtures("prefect_backend")
def test_a_gate_detects_a_slow_link(faulty: FaultyCluster, tmp_path: Path) -> None:
    """A link with 10 Mbit/s: the gate names the node, and the fault is undone."""
    path = slurm_gate(tmp_path / "shared", nodes=3)
    path.write_text(path.read_text() + SLURM)
    with drill(path, "shaped-link", "--node", "n1", "--through", inside(faulty, "n1"), "--interface", "eth0"):
        outcome = refused(path)
    findings = kept(path.parent, outcome, "verdict.json")["findings"]

    failed = [one for one in findings if one["level"] == "FAIL" and "n1" in one["subject"]]
    assert any(one["check"].startswith("network.") for one in failed)
    links = subprocess.run(
        (*shlex.split(inside(faulty, "n1")), "tc", "qdisc", "show", "dev", "eth0"),
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert "tbf" not in links.stdout
