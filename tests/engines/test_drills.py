"""Drills on a real Slurm cluster: daemons that die and freeze, a GPU that falls off the bus, and nodes on which none may run."""

from __future__ import annotations

import json
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

from flows.cli.main import main
from tasks.launchers.local.plan import ENTER
from tests.engines.slurm_cluster import SlurmCluster
from tests.engines.slurm_gates import slurm_gate
from tests.engines.test_slurm_remedy import LoggingCluster, gate_file, refused, remedy
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


@pytest.mark.parametrize("name", [pytest.param("killed-daemon", marks=pytest.mark.long), "frozen-process"])
def test_a_daemon_that_dies_or_freezes_is_noticed_and_comes_back(
    slurm: SlurmCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    """slurmctld takes the node out of service; after the drill has undone the fault the node serves again."""
    index = 1
    start = (
        "env", f"SLURM_CONF={slurm.folder}/slurm.conf", sys.executable, "-I", ENTER, f"{slurm.name}-{index}", "n1",
        str(slurm.folder / "hosts"), "slurmd", "-N", "n1", "-c",
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


@pytest.mark.long
@pytest.mark.usefixtures("prefect_backend")
def test_xid_79_is_detected_acted_upon_and_the_node_is_back(
    logging_slurm: LoggingCluster,  # noqa: F811
    tmp_path: Path,
) -> None:
    """The line goes into the node's log; the gate refuses, remediation reboots the node, proves it and returns it."""
    path = gate_file(tmp_path / "shared", ACTS)
    log = logging_slurm.folder / "var_log" / "n2" / "messages"
    words = (
        "xid-79",
        "--node",
        "n2",
        "--through",
        "env",
        "--kernel-log",
        str(log),
        "--watch-only",
        "--poll",
        "0.2",
    )
    with drill(path, *words) as child:
        refused(path)
        state = remedy(path)
        out, _ = child.communicate(timeout=60)
    print(out)

    assert ("Repaired", 0) == (state.name, child.returncode), out
    assert "everything happened in time" in out
    assert ", acted after " in out and ", back after " in out
    assert "NVRM" not in log.read_text()


# The command, whose gate has the few checks.
FEW = f"""
import sys
from flows.cli import drill, main
start = drill.start_gate
drill.start_gate = lambda argv: start((sys.executable, {few_checks.__file__!r}, *argv[3:]))
sys.exit(main.main(sys.argv[1:]))
"""


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
    words = (
        "drill",
        "xid-79",
        str(path),
        "--node",
        "n2",
        "--through",
        "env",
        "--kernel-log",
        str(log),
        "--poll",
        "0.2",
    )
    done = subprocess.run(
        (sys.executable, "-c", FEW, *words), capture_output=True, text=True, timeout=200, check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PRELAUNCH_FEW_ALSO": "kernel.xid"},
    )  # fmt: skip

    assert code == done.returncode, done.stdout + done.stderr
    assert ("detected after " in done.stdout, "not detected" in done.stdout) == (heard, not heard)
    assert ("paged after " in done.stdout) == heard
    assert not log.exists() or "NVRM" not in log.read_text()
