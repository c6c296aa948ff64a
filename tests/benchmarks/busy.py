"""Does a busy machine keep its GO, and never get a NO-GO? `python -m tests.benchmarks.busy`. A line for each run, about an hour.

Beside stress-ng with 2 and with 8 workers on this machine's CPUs: `prelaunch check --instance-type cpu` and the checks of
the local gate (deployments/gates/local.toml: two nodes of two ranks on the loopback interface, judged by its policy; no
training and no Prefect). As root also three nodes with networks of their own, of which one link is held to a tenth, and two
nodes of which one has a CPU quota of a tenth. `--runs N` (10), `--only KIND`, `--workers N [N ...]` choose.

The load average of each run stands beside it: other work on the machine is contention as well.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from dataclasses import dataclass
from pathlib import Path

from checks.model import Cause, Level, Verdict
from tasks.launchers.base import Launcher
from tests.survival.faulty_network import needs_root, network, slow_link
from tests.survival.world import World, run

ROOT = Path(__file__).resolve().parents[2]

CPU_CGROUPS = Path("/sys/fs/cgroup/cpu")
# Of the machine's CPUs; and of what two namespaces on one host carry (3.6 to 5.5 GB/s were measured on loopback).
TENTH_OF_A_CPU, TENTH_OF_A_LINK = 0.1, "300mbit"


@dataclass(frozen=True)
class Ended:
    """How one run ended. `said`: what its first FAIL says, "" without one."""

    answer: str
    seconds: float
    load: float
    busy: bool
    causes: tuple[str, ...] = ()
    said: str = ""


@contextmanager
def stressed(workers: int) -> Iterator[None]:
    """stress-ng beside what is measured; it ends with this process."""
    if not workers:
        yield
        return
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
    begun, out = time.monotonic(), folder / "report.json"
    words = ("check", "--instance-type", "cpu", "--format", "json", "--out", str(out))
    argv = (sys.executable, "-m", "flows.cli.main", *words)
    said = subprocess.run(argv, cwd=ROOT, check=False, capture_output=True, text=True, timeout=280)
    printed = json.loads(said.stdout)
    verdict = printed.get("verdict", printed)
    fails = [one for one in verdict["findings"] if one["level"] == "FAIL"]
    busy = all("was busy" in one["message"] for one in fails[:1])
    causes = tuple(sorted({one["cause"] for one in fails}))
    first = f"{fails[0]['subject']} {fails[0]['check']}: {fails[0]['message']}" if fails else ""
    return Ended(verdict["answer"], time.monotonic() - begun, os.getloadavg()[0], busy, causes, first)


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
    busy = _tells_busy(ended.verdict)
    return Ended(answer, ended.seconds, os.getloadavg()[0], busy, causes, first)


def _tells_busy(verdict: Verdict) -> bool:
    """Whether a person who reads the FAILs learns that the machine was busy."""
    fails = [one for one in verdict.findings if one.level is Level.FAIL]
    return any("busy" in one.message for one in fails if one.cause is Cause.EVIDENCE)


KINDS: dict[str, Callable[[Path], Ended]] = {
    "check": check_alone,
    "gate": local_gate,
    "slow link": slow_link_gate,
    "quota": quota_gate,
}


def once(kind: str, workers: int) -> Ended:
    """One run of a kind beside so many workers."""
    with tempfile.TemporaryDirectory(prefix="busy-") as folder, stressed(workers):
        return KINDS[kind](Path(folder))


def main(argv: Sequence[str]) -> int:
    """Print a line for each run as it ends."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # what was started ends as at any other end
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--runs", type=int, default=10)
    asked.add_argument("--only", choices=tuple(KINDS), action="append")
    asked.add_argument("--workers", type=int, nargs="+", default=[2, 8])
    chosen = asked.parse_args(argv)
    for kind in chosen.only or KINDS:
        if kind in ("slow link", "quota") and needs_root.args[0]:
            print(f"{kind}: left out, it needs root")
            continue
        for workers in chosen.workers * chosen.runs:
            one = once(kind, workers)
            where = f"{kind} beside {workers}: {one.answer}, {one.seconds:.0f} s, load {one.load:.1f}"
            print(where, "busy" if one.busy else "", *one.causes, one.said[:300], flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
