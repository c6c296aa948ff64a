"""How long a cluster idles from the end of its last check to the training: `python tests/benchmarks/first_step.py`. Two tables.

What follows the last check is the same on every engine with placement in_job, because each node runs the same program (`checks gate`):
reports are exchanged and judged, passes are exchanged, and the process becomes the command.

The first table is a job of the local launcher: each node is a process, with real sockets on loopback, few checks and no PyTorch. The
clock starts when the last report is complete; the command's first line stops it. The second table is the same without the command's
start, of many nodes: threads of this process with a responder each, whose reports are there at one moment. All share this machine's
CPUs, while a real node has its own, so the figure is an upper limit.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
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


def threads_s(nodes: int) -> tuple[float, float]:
    """Seconds from the moment at which all reports are complete until the last node may start the command, without the judgement, and
    those of one judgement: real nodes judge at the same time.
    """
    complete, begun, report = threading.Barrier(nodes), list[float](), healthy(nodes)
    before = time.monotonic()
    verdict = decide(report, POLICY, FACTS)
    judged_s = time.monotonic() - before

    def checked(node_context: NodeContext, attempt: str, *ignored: object) -> Any:
        data = dump_plain(first_report(node_context, attempt))
        complete.wait()
        begun.append(time.monotonic())
        return SimpleNamespace(data=data)

    replaced: Any = gate
    replaced.run_beside, replaced.decide = checked, lambda *ignored: verdict
    replaced.limited = lambda seconds, write: write()  # sixty nodes share this machine's disk
    replaced.end_left = replaced.become_subreaper = lambda *ignored, **more: None
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(nodes) as pool:
        contexts, out = node_contexts(Path(folder), 100.0, nodes), Path(folder) / "out"
        left = list(
            pool.map(lambda one: (gate.gate(one, "a", out, GateOptions()), time.monotonic()), contexts)
        )
    if not all(isinstance(permit, LaunchPermit) for permit, _ in left):
        raise SystemExit(f"{nodes} nodes did not start: {left[:2]}")
    return max(at for _, at in left) - max(begun), judged_s


def main() -> None:
    """Print both tables."""
    print(f"processes of the local launcher | seconds (medians of {RUNS} runs)")
    print(f"{2:>31} | {statistics.median(processes_s() for _ in range(RUNS)):.2f}")
    print("nodes as threads | seconds | of one judgement")
    for nodes in MANY:
        exchanged, judged = zip(*(threads_s(nodes) for _ in range(RUNS)), strict=True)
        print(f"{nodes:>16} | {statistics.median(exchanged):>7.2f} | {statistics.median(judged):.2f}")


if __name__ == "__main__":
    main()
