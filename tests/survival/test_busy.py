"""A healthy machine beside other work is never called broken, and a slow part is never fit. Real stress-ng, real processes.

`prelaunch check --instance-type cpu` and the checks of the local gate (deployments/gates/local.toml: two nodes of two ranks on the
loopback interface, judged by its policy; no training and no Prefect). As root also three nodes with networks of their own, of which
one link is held to a tenth, and two nodes of which one has a CPU quota of a tenth.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from checks.model import Cause
from tasks.launchers.base import Launcher
from tests.architecture.tree import ROOT
from tests.survival.faulty_network import needs_root, network, slow_link
from tests.survival.world import World, run

needs_stress = pytest.mark.skipif(shutil.which("stress-ng") is None, reason="not installed: stress-ng")
pytestmark = [pytest.mark.long, pytest.mark.timeout(300), needs_stress]

CPU_CGROUPS = Path("/sys/fs/cgroup/cpu")
# Of the machine's CPUs; and of what two namespaces on one host carry (3.6 to 5.5 GB/s were measured on loopback).
TENTH_OF_A_CPU, TENTH_OF_A_LINK = 0.1, "300mbit"


@dataclass(frozen=True)
class Ended:
    """How one run ended. `said`: what its first FAIL says, "" without one."""

    answer: str
    busy: bool
    causes: tuple[str, ...] = ()
    said: str = ""


Kind = Callable[[Path], Ended]


@contextmanager
def stressed(workers: int) -> Iterator[None]:
    """stress-ng beside what is measured; it ends with this process."""
    argv = ("stress-ng", "--cpu", str(workers), "--timeout", "600s")
    started = subprocess.Popen(
        argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    try:
        time.sleep(1.0)
        yield
    finally:
        started.terminate()
        started.wait()


def check_alone(folder: Path) -> Ended:
    """`prelaunch check --instance-type cpu`, as a person types it."""
    out = folder / "report.json"
    words = ("check", "--instance-type", "cpu", "--format", "json", "--out", str(out))
    argv = (sys.executable, "-m", "flows.cli.main", *words)
    said = subprocess.run(argv, cwd=ROOT, check=False, capture_output=True, text=True)
    printed = json.loads(said.stdout)
    verdict = printed.get("verdict", printed)
    fails = [one for one in verdict["findings"] if one["level"] == "FAIL"]
    busy = all("was busy" in one["message"] for one in fails[:1])
    causes = tuple(sorted({one["cause"] for one in fails}))
    first = f"{fails[0]['subject']} {fails[0]['check']}: {fails[0]['message']}" if fails else ""
    return Ended(verdict["answer"], busy, causes, first)


def local_gate(folder: Path) -> Ended:
    """The checks of the local gate."""
    return _ran(World(2, 2, network_s=20.0, stage_s=180.0, max_runtime_s=280.0), folder)


def slow_link_gate(folder: Path) -> Ended:
    """Three nodes; what two of them send to each other is held to a tenth."""
    with network(3) as name:
        slow_link(name, 0, 1, TENTH_OF_A_LINK)
        options = {"network": "namespaces", "prepared": name}
        return _ran(World(3, 1, network_s=20.0, stage_s=180.0, max_runtime_s=280.0, options=options), folder)


def quota_gate(folder: Path) -> Ended:
    """Two nodes; all processes of the second are held to a tenth of the CPUs, from its first moment on."""
    group = CPU_CGROUPS / f"prelaunch-busy-{os.getpid()}"
    group.mkdir()
    try:
        quota = int(100_000 * TENTH_OF_A_CPU * (os.cpu_count() or 1))
        (group / "cpu.cfs_quota_us").write_text(str(quota))

        def hold(launcher: Launcher, job: str) -> None:
            threading.Thread(target=_held, args=(folder, job, group), daemon=True).start()

        world = World(2, 1, network_s=20.0, stage_s=180.0, max_runtime_s=280.0)
        return _ran(world, folder, hold)
    finally:
        for _ in range(50):  # the last of its processes may still be ending
            with suppress(OSError):
                group.rmdir()
                break
            time.sleep(0.1)


def _held(folder: Path, job: str, group: Path) -> None:
    """Move whatever runs as node-1 of the job into the cgroup, until it is gone; what it starts is born there."""
    deadline = time.monotonic() + 20.0
    while time.monotonic() < deadline:
        for place in Path("/proc").glob("[0-9]*/environ"):
            with suppress(OSError):
                given = place.read_bytes().split(b"\0")
                if b"PRELAUNCH_NODE=node-1" in given and any(str(folder).encode() in one for one in given):
                    (group / "cgroup.procs").write_text(place.parent.name)
        time.sleep(0.05)


def _ran(world: World, folder: Path, meanwhile: Callable[[Launcher, str], None] | None = None) -> Ended:
    with redirect_stdout(io.StringIO()):  # the nodes' logs and all findings
        ended = run(world, folder, meanwhile)
    fails, answer = ended.fails(), ended.verdict.answer.value
    causes = tuple(sorted({one.cause.value for one in fails}))
    first = f"{fails[0].subject} {fails[0].check}: {fails[0].message}" if fails else ""
    busy = any("busy" in one.message for one in fails if one.cause is Cause.EVIDENCE)
    return Ended(answer, busy, causes, first)


def once(kind: Kind, workers: int = 8) -> Ended:
    """One run of a kind beside so many workers."""
    with tempfile.TemporaryDirectory(prefix="busy-") as folder, stressed(workers):
        return kind(Path(folder))


@pytest.mark.parametrize("kind", [check_alone, local_gate])
@pytest.mark.parametrize("workers", [2, 8])
def test_a_healthy_machine_beside_other_work(kind: Kind, workers: int) -> None:
    """GO, or nobody can tell and the reason is given; never a NO-GO."""
    ended = once(kind, workers)

    assert ended.answer == "go" or (ended.answer == "cannot_tell" and ended.busy), ended


@needs_root
@pytest.mark.root
def test_a_slow_link_beside_other_work_is_no_go_or_unknown() -> None:
    """It is one of three, and held to a tenth."""
    assert once(slow_link_gate).answer in ("no_go", "cannot_tell")


@needs_root
@pytest.mark.root
@pytest.mark.skipif(
    not (CPU_CGROUPS / "cpu.cfs_quota_us").exists(), reason="no cgroup v1 CPU controller, whose quota is cut"
)
def test_a_cpu_quota_of_a_tenth_is_named_beside_other_work() -> None:
    """By its own limit and counters: that is configuration, and not other work."""
    ended = once(quota_gate)

    assert "no_go" == ended.answer, ended
    assert "CONFIGURATION" in ended.causes and ended.said.startswith("node-1"), ended
