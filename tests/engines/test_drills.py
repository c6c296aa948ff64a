"""Every drill on a real Slurm cluster, with the gate that has to detect its fault; and nodes on which none may run."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from flows.cli.main import main
from tasks.drills.catalog import DRILLS
from tasks.launchers.local.plan import ENTER
from tasks.remediation.model import ActState, Proof
from tests.engines.slurm_cluster import SlurmCluster, of_other_debian, running_cluster, unavailable
from tests.engines.slurm_gates import slurm_gate
from tests.engines.test_slurm_remedy import LoggingCluster, acts, gate_file, refused, remedy
from tests.engines.test_slurm_remedy import slurm as logging_slurm  # noqa: F401 - a fixture
from tests.survival import few_checks

pytestmark = [pytest.mark.root, pytest.mark.timeout(300)]
ROOT = Path(__file__).resolve().parents[2]
SLURM = '\n[remediation]\nmode = "plan"\nmachines = "slurm"\n'
ACTS = '\n[approval]\noverriders = ["U0PERSON2"]\n\n[remediation]\nmode = "act"\nmachines = "slurm"\nwait_minutes = 4\n'


def plain_gate(folder: Path) -> Path:
    """A gate file of the cluster, whose remediation only looks."""
    path = slurm_gate(folder)
    path.write_text(path.read_text() + SLURM)
    return path


def document(capsys: pytest.CaptureFixture[str]) -> dict[str, object]:
    """What the command printed with --format json."""
    found = json.loads(capsys.readouterr().out)
    assert isinstance(found, dict)
    return found


def test_a_node_with_somebodys_job_is_refused_and_listed(
    slurm: SlurmCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Slurm says who runs there; a drained node is refused as well. Nothing is changed on either."""
    path, log = plain_gate(tmp_path), tmp_path / "messages"
    job = slurm.run("sbatch", "--parsable", "-w", "n1", "-o", "/dev/null", "--wrap", "sleep 300").strip()
    slurm.run("scontrol", "update", "nodename=n2", "state=drain", "reason=jdoe: fan")
    try:
        while "RUNNING" not in slurm.run("squeue", "-h", "-j", job, "-o", "%T"):
            time.sleep(0.1)
        for node, said in (("n1", job), ("n2", "jdoe: fan")):
            assert 2 == main(
                ["drill", "xid-79", str(path), "--node", node, "--through", "env", "--kernel-log", str(log)]
            )
            assert said in capsys.readouterr().err
        assert not log.exists()
        assert 0 == main(["machines", str(path), "--format", "json"])
        rows = {row["node"]: row["engine"] for row in document(capsys)["machines"]}  # type: ignore[attr-defined]
        assert ([], True) == (rows["n0"]["jobs"], any(job in one for one in rows["n1"]["jobs"]))
        assert ("out of service", "other") == (rows["n2"]["service"], rows["n2"]["holder"])
    finally:
        slurm.run("scontrol", "update", "nodename=n2", "state=resume")


