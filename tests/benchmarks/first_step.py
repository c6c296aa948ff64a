"""How long a cluster idles from the end of its last check to the training: `python tests/benchmarks/first_step.py`. Two tables.

The first table is of whole gates (`prelaunch gate`) by each launcher and placement, with few checks, without PyTorch: local processes,
on a Slurm that runs here, and on the stand-ins of SageMaker and Kubernetes, which are simulations whose hosts and pods are processes.
The clock starts with the time of the last report, which is cut to a second, so that each figure is up to a second too long; the
command's first line on the last node stops it. Arguments choose launchers and numbers of nodes: `first_step.py slurm 2 4`. On two
CPUs 64 nodes do not answer all checks in time; `PRELAUNCH_FEW_PATIENT= first_step.py slurm 64` has four, with 300 s for each.

With placement in_job what follows the last check is the same on every engine, because each node runs the same program (`checks gate`):
reports are exchanged and judged, passes are exchanged, and the process becomes the command. No launcher, and not the gate, is asked.
The second table is of that alone: threads of this process with a responder each, whose reports are there at one moment. All share this
machine's CPUs, while a real node has its own. So the seconds of both tables are an upper limit, and beside them stands what does not
depend on how many CPUs there are: the connections of the nodes, those of them to the first host, and CPU seconds of the first host and
of any other one. The first host's are what all responders used, and so an upper limit too; a host of its own needs at least these.
"""

from __future__ import annotations

import json
import os
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
for folder in (ROOT / "tests" / "sabotage", ROOT):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))

from checks.documents.report import dump_plain, load  # noqa: E402 - as a script, this file's own folder is known
from checks.judge.verdict import decide  # noqa: E402
from checks.runner.in_job import job_gate  # noqa: E402
from checks.runner.node_context import NodeContext  # noqa: E402
from checks.runner.node_run import first_report  # noqa: E402
from tests.checks.runner.test_barrier import node_contexts  # noqa: E402
from tests.engines.slurm_cluster import slurm_cluster  # noqa: E402
from tests.engines.slurm_gates import slurm_gate  # noqa: E402
from tests.fakes.kubernetes.cluster import kubernetes  # noqa: E402
from tests.fakes.sagemaker.bench import stand_in  # noqa: E402
from tests.flows.cloud import cloud_gate  # noqa: E402
from tests.flows.test_kubernetes_gate import gate_file as kubernetes_gate  # noqa: E402
from tests.sample_reports import FACTS, POLICY, healthy  # noqa: E402
from tests.survival import few_checks  # noqa: E402

RUNS, FEW = 3, 8  # a gate of more nodes runs once
MANY = (2, 64)
OF_GATES = (2,)
GATES = ROOT / "deployments" / "gates"
# 64 nodes start on two CPUs one after the other.
PATIENT = {"network_s": 300.0, "stage_s": 300.0, "max_runtime_minutes": 20.0}
DEADLINE_S = 900.0  # of a node's checks; the profile's own is 120 s
PLACEMENTS = {
    "local": ("in_job", "pinned"),
    "slurm": ("in_job", "pinned"),
    "sagemaker": ("in_job", "pooled"),
    "kubernetes": ("in_job", "pinned"),
}
STEP = """
import pathlib, time, uuid
step = time.time()
pathlib.Path({folder!r}, uuid.uuid4().hex).write_text(repr(step))
"""


@contextmanager
def gate_file(
    launcher: str, placement: str, nodes: int, folder: Path
) -> Iterator[tuple[Path, dict[str, str]]]:
    """A gate file for so many nodes of a cluster that exists meanwhile, and the variables with which the command reaches it."""
    steps = folder / "steps"
    steps.mkdir()
    steps.chmod(0o777)
    command = ("{python}", "-c", STEP.format(folder=str(steps)))
    python = few_checks.interpreter(folder / "few-python")
    if launcher == "slurm":
        (folder / "slurm").mkdir()
        with slurm_cluster(folder / "slurm", nodes) as slurm:
            yield (
                slurm_gate(slurm.folder / "gate", placement, training=command, nodes=nodes),
                {"PATH": slurm.path},
            )
    elif launcher == "sagemaker":
        with stand_in(folder, {"ml.m5.large": nodes}) as cloud:
            path = cloud_gate(folder, cloud, placement, real=True, few=True, training=command, nodes=nodes)
            yield path, cloud.environment
    elif launcher == "kubernetes":
        (folder / "cluster").mkdir()
        with kubernetes(folder / "cluster", nodes) as pods:
            path = kubernetes_gate(folder, pods, placement)
            path.write_text(
                path.read_text()
                .replace("\nnodes = 2", f"\nnodes = {nodes}")
                .replace(json.dumps(["{python}", "-c", "print('trained')"]), json.dumps(command))
            )
            yield path, {}
    else:
        options = f'network = "loopback"\npython = "{python}"\nin_job = {json.dumps(placement == "in_job")}'
        changes = {
            "\nnodes = 2": f"\nnodes = {nodes}",
            'network = "loopback"': options,
            'command = ["{here}/../examples/train_tiny.py", "--steps", "20"]': f"command = {json.dumps(command)}",
            'distributed = "torchrun"': 'distributed = "none"',
        }
        yield few_checks.gate_file(GATES / "local.toml", folder, changes), {}


