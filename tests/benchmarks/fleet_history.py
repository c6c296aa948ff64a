"""What the page of a fleet costs: `python -m tests.benchmarks.fleet_history [--nodes 64] [--gates 10000]`. JSON on stdout, minutes.

A folder store with made-up gates, every one with all nodes and 37 numbers of each. A page reads their merged history, and the gates
that this names.
`fleet_cpu_s` is what one `prelaunch fleet list STORE --html FILE` takes from the start of Python to its end (median of three),
`page_bytes` the page, `rebuild_cpu_s` makes the history anew from the files. Both are seconds of processor time, which depend little
on what else the machine does.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from checks.documents.report import dump_plain
from checks.judge.baseline.samples import Side
from checks.judge.trend.numbers import GateNumbers, NodeIdentity, NodeNumbers, Number
from checks.model import Cause, Finding, Level, Profile
from tasks.store.folder import FolderStore
from tasks.store.history import rebuild
from tasks.store.layout import NODES, RECORDS, history_key
from tasks.store.node_rows import GateNodes, NodeRow, Standing
from tasks.store.records import Record
from tests.sample_reports import healthy
from tests.tasks.kept_gates import keep, record_for

SEED, NUMBERS, CHECKS = 20261126, 37, 20
# The newest gate is half an hour old; one before each hour.
HOUR_S, NEWEST_S = 3600.0, 1800.0


def made_up(nodes: int, gates: int, now: float) -> Iterator[GateNodes]:
    """Gates of one cluster, oldest first: a node gets slower, one is condemned now and then, and one is never measured again."""
    chance = random.Random(SEED)
    numbers = tuple(
        Number(f"area.check{place}", "value_gbps", "", "a group", Side.LOW) for place in range(NUMBERS)
    )
    checks = tuple(f"area.check{place}" for place in range(CHECKS))
    identities = [NodeIdentity((f"GPU {place}",), (str(place),), {"driver": "570"}) for place in range(nodes)]
    for gate in range(gates):
        at = now - NEWEST_S - HOUR_S * (gates - 1 - gate)
        text = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at))
        values, rows = [], []
        for place in range(nodes if gate < gates - 200 else nodes - 1):
            name, factor = f"node-{place:04}", 0.9 if place == 0 and gate > gates - 20 else 1.0
            mine = tuple(round(factor * (100.0 + chance.gauss(0.0, 1.0)), 3) for _ in numbers)
            values.append(NodeNumbers(name, identities[place], mine))
            bad = place == 1 and gate % 50 == 49
            own = Finding(
                Level.FAIL, Cause.HARDWARE, checks[0], name, "is broken", metric="value", is_predicate=True
            )
            standing = Standing.CONDEMNED if bad else Standing.PROVEN
            rows.append(NodeRow(name, standing, at, 0, (own,) if bad else (), identities[place]))
        medians = tuple(
            statistics.median(column) for column in zip(*(one.values for one in values), strict=True)
        )
        of_gate = GateNumbers(f"g-{gate:05}", f"{gate:064x}", text, "a group", numbers, tuple(values), medians,
                              (None,) * NUMBERS, (), "c")  # fmt: skip
        yield GateNodes(1, f"g-{gate:05}", text, Profile.QUICK, "p" * 64, (checks,), tuple(rows), (), of_gate)


def write(folder: Path, gates: Iterable[GateNodes], record: Record) -> None:
    """The files of the gates, without ten thousand syncs."""
    for name in (RECORDS, NODES):
        (folder / name).mkdir(parents=True, exist_ok=True)
    for gate in gates:
        made = replace(record, gate_id=gate.gate_id, judged_at=gate.judged_at, measured_at=gate.judged_at, cluster="c",
                       digests=replace(record.digests, report=gate.numbers.report))  # fmt: skip
        (folder / RECORDS / f"{gate.gate_id}.json").write_bytes(dump_plain(made))
        (folder / NODES / f"{gate.gate_id}.json").write_bytes(dump_plain(gate))


def used(who: int) -> float:
    """The processor time of this process, or of those that it started and that have ended."""
    found = resource.getrusage(who)
    return found.ru_utime + found.ru_stime


def page(folder: Path) -> float:
    """The seconds of one command."""
    out = folder / "fleet.html"
    begun = used(resource.RUSAGE_CHILDREN)
    argv = (sys.executable, "-m", "flows.cli.main", "fleet", "list", str(folder), "--html", str(out))
    done = subprocess.run(argv, cwd=Path(__file__).resolve().parents[2], capture_output=True, check=False)
    assert done.returncode in (0, 1, 3), done.stderr.decode()
    return used(resource.RUSAGE_CHILDREN) - begun


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=64)
    parser.add_argument("--gates", type=int, default=10_000)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        store = FolderStore(folder / "store")
        sample = FolderStore(folder / "sample")
        record = record_for(0, healthy(), keep(sample, 0, healthy()))
        write(folder / "store", made_up(arguments.nodes, arguments.gates, time.time()), record)
        begun = used(resource.RUSAGE_SELF)
        done = rebuild(store)
        rebuilt = used(resource.RUSAGE_SELF) - begun
        runs = [page(folder / "store") for _ in range(3)]
        figures = {
            "nodes": arguments.nodes, "gates": arguments.gates, "with_nodes": done.with_nodes,
            "rebuild_cpu_s": round(rebuilt, 1), "fleet_cpu_s": round(statistics.median(runs), 2),
            "page_bytes": (folder / "store" / "fleet.html").stat().st_size,
            "history_bytes": (folder / "store" / history_key("c")).stat().st_size,
        }  # fmt: skip
    print(json.dumps(figures, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
