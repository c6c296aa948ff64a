"""Gates' pair tests between hosts of which one loses packets: `python tests/benchmarks/packet_loss.py`, as root. JSON lines on stdout.

Real network namespaces, real TCP, and the ranks of one job. For each share of loss, and for healthy hosts, it runs the pair tests so
often and prints what a gate finds. `--runs N` (10), `--nodes N` (8), `--share PERCENT [PERCENT ...]` (0 1 3 5), `--rows FILE` appends
the rows of every run, for a recording.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from checks.documents.report import plain  # noqa: E402 - as a script, this file's own folder is known
from tests.survival.faulty_network import heal, lose  # noqa: E402
from tests.survival.test_culprit import findings_of, job  # noqa: E402


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print."""
    asked = _parser().parse_args(argv)
    with tempfile.TemporaryDirectory() as folder, job(Path(folder), asked.nodes) as ranks:
        for share in asked.share:
            for run in range(asked.runs):
                host = (run + 1) % asked.nodes
                if share:
                    lose(ranks.network, host, share / 100)
                report, seconds = ranks.tournament()
                heal(ranks.network, host)
                found = [
                    (one.level.value, one.cause.value, one.subject, one.message)
                    for one in findings_of(report)
                ]
                planted = f"node-{host}" if share else ""
                line = {
                    "loss_percent": share,
                    "run": run,
                    "host": planted,
                    "seconds": round(seconds, 1),
                    "found": found,
                }
                print(json.dumps(line), flush=True)
                if asked.rows:
                    _append(asked.rows, {**line, "rows": [plain(row) for row in report.observations]})
    return 0


def _append(path: Path, line: object) -> None:
    with path.open("a") as file:
        file.write(json.dumps(line) + "\n")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="What pair tests find where one host loses packets.")
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--nodes", type=int, default=8)
    parser.add_argument("--share", type=float, nargs="+", default=[0.0, 1.0, 3.0, 5.0])
    parser.add_argument("--rows", type=Path)
    return parser


if __name__ == "__main__":
    sys.exit(main())
