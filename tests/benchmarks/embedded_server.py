"""What each part of the embedded server saves: `python tests/benchmarks/embedded_server.py`. JSON on stdout, about two minutes.

Each part is switched off in turn, and measured in turn with the server as it is: the difference of the medians of RUNS rounds, in
seconds; above 0 is saved. `start` is until requests are answered, in a new folder; `stop` is until the process has ended. What a
part does for correctness is in the tests of the server.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RUNS = 3
# Lines that the server's process runs before its own.
PARTS = {
    "as it is": "",
    "no template: each new folder migrates": "process.is_intact = lambda template: False",
    "Python collects garbage during the start": "process.gc.disable = lambda: None",
    "blocks are registered at the start": "os.environ['PREFECT_SERVER_REGISTER_BLOCKS_ON_START'] = 'true'",
    "Prefect's services run": "[os.environ.pop(name) for name in list(os.environ) if '_SERVICES_' in name]",
    "requests are not authenticated": "os.environ.pop('PREFECT_SERVER_API_AUTH_STRING')",
}
SERVER = "import os, runpy, sys; from tasks.orchestration.server import process; {part}\n"
MAIN = "sys.exit(process.main(sys.argv[1:]))"  # as the module itself does


def main() -> int:
    """Measure and print."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _one(folder, "as it is")  # not counted: makes the template
        found: dict[str, list[dict[str, float]]] = {part: [] for part in PARTS}
        for _ in range(RUNS):
            for part in PARTS:
                found[part].append(_one(folder, part))
    medians = {
        part: {step: statistics.median(run[step] for run in runs) for step in runs[0]}
        for part, runs in found.items()
    }
    whole = medians.pop("as it is")
    saved = {
        part: {step: round(each[step] - whole[step], 2) for step in whole} for part, each in medians.items()
    }
    rounded = {step: round(seconds, 2) for step, seconds in whole.items()}
    print(json.dumps({"runs": RUNS, "as it is": rounded, "saved": saved}, indent=2))
    return 0


def measure(folder: Path, template: Path, part: str) -> dict[str, float]:
    """One server in this process, which must not have imported Prefect before."""
    from tasks.orchestration.server import server as servers

    command = servers._command

    def changed(files: servers._Files, listen_fd: int, ready_fd: int) -> tuple[str, ...]:
        words = command(files, listen_fd, ready_fd)
        at = words.index("-m")
        return (*words[:at], "-c", SERVER.format(part=PARTS[part]) + MAIN, *words[at + 2 :])

    servers._command = changed
    server = servers.EmbeddedServer(folder, template)
    marks = [time.perf_counter()]
    server.start()
    try:
        server.wait_ready()
        marks.append(time.perf_counter())
    finally:
        server.stop()
    marks.append(time.perf_counter())
    return {"start": marks[1] - marks[0], "stop": marks[2] - marks[1]}


def _one(folder: Path, part: str) -> dict[str, float]:
    home = Path(tempfile.mkdtemp(dir=folder))
    argv = (sys.executable, __file__, "--one", str(home), str(folder / "template"), part)
    done = subprocess.run(
        argv,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    made: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return made


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        print(json.dumps(measure(Path(sys.argv[2]), Path(sys.argv[3]), sys.argv[4])))
        sys.exit(0)
    sys.exit(main())
