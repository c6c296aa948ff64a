"""What Prefect costs a gate: `python -m tests.benchmarks.overhead`. JSON on stdout, about 35 s. With `gate` behind it, what the whole
gate of deployments/gates/local.toml costs, and which of its processes: a few minutes.

Without `gate`: medians of five processes, each on the embedded server with a migrated database (warm), each doing what
`prelaunch gate` does: start the server, import Prefect meanwhile, wait, run a flow of six trivial tasks and
three artifacts, stop. Seconds. `total_s` is the process's wall time from outside; the other figures are
taken within: `server_ready_s` from the start of the server, with the import going on beside it.

With `gate`: medians of five gates. `wall_s` and `cpu_s` are of all processes, as the kernel counts them when they have ended. The rest
are CPU seconds by kind of process. They come from /proc, which is read five times per second; `not_seen_s` is what processes used
after they were last seen. CPU seconds are comparable on a machine that others use as well, wall time is not.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

RUNS = 5
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
# A process is of the first kind of which a word is in its command.
KINDS = {
    "prefect_server_s": "tasks.orchestration.server",
    "node_checks_s": "checks.runner.isolated_child",
    "rank_checks_s": "checks.runner.rank_",
    "training_s": "train_tiny.py",
    "launcher_s": "runpy.run_module",
    "node_runners_s": "-m checks",
    "gate_s": "gate",
}


def main() -> int:
    """Measure and print."""
    with tempfile.TemporaryDirectory() as folder:
        _one(Path(folder))  # not counted: makes the template and the database
        runs = [_one(Path(folder)) for _ in range(RUNS)]
    medians = {name: round(statistics.median(run[name] for run in runs), 3) for name in runs[0]}
    print(json.dumps({"runs": RUNS, **medians}, indent=2))
    return 0


def gates() -> int:
    """Measure whole gates, and print."""
    from checks.process.tree import become_subreaper

    become_subreaper()  # the use of every process below is counted here once it has been waited for
    with tempfile.TemporaryDirectory() as folder:
        _gate(Path(folder))  # not counted: makes the database
        runs = [_gate(Path(folder)) for _ in range(RUNS)]
    medians = {name: round(statistics.median(run[name] for run in runs), 2) for name in runs[0]}
    print(json.dumps({"runs": RUNS, **medians}, indent=2))
    return 0


def _gate(folder: Path) -> dict[str, float]:
    command = (Path(sys.executable).with_name("prelaunch"), "gate", ROOT / "deployments/gates/local.toml")
    before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    seen: dict[tuple[int, int], tuple[str, float]] = {}
    with open(folder / "log", "w+b") as log:
        gate = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log)
        while gate.poll() is None:
            seen.update(_look())
            time.sleep(0.2)
        if gate.returncode:
            raise SystemExit((folder / "log").read_text())
    wall_s = time.perf_counter() - begin
    with contextlib.suppress(ChildProcessError):
        while True:
            os.wait()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    kinds = {name: sum(seconds for kind, seconds in seen.values() if kind == name) for name in KINDS}
    return {"wall_s": wall_s, "cpu_s": cpu_s, **kinds, "not_seen_s": cpu_s - sum(kinds.values())}


def _look() -> dict[tuple[int, int], tuple[str, float]]:
    """The kind and the CPU seconds of every process below this one."""
    parents, found = {}, {}
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            fields = (path / "stat").read_text().rpartition(")")[2].split()
            command = (path / "cmdline").read_text().replace("\0", " ")
            parents[int(path.name)] = int(fields[1])
            kind = next((name for name, word in KINDS.items() if word in command), "gate_s")
            used = (int(fields[11]) + int(fields[12])) / TICKS_PER_S
            if command:  # a process that has ended, and was not waited for yet, shows none
                found[int(path.name)] = (int(fields[19]), kind, used)
    below = {os.getpid()}
    while new := {pid for pid, parent in parents.items() if parent in below} - below:
        below |= new
    return {(pid, found[pid][0]): found[pid][1:] for pid in below & found.keys() - {os.getpid()}}


def measure(state_dir: Path) -> dict[str, float]:
    """One gate's worth of Prefect in this process, which must not have imported Prefect before."""
    from tasks.orchestration.server.server import EmbeddedServer, drain_client

    server = EmbeddedServer(state_dir)
    marks = [("start", time.perf_counter())]
    server.start()
    try:
        os.environ.update(server.client_environment())
        import prefect  # noqa: F401 - its import is what is measured

        marks.append(("import_prefect_s", time.perf_counter()))
        server.wait_ready()
        marks.append(("wait_for_server_s", time.perf_counter()))
        _run_flow()
        marks.append(("flow_s", time.perf_counter()))
        drain_client(5.0)
        marks.append(("drain_s", time.perf_counter()))
    finally:
        server.stop()
    marks.append(("stop_s", time.perf_counter()))
    steps = {name: end - begin for (_, begin), (name, end) in pairwise(marks)}
    return {"server_ready_s": marks[2][1] - marks[0][1], **steps}


def _run_flow() -> None:
    from prefect import flow, task
    from prefect.artifacts import acreate_markdown_artifact, acreate_progress_artifact, acreate_table_artifact

    @task(task_run_name="step {number}")
    async def step(number: int) -> int:
        return number

    @flow(name="overhead", flow_run_name="six tasks")
    async def six_tasks() -> None:
        for number in range(6):
            await step(number)
        await acreate_markdown_artifact("PASS", key="verdict")
        await acreate_table_artifact([{"node": "node-0", "level": "PASS"}], key="nodes")
        await acreate_progress_artifact(100.0, key="progress")

    asyncio.run(six_tasks())


def _one(state_dir: Path) -> dict[str, float]:
    command = (sys.executable, "-m", "tests.benchmarks.overhead", "--once", str(state_dir))
    begin = time.perf_counter()
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=True)
    return {**json.loads(done.stdout), "total_s": time.perf_counter() - begin}


if __name__ == "__main__":
    if sys.argv[1:2] == ["--once"]:
        print(json.dumps(measure(Path(sys.argv[2]))))
        sys.exit(0)
    sys.exit(gates() if sys.argv[1:2] == ["gate"] else main())
