"""What a store's history costs: `python tests/benchmarks/store_history.py`. JSON on stdout, about a minute.

A folder store with 10,000 records (made up), seconds each: `write_one_s` is what a gate waits for its row (median of
20), `rebuild_s` reads every record and makes the SQLite file anew, `list_s` lists them by it, `list_without_s` without
one. `replay_s` judges 300 kept reports of 16 nodes x 8 ranks again under a stricter policy; `replay_mib` is the peak of
the process's memory then.
"""

from __future__ import annotations

import json
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from checks.documents.report import dump_plain  # noqa: E402
from checks.facts.builtin import builtin  # noqa: E402 - as a script, this file's own folder is what Python knows
from checks.policy import Rule  # noqa: E402
from tasks.reports.replay import ReplayTotals, replay  # noqa: E402
from tasks.store.folder import FolderStore  # noqa: E402
from tasks.store.history import listed, rebuild  # noqa: E402
from tasks.store.index import FILE, Index  # noqa: E402
from tasks.store.open import identity  # noqa: E402
from tests.sample_reports import POLICY, healthy  # noqa: E402
from tests.tasks.kept_gates import keep, record_for, sample_policy  # noqa: E402

RECORDS, REPORTS = 10_000, 300


def main() -> int:
    """Measure and print."""
    with tempfile.TemporaryDirectory() as folder:
        figures = {**_history(Path(folder) / "history"), **_replay(Path(folder) / "replay")}
    print(json.dumps({"records": RECORDS, "reports": REPORTS, **figures}, indent=2))
    return 0


def _history(folder: Path) -> dict[str, object]:
    store, index = FolderStore(folder), Index(folder / FILE)
    verdict = keep(store, 0, healthy())
    one = record_for(0, healthy(), verdict)
    (folder / "records").mkdir(exist_ok=True)
    for number in range(1, RECORDS):
        made = replace(one, gate_id=f"made-up-{number:05}")
        (folder / "records" / f"{made.gate_id}.json").write_bytes(dump_plain(made))  # without 10,000 syncs
    name = identity(store)
    writes = [_seconds(lambda: index.write(name, (one,))) for _ in range(20)]
    return {
        "write_one_s": round(statistics.median(writes), 4),
        "rebuild_s": round(_seconds(lambda: rebuild(store, index, sample_policy)), 2),
        "list_s": round(_seconds(lambda: listed(store, index)), 2),
        "list_without_s": round(_seconds(lambda: listed(store, Index(folder / "other.sqlite"))), 2),
    }


def _replay(folder: Path) -> dict[str, object]:
    store = FolderStore(folder)
    for number in range(REPORTS):
        keep(store, number % 10, healthy(16, 8)) if number < 10 else _again(store, number)
    line = POLICY.checks["compute.gemm"]
    rules = (line.rules[0], Rule("gflops", "a test", fail_below=42.0))
    policy = replace(POLICY, checks={**POLICY.checks, "compute.gemm": replace(line, rules=rules)})
    total = ReplayTotals()

    def run() -> None:
        for one in replay(store, policy, builtin(), None):
            total.add(one)

    taken = _seconds(run)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"replay_s": round(taken, 2), "replay_mib": round(peak), "replay": total.line}


def _again(store: FolderStore, number: int) -> None:
    """The same gate under another name: its report and verdict, whose words do not hold the name."""
    source = store.root / "gates" / sorted(path.name for path in (store.root / "gates").iterdir())[0]
    for path in source.iterdir():
        store.put(f"gates/copy-{number:04}/{path.name}", path.read_bytes())


def _seconds(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


if __name__ == "__main__":
    sys.exit(main())
