"""How long the hosts of a job take from their last check to the start of the training. Constructed reports, real sockets on loopback.

`python -m tests.benchmarks.in_job [--nodes 512] [--profile quick] [--judges 3] [--spares 2]`: every host is a thread with an address,
a responder and a report of its own, in eight processes. JSON on stdout: how many hosts may start, the seconds from the moment at which
all checks have ended until the first and the last of them may, the CPU seconds of all processes, and the largest one's peak RSS.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import resource
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

from checks import bundle as bundles
from checks.bundle import Bundle
from checks.documents.report import NodeReport, dump_plain, load_node
from checks.exchange.secret_key import Access
from checks.facts.builtin import builtin
from checks.model import Profile, node_of
from checks.process.free_ports import free_port
from checks.roster import Member, Roster
from checks.runner.deadline import NEVER
from checks.runner.in_job import job_gate
from checks.runner.in_job.hold import Refusal
from checks.runner.node_context import NodeContext
from tasks.gate_file.references import default_policy
from tests.catalogue_reports import expected_report

KIND, PROCESSES = "p5.48xlarge", 8


def make(nodes: int, profile: Profile, judges: int = 3, spares: int = 0) -> tuple[Bundle, list[bytes]]:
    """The bundle of the gate, and the report of each host."""
    report = expected_report(KIND, nodes, profile)
    names = tuple(node.name for node in report.nodes)
    declared = replace(report.declared, node_names=names, spares=spares)
    policy = replace(default_policy(KIND)[1], judges=judges)
    bundle = bundles.make("in-job", declared, profile, policy, builtin())
    rows: dict[str, list[Any]] = {node.name: [] for node in report.nodes}
    for row in report.observations:
        rows[node_of(row.subject)].append(row)
    return bundle, [
        dump_plain(NodeReport(
            1, "in-job", report.measured_at, profile, declared, bundles.plan_of(bundle)[1],
            replace(node, catalogue=bundle.catalogue, measured_at="", attempt="attempt"), tuple(rows[node.name]),
        ))
        for node in report.nodes
    ]  # fmt: skip


def hosts(part: int, bundle: Bundle, reports: list[bytes], roster: Roster, out: Path, begin: Any) -> None:
    """The hosts of one process, each in a thread. Writes when each may start."""
    own = [rank for rank in range(len(reports)) if rank % PROCESSES == part]
    loaded = {rank: SimpleNamespace(data=reports[rank], report=load_node(reports[rank])) for rank in own}

    def run_beside(node_context: NodeContext, *_: object) -> Any:
        begin.wait()
        return loaded[node_context.node_rank]

    vars(job_gate).update(run_beside=run_beside, become_subreaper=Mock(), end_left=Mock())
    begun_s = time.process_time()

    def host(rank: int) -> float:
        name, folder = roster.members[rank].name, out / str(rank)
        node_context = NodeContext(
            bundle, folder, roster, folder, name, rank, folder, (), (), Access(b"k" * 32, name),
            b"", folder, NEVER,
        )  # fmt: skip
        passed = job_gate.gate(node_context, "attempt", out, trains=True)
        if isinstance(passed, Refusal):
            print(name, passed.reason[:300], file=sys.stderr)
        return time.time() if isinstance(passed, Path) else 0.0

    with ThreadPoolExecutor(len(own)) as pool:
        times = list(pool.map(host, own))
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1000
    ended = {"times": times, "cpu_s": time.process_time() - begun_s, "peak_mb": peak_mb}
    (out / f"part-{part}").write_text(json.dumps(ended))


def main() -> int:
    """Make the reports, play the hosts, and print what they took."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--nodes", type=int, default=512)
    parser.add_argument("--profile", type=Profile, default=Profile.QUICK)
    parser.add_argument("--judges", type=int, default=3)
    parser.add_argument("--spares", type=int, default=0, help="so many of the nodes")
    arguments = parser.parse_args()
    bundle, reports = make(arguments.nodes, arguments.profile, arguments.judges, arguments.spares)
    names = enumerate(bundle.declared.node_names)
    members = tuple(Member(name, f"127.1.{rank // 250}.{rank % 250 + 1}", 20123) for rank, name in names)
    roster = Roster(members, free_port(), "lo")
    with tempfile.TemporaryDirectory() as folder:
        context = multiprocessing.get_context("fork")
        begin = context.Barrier(arguments.nodes + 1)
        started = [
            context.Process(target=hosts, args=(part, bundle, reports, roster, Path(folder), begin))
            for part in range(PROCESSES)
        ]
        for process in started:
            process.start()
        begin.wait()
        begun = time.time()
        for process in started:
            process.join()
        ended = [json.loads(path.read_text()) for path in Path(folder).glob("part-*")]
    times = [at for each in ended for at in each["times"] if at]
    print(json.dumps({
        "nodes": arguments.nodes, "profile": arguments.profile.value, "report_kb": len(reports[0]) // 1000,
        "hosts_that_start": len(times), "first_s": round(min(times, default=0) - begun, 2),
        "last_s": round(max(times, default=0) - begun, 2), "cpu_s": round(sum(each["cpu_s"] for each in ended), 2),
        "peak_mb": max(each["peak_mb"] for each in ended),
    }))  # fmt: skip
    return 0


if __name__ == "__main__":
    os.environ.setdefault("PRELAUNCH_STATE", "/nonexistent")
    sys.exit(main())
