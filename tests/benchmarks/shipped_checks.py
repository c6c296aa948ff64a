"""What judging all checks of the shipped policy costs on a large cluster, and what its page costs. Constructed, not measured.

`python -m tests.benchmarks.shipped_checks [--nodes 5000] [--pairs [PROFILE]]` makes a report of so many p5.48xlarge with every
value as expected, give or take 1 %; with `--pairs` also the tests of pairs of nodes (up to 256 nodes a list of all other nodes
per node is quadratic; the profile deep tests all pairs of 512). A process of its own reads and judges it, and another one is
`prelaunch judge` of it. JSON on stdout: CPU seconds until the report is read, until the verdict, for the HTML page, and of the
whole command, and the peak RSS of both.
"""

from __future__ import annotations

import argparse
import io
import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import redirect_stdout
from dataclasses import replace
from pathlib import Path

from checks.model import Profile

ROOT = Path(__file__).resolve().parents[2]

KIND, SEED = "p5.48xlarge", 20261123
SPEEDS = ("gbps", "tflops", "per_s", "_us", "_ms")


def make(nodes: int, out: Path, pairs: Profile | None) -> None:
    """Write the report. Times and host loads differ, as they do in real reports."""
    from checks.documents.report import dump
    from checks.model import Observation, Value
    from tests.catalogue_reports import expected_report

    chance = random.Random(SEED)

    def noisy(value: Value) -> Value:
        if isinstance(value, float):
            return value * (1 - 0.005 * min(2.0, abs(chance.gauss(0.0, 1.0))))
        items = (
            [noisy(item) if isinstance(item, float) else item for item in value]
            if type(value) is tuple
            else []
        )
        return tuple(items) if items else value  # type: ignore[return-value]

    def varied(row: Observation) -> Observation:
        host: dict[str, Value] = {"host_load": round(chance.uniform(1, 9), 1), "host_taken": 0.02}
        own = {name: noisy(value) if name.endswith(SPEEDS) else value for name, value in row.metrics.items()}
        begun, took = round(chance.uniform(1, 60), 3), round(chance.uniform(0.1, 9), 3)
        return replace(row, metrics={**host, **own}, started_s=begun, seconds=took)

    report = expected_report(KIND, nodes, pairs or Profile.STANDARD, peers=pairs is not None)
    out.write_bytes(dump(replace(report, observations=tuple(map(varied, report.observations)))))


def judge(path: Path) -> dict[str, float]:
    """Read, judge and render in this process."""
    from checks.documents.report import digest, load
    from checks.facts.builtin import builtin
    from checks.judge.verdict import decide
    from tasks.gate_file.references import default_policy
    from tasks.render.html import html

    data = path.read_bytes()
    report = load(data)
    read = time.process_time()
    verdict = decide(report, default_policy(KIND)[1], builtin(), report_digest=digest(data))
    judged, peak = time.process_time(), _peak_kib()
    html(report, verdict, "shipped")
    page = time.process_time() - judged
    return {
        "read_s": round(read, 2),
        "judged_s": round(judged, 2),
        "page_s": round(page, 2),
        "peak_mb": peak * 1024 // 10**6,
    }


def command(path: Path) -> dict[str, float]:
    """`prelaunch judge`, whose text nobody reads, in this process."""
    from flows.cli.main import main as prelaunch

    with redirect_stdout(io.StringIO()):
        prelaunch(["judge", str(path)])
    return {"command_s": round(time.process_time(), 2), "command_peak_mb": _peak_kib() * 1024 // 10**6}


def _peak_kib() -> int:
    """The peak RSS of this program. getrusage(2) counts what the process was before exec, too: the one that made the report."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return int(status.partition("VmHWM:")[2].split()[0])


def main(argv: Sequence[str] | None = None) -> int:
    """Make the report, and judge it in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pairs", nargs="?", type=Profile, const=Profile.STANDARD)
    parser.add_argument("--judge", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--command", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args(argv)
    if asked.judge or asked.command:
        print(json.dumps(judge(asked.judge) if asked.judge else command(asked.command)))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "report.json"
        make(asked.nodes, out, asked.pairs)
        found: dict[str, float] = {}
        for part in ("--judge", "--command"):
            child = (sys.executable, "-m", "tests.benchmarks.shipped_checks", part, str(out))
            done = subprocess.run(child, cwd=ROOT, check=True, capture_output=True, text=True)
            found |= json.loads(done.stdout)
        sizes = {"nodes": asked.nodes, "report_mb": out.stat().st_size // 1_000_000}
        print(json.dumps({**sizes, **found}, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