@pytest.mark.parametrize("name", ["killed-daemon", "frozen-process"])
def test_a_daemon_that_dies_or_freezes_is_noticed_and_comes_back(
    slurm: SlurmCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    """slurmctld takes the node out of service; after the drill has undone the fault the node serves again."""
    index = 1
    start = (
        "env", f"SLURM_CONF={slurm.folder}/slurm.conf", sys.executable, "-I", ENTER, f"{slurm.name}-{index}", "n1",
        str(slurm.folder / "hosts"), *of_other_debian(), "slurmd", "-N", "n1", "-c",
    )  # fmt: skip
    words = (
        "drill", name, str(plain_gate(tmp_path)), "--node", "n1", "--through", "env", "--watch-only", "--poll", "0.2",
        "--pid-file", str(slurm.folder / "slurmd-n1.pid"), "--start", shlex.join(start), "--format", "json",
        "--detect-within", "120", "--return-within", "200",
    )  # fmt: skip
    before = slurm.pid("n1")

    assert 0 == main(list(words))
    found = document(capsys)
    assert ("in_time", True, None) == (found["end"], found["cleaned_up"], found["left"])
    assert (name == "frozen-process") == (before == slurm.pid("n1"))
    slurm.until_idle()


@contextmanager
def drill(path: Path, *words: str) -> Iterator[subprocess.Popen[str]]:
    """`prelaunch drill` in a process of its own, once it has made the fault."""
    argv = (sys.executable, "-m", "flows.cli.main", "drill", words[0], str(path), *words[1:])
    child = subprocess.Popen(
        argv,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert child.stderr is not None
    try:
        while "was injected" not in (line := child.stderr.readline()):
            assert line, child.communicate()
        yield child
    finally:
        if child.poll() is None:
            child.send_signal(signal.SIGTERM)
            child.communicate(timeout=60)


# Each drill, and the test of this file in which a real stack notices its fault.
NOTICED = {
    "killed-daemon": "test_a_daemon_that_dies_or_freezes_is_noticed_and_comes_back",
    "frozen-process": "test_a_daemon_that_dies_or_freezes_is_noticed_and_comes_back",
    "xid-79": "test_an_xid_is_detected_and_acted_upon",
    "xid-74": "test_an_xid_is_detected_and_acted_upon",
    "xid-73": "test_an_xid_is_detected_and_acted_upon",
    "shaped-link": "test_the_gate_of_a_drill_detects_a_fault_and_pages",
    "full-disk": "test_the_gate_of_a_drill_detects_a_fault_and_pages",
    "dcgm-xid": "test_an_xid_in_dcgm_is_detected",
}


def test_every_drill_has_a_test_on_a_real_stack() -> None:
    """In this file."""
    assert set(NOTICED) == set(DRILLS)
    assert set(NOTICED.values()) <= set(globals())


def inside(cluster: SlurmCluster, node: str) -> str:
    """What runs a command on a node, with the mounts, the network and the name that it has; also after it was rebooted."""
    enter = f'exec nsenter --target $(cat {cluster.folder}/slurmd-{node}.pid) --mount --net --uts "$@"'
    return shlex.join(("sh", "-c", enter, "inside"))


# What follows, and how it ends: NVIDIA asks for an inspection after Xid 74, and HyperPod restarts a node after Xid 73.
AFTER_XIDS = {
    "xid-79": ("Repaired", ["fence", "reboot", "recheck", "return"]),
    "xid-74": ("NotRepaired", ["fence", "page"]),
    "xid-73": ("Repaired", ["fence", "reboot", "recheck", "return"]),
}


@pytest.mark.usefixtures("prefect_backend")
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(
            "xid-79", marks=pytest.mark.long
        ),  # test_slurm_remedy.py reboots a node after it as well
        "xid-74",
        pytest.param("xid-73", marks=pytest.mark.long),
    ],
)
def test_an_xid_is_detected_and_acted_upon(
    logging_slurm: LoggingCluster,  # noqa: F811
    tmp_path: Path,
    name: str,
) -> None:
    """The line goes into the node's log; the gate refuses, and remediation does what the Xid asks for."""
    path = gate_file(tmp_path / "shared", ACTS)
    if (overlay := DRILLS[name].overlay) is not None:
        answered_by(path, overlay.value)
    log = logging_slurm.folder / "var_log" / "n2" / "messages"
    words = (
        "--node",
        "n2",
        "--through",
        inside(logging_slurm, "n2"),
        "--kernel-log",
        "/var/log/messages",
        "--watch-only",
    )
    with drill(path, name, *words, "--poll", "0.2") as child:
        refused(path)
        state = remedy(path)
        out, _ = child.communicate(timeout=60)
    print(out)
    ended, done = AFTER_XIDS[name]

    assert (ended, 0) == (state.name, child.returncode), out
    untold = [act for act in acts(path) if act.proof is Proof.CANNOT_TELL or act.state is ActState.REFUSED]
    assert done == [act.rung.value for act in acts(path) if act not in untold]
    # A busy machine may leave evidence of a re-test missing, or Slurm may not take the node back yet: it is made again, once.
    assert [act.rung.value for act in untold] in ([], ["recheck"])
    assert "everything happened in time" in out
    assert ("return" in done) == (", back after " in out)
    assert "NVRM" not in log.read_text()


def answered_by(path: Path, overlay: str) -> None:
    """The policy of the gate uses these answers to Xids."""
    rules = path.parent / "few.json"
    policy = json.loads(rules.read_text())
    policy["checks"]["kernel.xid"]["overlay"] = overlay
    rules.write_text(json.dumps(policy))


@pytest.mark.long
@pytest.mark.usefixtures("prefect_backend")
def test_an_xid_in_dcgm_is_detected() -> None:
    """DCGM injects it on a node with a GPU."""
    if shutil.which("dcgmi") is None:
        pytest.skip("dcgm-xid needs a node with a GPU and NVIDIA's dcgmi, which this machine does not have")
    pytest.fail("this machine has dcgmi, and there is no test that uses it yet")