def gate_s(launcher: str, placement: str, nodes: int) -> float:
    """Seconds from the last check of the cluster to the last node's first line of the command."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        folder.chmod(0o755)
        with gate_file(launcher, placement, nodes, folder) as (path, variables):
            text = path.read_text()
            text = text.replace("\nstage_s =", f"\ndeadline_s = {DEADLINE_S:g}\nstage_s =")
            for name, seconds in PATIENT.items():
                text = re.sub(rf"\n{name} = [0-9.]+", f"\n{name} = {seconds:g}", text)
            path.write_text(text)
            argv = (
                sys.executable,
                few_checks.__file__,
                "gate",
                str(path),
                "--wait",
                "finished",
                "--format",
                "json",
            )
            environment = {**os.environ, **variables, "PYTHONPATH": str(ROOT)}
            done = subprocess.run(
                argv, env=environment, cwd=folder, capture_output=True, text=True, check=False
            )
            began = [float(step.read_text()) for step in (folder / "steps").iterdir()]
            if done.returncode or len(began) != nodes:
                raise SystemExit(
                    f"{launcher}, {placement}: {len(began)} of {nodes} nodes started\n{done.stderr[-3000:]}"
                )
            (report,) = path.parent.rglob("gates/*/health_check_metrics.json")
            times = [load(report.read_bytes()).measured_at]
    return max(began) - max(map(_moment, times))


def _moment(text: str) -> float:
    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


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
        permit, at = job_gate.gate(one, "a", out), time.monotonic()
        cpu_s[one.node_rank] += time.thread_time()
        return permit, at

    replaced: Any = job_gate
    replaced.run_beside, replaced.decide = checked, lambda *ignored: verdict
    replaced.limited = lambda seconds, write: write()  # sixty nodes share this machine's disk
    replaced.end_left = replaced.become_subreaper = lambda *ignored, **more: None
    socket.create_connection = counted  # type: ignore[assignment]
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(nodes) as pool:
        contexts, out = node_contexts(Path(folder), 100.0, nodes), Path(folder) / "out"
        ended = list(pool.map(left, contexts))
    socket.create_connection = connect
    if not all(isinstance(permit, Path) for permit, _ in ended):
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
    print(
        f"load {os.getloadavg()[0]:.1f}, {os.cpu_count()} CPUs, medians of {RUNS} runs, of one gate with more than {FEW} nodes"
    )
    chosen = [word for word in sys.argv[1:] if word in PLACEMENTS] or list(PLACEMENTS)
    many = [int(word) for word in sys.argv[1:] if word.isdecimal()]
    print("launcher   | placement | nodes | seconds")
    for launcher in chosen:
        for placement in [word for word in PLACEMENTS[launcher] if word in sys.argv[1:]] or PLACEMENTS[
            launcher
        ]:
            for nodes in many or OF_GATES:
                runs = RUNS if nodes <= FEW else 1
                seconds = statistics.median(gate_s(launcher, placement, nodes) for _ in range(runs))
                print(f"{launcher:<10} | {placement:<9} | {nodes:>5} | {seconds:.1f}", flush=True)
    print(
        "nodes as threads | seconds | one judgement | connections | to the first | its CPU s | CPU s of another"
    )
    for nodes in many or MANY:
        one = sorted((threads(nodes) for _ in range(RUNS)), key=lambda run: run.seconds)[RUNS // 2]
        print(
            f"{nodes:>16} | {one.seconds:>7.2f} | {one.judged_s:>13.3f} | {one.connections:>11} | {one.to_first:>12} | "
            f"{one.first_cpu_s:>9.3f} | {one.other_cpu_s:.3f}"
        )
    print(f"load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
