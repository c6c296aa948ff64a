"""How long a cluster idles from the end of its last check to the training: `python tests/benchmarks/first_step.py`. Two tables.

What follows the last check is the same on every engine with placement in_job, because each node runs the same program (`checks gate`):
reports are exchanged and judged, passes are exchanged, and the process becomes the command. No launcher, and not the gate, is asked.

The first table is a job of the local launcher: each node is a process, with real sockets on loopback, few checks and no PyTorch. The
clock starts when the last report is complete; the command's first line stops it. The second table is the same without the command's
start, of many nodes: threads of this process with a responder each, whose reports are there at one moment. All share this machine's
CPUs, while a real node has its own. So the seconds are an upper limit, and beside them stand what does not depend on how many CPUs
there are: the connections of the nodes, those of them to the first host, and CPU seconds of the first host and of any other one. The
first host's are what all responders used, and so an upper limit too; a host of its own needs at least these.
"""

from __future__ import annotations

import os
import socket
import statistics
import sys
import tempfile
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
for folder in (ROOT / "tests" / "sabotage", ROOT):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))

from checks.documents.report import dump_plain  # noqa: E402 - as a script, this file's own folder is known
from checks.judge.verdict import decide  # noqa: E402
from checks.runner.in_job import gate  # noqa: E402
from checks.runner.in_job.gate import GateOptions, LaunchPermit  # noqa: E402
from checks.runner.node_context import NodeContext  # noqa: E402
from checks.runner.node_run import first_report  # noqa: E402
from tests.checks.runner.test_barrier import node_contexts  # noqa: E402
from tests.sample_reports import FACTS, POLICY, healthy  # noqa: E402
from tests.survival.world import World, run  # noqa: E402

RUNS = 3
MANY = (2, 64)
STEP = """
import os, pathlib, time
step, node = time.time(), os.environ["PRELAUNCH_NODE"]
report = pathlib.Path(os.environ["PRELAUNCH_PASS"]).parents[1] / "nodes" / f"{node}.json"
pathlib.Path(f"{node}-step").write_text(f"{report.stat().st_mtime} {step}")
"""
GATE = (
    "{python}",
    "-m",
    "checks",
    "gate",
    "--bundle",
    "{job}/bundle.json",
    "--out",
    "{out}",
    "--",
    "{python}",
    "-c",
    STEP,
)


def processes_s(nodes: int = 2) -> float:
    """Seconds from the last check of the cluster to the last node's first line of the command."""
    with tempfile.TemporaryDirectory() as folder:
        ended = run(World(nodes, 1, few=True, network_s=20.0), Path(folder), command=GATE)
        said = [path.read_text().split() for path in Path(folder).rglob("*-step")]
    if len(said) != nodes:
        raise SystemExit(f"{len(said)} of {nodes} nodes started: {ended.status}")
    return max(float(step) for _, step in said) - max(float(report) for report, _ in said)


@dataclass(frozen=True)
class Exchanged:
    """From the moment at which all reports are complete until the last node may start the command; the judgement is apart, because
    real nodes judge at the same time. `first_cpu_s` is of the first host, `other_cpu_s` of any other one.
    """

    seconds: float
    judged_s: float
    connections: int
    to_first: int
    first_cpu_s: float
    other_cpu_s: float


def threads(nodes: int) -> Exchanged:
    """One run of so many nodes."""
    complete, begun, report = threading.Barrier(nodes), list[float](), healthy(nodes)
    before = time.monotonic()
    verdict = decide(report, POLICY, FACTS)
    judged_s = time.monotonic() - before
    cpu_s, ports, connect = dict[int, float](), Counter[int](), socket.create_connection

    def checked(node_context: NodeContext, attempt: str, *ignored: object) -> Any:
        data = dump_plain(first_report(node_context, attempt))
        complete.wait()
        begun.append(time.monotonic())
        cpu_s[node_context.node_rank] = -time.thread_time()
        cpu_s.setdefault(-1, -time.process_time())
        return SimpleNamespace(data=data)

    def counted(place: tuple[str, int], **more: Any) -> socket.socket:
        ports[place[1]] += 1
        return connect(place, **more)

    def left(one: NodeContext) -> tuple[Any, float]:
        permit, at = gate.gate(one, "a", out, GateOptions()), time.monotonic()
        cpu_s[one.node_rank] += time.thread_time()
        return permit, at

    replaced: Any = gate
    replaced.run_beside, replaced.decide = checked, lambda *ignored: verdict
    replaced.limited = lambda seconds, write: write()  # sixty nodes share this machine's disk
    replaced.end_left = replaced.become_subreaper = lambda *ignored, **more: None
    socket.create_connection = counted  # type: ignore[assignment]
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(nodes) as pool:
        contexts, out = node_contexts(Path(folder), 100.0, nodes), Path(folder) / "out"
        ended = list(pool.map(left, contexts))
    socket.create_connection = connect
    if not all(isinstance(permit, LaunchPermit) for permit, _ in ended):
        raise SystemExit(f"{nodes} nodes did not start: {ended[:2]}")
    whole, first = cpu_s.pop(-1) + time.process_time(), contexts[0].roster.members[0].probe_port
    others = [seconds for rank, seconds in cpu_s.items() if rank]
    return Exchanged(
        max(at for _, at in ended) - max(begun),
        judged_s,
        sum(ports.values()),
        ports[first],
        whole - sum(others),
        statistics.median(others),
    )


def main() -> None:
    """Print both tables, with the load of the machine, which slows all of it."""
    print(f"load {os.getloadavg()[0]:.1f}, {os.cpu_count()} CPUs, medians of {RUNS} runs")
    print("processes of the local launcher | seconds")
    print(f"{2:>31} | {statistics.median(processes_s() for _ in range(RUNS)):.2f}")
    print(
        "nodes as threads | seconds | one judgement | connections | to the first | its CPU s | CPU s of another"
    )
    for nodes in MANY:
        one = sorted((threads(nodes) for _ in range(RUNS)), key=lambda run: run.seconds)[RUNS // 2]
        print(
            f"{nodes:>16} | {one.seconds:>7.2f} | {one.judged_s:>13.3f} | {one.connections:>11} | {one.to_first:>12} | "
            f"{one.first_cpu_s:>9.3f} | {one.other_cpu_s:.3f}"
        )
    print(f"load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