# The command, whose gate has the few checks.
FEW = f"""
import sys
from flows.cli import drill, main
start = drill.start_gate
drill.start_gate = lambda argv: start((sys.executable, {few_checks.__file__!r}, *argv[3:]))
sys.exit(main.main(sys.argv[1:]))
"""


class FaultyCluster(SlurmCluster):
    """Each node has a small /dev/shm of its own, and shows no use of its CPUs.

    The nodes share the CPUs of this machine. A slow link of a node that other work keeps busy is no evidence for a gate.
    """

    def before_slurmctld(self) -> None:
        """Take the counters of the CPUs, which then stand still."""
        super().before_slurmctld()
        (self.folder / "stat").write_text(Path("/proc/stat").read_text())

    def _start(self, index: int, host: str, *argv: str, other: bool = True) -> None:
        own = f"mount -t tmpfs -o size=64m none /dev/shm; mount --bind {self.folder}/stat /proc/stat"
        bind = ("/bin/sh", "-ec", f'{own}; exec "$@"', "own") if host in self.nodes else ()
        super()._start(index, host, *bind, *argv, other=other)


@pytest.fixture
def faulty(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[FaultyCluster]:
    """Three nodes."""
    if why := unavailable():
        pytest.skip(why)
    with running_cluster(FaultyCluster, tmp_path_factory.mktemp("slurm"), 3) as cluster:
        monkeypatch.setenv("PATH", cluster.path)
        yield cluster


@pytest.mark.long
@pytest.mark.usefixtures("prefect_backend")
@pytest.mark.parametrize(("name", "found"), [("shaped-link", "network."), ("full-disk", "system.resources")])
def test_the_gate_of_a_drill_detects_a_fault_and_pages(
    faulty: FaultyCluster, tmp_path: Path, name: str, found: str
) -> None:
    """A link with 10 Mbit/s, and a /dev/shm with 4 MiB left: the gate names the node, and the fault is undone."""
    path = slurm_gate(tmp_path / "shared", nodes=3)
    path.write_text(path.read_text() + SLURM)
    more = {
        "shaped-link": ("--interface", "eth0"),
        "full-disk": ("--folder", "/dev/shm"),
    }
    words = ("--node", "n1", "--through", inside(faulty, "n1"), "--poll", "0.2", *more[name])
    done = few_drill(name, str(path), *words)
    print(done.stdout, done.stderr)

    assert 0 == done.returncode, done.stdout + done.stderr
    assert f"n1: {found}" in done.stdout
    assert "detected after " in done.stdout and "paged after " in done.stdout
    prefix = shlex.split(inside(faulty, "n1"))
    links = subprocess.run(
        (*prefix, "tc", "qdisc", "show", "dev", "eth0"), capture_output=True, text=True, check=True
    )
    files = subprocess.run((*prefix, "ls", "-A", "/dev/shm"), capture_output=True, text=True, check=True)
    assert ("tbf" in links.stdout, "prelaunch-drill" in files.stdout) == (False, False)


def few_drill(*words: str, also: str = "") -> subprocess.CompletedProcess[str]:
    """`prelaunch drill`, which starts a gate with the few checks."""
    return subprocess.run(
        (sys.executable, "-c", FEW, "drill", *words), capture_output=True, text=True, timeout=250, check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PRELAUNCH_FEW_ALSO": also},
    )  # fmt: skip


@pytest.mark.long
@pytest.mark.usefixtures("prefect_backend")
@pytest.mark.parametrize(("heard", "code"), [(True, 0), (False, 1)])
def test_a_drill_starts_the_gate_itself(
    logging_slurm: LoggingCluster,  # noqa: F811
    tmp_path: Path,
    heard: bool,
    code: int,
) -> None:
    """A line in the node's log is detected and paged; one that no check reads makes the gate say GO, and the drill has failed."""
    path = gate_file(tmp_path / "shared", SLURM)
    log = logging_slurm.folder / "var_log" / "n2" / "messages" if heard else tmp_path / "elsewhere"
    words = ("--node", "n2", "--through", "env", "--kernel-log", str(log), "--poll", "0.2")
    done = few_drill("xid-79", str(path), *words, also="kernel.xid")

    assert code == done.returncode, done.stdout + done.stderr
    assert ("detected after " in done.stdout, "not detected" in done.stdout) == (heard, not heard)
    assert ("paged after " in done.stdout) == heard
    assert not log.exists() or "NVRM" not in log.read_text()
