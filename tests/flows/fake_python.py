#!/usr/bin/env python3
"""A fake node: the interpreter of a job whose checks make reports up instead of measuring.

Everything else goes to the real interpreter, so the training is real; of `checks gate` the measurements are made up, and its
verdict, its confirmation, its hold for an answer and its command are not. FAKE_NODE
says what it plays: healthy | slow (healthy, after FAKE_SECONDS) | wrong (a wrong sum on the last rank) | silent (no
report) | half (an incomplete report) | truncated | lone (only node-0 reports) | hang | warn.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from checks.bundle import Bundle


def main() -> None:
    """Play the part, or become the real interpreter."""
    if sys.argv[1:4] == ["-m", "checks", "gate"]:
        gate()
    if sys.argv[1:4] != ["-m", "checks", "run"]:
        os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
    part, node = os.environ.get("FAKE_NODE", "healthy"), os.environ["PRELAUNCH_NODE"]
    with open(os.environ.get("FAKE_RUNS", "runs"), "a", encoding="utf-8") as file:
        file.write("run\n")
    print(f"fake node {node}: {part}", flush=True)
    if part == "hang":
        time.sleep(600)
    if part == "silent" or (part == "lone" and node not in ("node-0", "algo-1")):
        sys.exit(7)
    if part == "slow":
        time.sleep(float(os.environ.get("FAKE_SECONDS", "2")))
    from checks import bundle as bundles

    bundle = bundles.load(Path(option("--bundle")).read_bytes())
    attempt = os.environ["PRELAUNCH_ATTEMPT"]
    write(part, node, bundle, Path(option("--out")), attempt)


def gate() -> None:
    """The real gate in front of a command, of which the measurements alone are made up."""
    from checks.cli import main as command
    from checks.documents.report import load_node
    from checks.runner.in_job import job_gate as in_job_gate

    def made_up(node_context: Any, attempt: str, out: Path, responder: object) -> SimpleNamespace:
        part = os.environ.get("FAKE_NODE", "healthy")
        with open(os.environ.get("FAKE_RUNS", "runs"), "a", encoding="utf-8") as file:
            file.write("run\n")
        write(part, node_context.node, node_context.bundle, out, attempt)
        data = (out / attempt / "nodes" / f"{node_context.node}.json").read_bytes()
        return SimpleNamespace(data=data, report=load_node(data))

    setattr(in_job_gate, "run_beside", made_up)  # noqa: B010 - a name that it imported
    sys.exit(command(sys.argv[3:]))


def write(part: str, node: str, bundle: Bundle, out: Path, attempt: str, nodes: tuple[str, ...] = ()) -> None:
    """A report in which every planned check has measured something."""
    from checks import bundle as bundles
    from checks.documents.report import NodeReport, dump_plain
    from checks.model import SCHEMA_VERSION, Node, Observation, Outcome, Scope, Value, rank_subject
    from checks.probes.host.system import identity_of_node
    from tests.checks.culprit.rows import row
    from tests.planned_contents import with_contents

    plan = bundles.plan_of(bundle)[1]
    names, per = nodes or bundle.declared.node_names, bundle.declared.ranks_per_node
    index = names.index(node)
    ranks = [rank_subject(node, rank) for rank in range(index * per, (index + 1) * per)]
    peers = tuple(name for name in names if name != node)
    known: dict[str, Value] = {
        "peers": peers,
        "failures": tuple("ok" for _ in peers),
        "bandwidth_gbps": tuple(5.0 for _ in peers),
        "latency_us": tuple(20.0 for _ in peers),
        "refused": tuple(0 for _ in peers),
        "connect_ms": tuple(0.1 for _ in peers),
        "other_catalogues": 0,
        "rendezvous": "ok",
        "wrong_elements": 0,
    }
    rows = []
    for planned in (check for check in plan if check.skip is None):
        for subject in ranks if planned.scope is Scope.RANK else [node]:
            metrics = with_contents({name: known.get(name, 1) for name in planned.metrics}, planned)
            if planned.check == "collective.pairs":
                rank = int(subject.rpartition("-")[2])
                paired = row(rank, len(names), per, lambda one, other: {}, profile=bundle.profile)
                metrics = {name: paired.metrics[name] for name in planned.metrics}
            if planned.check == "collective.all_reduce" and subject == rank_subject(
                names[-1], len(names) * per - 1
            ):
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
