#!/usr/bin/env python3
"""A fake node: the interpreter of a job whose `-m checks run` makes reports up instead of measuring.

Everything else goes to the real interpreter, so `checks gate --confirm` and the training are real. FAKE_NODE
says what it plays: healthy | slow (healthy, after FAKE_SECONDS) | wrong (a wrong sum on the last rank) | silent (no
report) | half (an incomplete report) | truncated | lone (only node-0 reports) | hang | warn.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path


def main() -> None:
    """Play the part, or become the real interpreter."""
    if sys.argv[1:4] != ["-m", "checks", "run"]:
        os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
    part, node = os.environ.get("FAKE_NODE", "healthy"), os.environ["PRELAUNCH_NODE"]
    with open("runs", "a", encoding="utf-8") as file:
        file.write("run\n")
    print(f"fake node {node}: {part}", flush=True)
    if part == "hang":
        time.sleep(600)
    if part == "silent" or (part == "lone" and node != "node-0"):
        sys.exit(7)
    if part == "slow":
        time.sleep(float(os.environ.get("FAKE_SECONDS", "2")))
    write(part, node, Path(option("--bundle")), Path(option("--out")))


def write(part: str, node: str, bundle_path: Path, out: Path) -> None:
    """A report in which every planned check has measured something."""
    from checks import bundle as bundles
    from checks.model import SCHEMA_VERSION, Node, Observation, Outcome, Scope, Value, rank_subject
    from checks.report import NodeReport, dump_plain
    from checks.system import identity_of_node

    bundle, attempt = bundles.load(bundle_path.read_bytes()), os.environ["PRELAUNCH_ATTEMPT"]
    plan = bundles.plan_of(bundle)[1]
    index, per = int(node.rpartition("-")[2]), bundle.declared.ranks_per_node
    ranks = [rank_subject(node, rank) for rank in range(index * per, (index + 1) * per)]
    peers = tuple(name for name in bundle.declared.node_names if name != node)
    known: dict[str, Value] = {
        "peers": peers,
        "failures": tuple("ok" for _ in peers),
        "bandwidth_gbps": tuple(5.0 for _ in peers),
        "latency_us": tuple(20.0 for _ in peers),
        "connect_ms": tuple(0.1 for _ in peers),
        "other_catalogues": 0,
        "rendezvous": "ok",
        "wrong_elements": 0,
    }
    rows = []
    for planned in (row for row in plan if row.skip is None):
        for subject in ranks if planned.scope is Scope.RANK else [node]:
            metrics = {name: known.get(name, 1) for name in planned.metrics}
            if planned.check == "collective.all_reduce" and subject == f"node-1/rank-{2 * per - 1}":
                metrics["wrong_elements"] = {"wrong": 12, "warn": 1}.get(part, 0)
            rows.append(Observation(planned.check, subject, Outcome.MEASURED, 0.1, metrics))
    me = Node(node, index, attempt, bundle.catalogue, part != "half", identity_of_node())
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    report = NodeReport(
        SCHEMA_VERSION, bundle.gate_id, now, bundle.profile, bundle.declared, plan, me, tuple(rows)
    )
    path = out / attempt / "nodes" / f"{node}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    data = dump_plain(report)
    temporary = path.with_name(f".{node}.tmp")
    temporary.write_bytes(data[: len(data) // 2] if part == "truncated" else data)
    temporary.rename(path)


def option(name: str) -> str:
    """The word after an option."""
    return sys.argv[sys.argv.index(name) + 1]


if __name__ == "__main__":
    main()
