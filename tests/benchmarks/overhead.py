"""What Prefect costs a gate: `python tests/benchmarks/overhead.py`. JSON on stdout, about 35 s.

Medians of five processes, each on the embedded server with a migrated database (warm), each doing what
`prelaunch gate` does: start the server, import Prefect meanwhile, wait, run a flow of six trivial tasks and
three artifacts, stop. Seconds. `total_s` is the process's wall time from outside; the other figures are
taken within: `server_ready_s` from the start of the server, with the import going on beside it;
`server_alone_s` without it.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RUNS = 5


def main() -> int:
    """Measure and print."""
    with tempfile.TemporaryDirectory() as folder:
        _one(Path(folder))  # not counted: makes the template and the database
        runs = [_one(Path(folder)) for _ in range(RUNS)]
        alone = [_server_alone(Path(folder)) for _ in range(RUNS)]
    medians = {name: round(statistics.median(run[name] for run in runs), 3) for name in runs[0]}
    print(
        json.dumps({"runs": RUNS, "server_alone_s": round(statistics.median(alone), 3), **medians}, indent=2)
    )
    return 0


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
    from prefect.artifacts import (
        acreate_markdown_artifact,
        acreate_progress_artifact,
        acreate_table_artifact,
    )

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
    command = (sys.executable, __file__, "--once", str(state_dir))
    begin = time.perf_counter()
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    return {**json.loads(done.stdout), "total_s": time.perf_counter() - begin}


def _server_alone(state_dir: Path) -> float:
    from tasks.orchestration.server.server import EmbeddedServer

    server = EmbeddedServer(state_dir)
    begin = time.perf_counter()
    try:
        server.start()
        server.wait_ready()
        return time.perf_counter() - begin
    finally:
        server.stop()


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))  # run by path: some distributions install a package called `tests`
    if sys.argv[1:2] == ["--once"]:
        print(json.dumps(measure(Path(sys.argv[2]))))
        sys.exit(0)
    sys.exit(main())
