"""What a gate and its spares save in a year of faults: a simulation of jobs under the faults of a public trace of 400 servers.

`python -m tests.benchmarks.year [--seed 1]` prints a table in Markdown. A job of N nodes is to train for all 348 days. Each fault of
one of its nodes ends it. A gate sees every fault whose kind the trace names, and of the others a share; which nodes go on is chosen by
the product's own function. What the trace does not say is taken from ranges, and the table has the ends of what comes out.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import random
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from checks.model import Answer, Cause, Finding, Level, Report
from checks.runner.in_job.spares import choose
from tests.sample_reports import answered, healthy

TRACE = Path(__file__).with_name("faults_of_400_servers.csv")
SERVERS, HOURS = 400, 348 * 24.0
NODES, SEEN, QUEUE_H = (32, 128, 256), (0.3, 0.6, 0.9), (0.2, 4.0, 24.0)
# By the number of spares; None: no gate.
NAMES = {
    None: "no gate",
    0: "gate",
    1: "gate, 1 spare",
    2: "gate, 2 spares",
    4: "gate, 4 spares",
    8: "gate, 8 spares",
}
# Assumptions, in hours: one run of the checks; until somebody notices that the training has ended; what is lost since its checkpoint;
# how long it runs on a node with a fault that nobody saw; and until a person has found that node.
CHECK_H, NOTICE_H, LOST_H, EARLY_H, SEARCH_H = 0.1, 0.25, 0.5, 1.0, 2.0


@dataclass(frozen=True)
class Fault:
    """A server is broken from `start` to `end`, in hours. `luck` decides whether a gate sees a fault of a kind that nobody names."""

    start: float
    end: float
    server: int
    is_named: bool
    luck: float


@dataclass
class Year:
    """One job on the cluster, from the first hour to the last one."""

    faults: Sequence[Fault]
    nodes: int
    spares: int | None
    seen: float
    queue_h: float
    source: random.Random
    now: float = 0.0
    useful: float = 0.0

    def __post_init__(self) -> None:
        self.out = dict[int, float]()  # until when a server is out of service
        report = healthy(self.nodes + (self.spares or 0), network=False)
        self.report: Report = replace(report, declared=replace(report.declared, spares=self.spares or 0))

    def run(self) -> float:
        """The share of the time in which the training got further."""
        while self.now < HOURS:
            free = [server for server in range(SERVERS) if self.out.get(server, 0.0) <= self.now]
            job = self.source.sample(free, self.nodes + (self.spares or 0))
            while self.now < HOURS and self._trains(job):
                pass
            self.now += self.queue_h
        return self.useful / HOURS

    def _trains(self, job: Sequence[int]) -> bool:
        """One start of the job; whether the engine starts it again with the same nodes."""
        broken = {fault.server: fault for fault in self.faults if fault.start <= self.now < fault.end}
        seen = [server for server in job if server in broken and self._sees(broken[server])]
        nodes = job
        if self.spares is not None:
            self.now += CHECK_H * (2 if seen and self.spares else 1)
            nodes = self._chosen(job, seen)
            self.out.update({server: broken[server].end for server in seen})
        if not nodes:
            return False
        if hidden := [server for server in nodes if server in broken]:
            self.now += EARLY_H + NOTICE_H + SEARCH_H
            self.out.update({server: broken[server].end for server in hidden})
            return False
        ends = (fault.start for fault in self.faults if fault.start > self.now and fault.server in nodes)
        end = min(next(ends, HOURS), HOURS)
        self.useful += max(0.0, end - self.now - (LOST_H if end < HOURS else 0.0))
        self.now = end + NOTICE_H
        return self.spares is not None

    def _sees(self, fault: Fault) -> bool:
        return self.spares is not None and (fault.is_named or fault.luck < self.seen)

    def _chosen(self, job: Sequence[int], bad: Sequence[int]) -> list[int]:
        """The servers of the job that train."""
        places = {f"node-{index}": server for index, server in enumerate(job)}
        findings = [
            Finding(Level.FAIL, Cause.HARDWARE, "check", name, "is broken")
            for name, server in places.items()
            if server in bad
        ]
        if not self.spares:
            return [] if findings else list(job)
        verdict = answered(Answer.NO_GO if findings else Answer.GO, *findings)
        return [places[name] for name in choose(self.report, verdict)]


def faults(source: random.Random) -> list[Fault]:
    """The trace, the earliest first."""
    with open(TRACE, encoding="utf-8", newline="") as file:
        lines = csv.DictReader(line for line in file if not line.startswith("#"))
        return [
            Fault(
                24 * float(line["start"]), 24 * float(line["end"]), int(line["server"]),
                "Unknown" not in line["kind"], source.random(),
            )
            for line in lines
        ]  # fmt: skip


def main() -> int:
    """Replay the year for each number of spares and all assumptions."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seed", type=int, default=1)
    seed = parser.parse_args().seed
    trace = faults(random.Random(seed))
    print(f"| job | {' | '.join(f'{nodes} nodes' for nodes in NODES)} |")
    print(f"| --- |{' --- |' * len(NODES)}")
    for spares in NAMES:
        cells = []
        for nodes in NODES:
            shares = [
                Year(trace, nodes, spares, seen, queue_h, random.Random(seed)).run()
                for seen, queue_h in itertools.product(SEEN, QUEUE_H)
            ]
            lost = [(1 - share) * nodes + (spares or 0) for share in shares]
            cells.append(
                f"{100 * min(shares):.1f} to {100 * max(shares):.1f} %; "
                f"{min(lost) * HOURS / 1000:.0f} to {max(lost) * HOURS / 1000:.0f}"
            )
        print(f"| {NAMES[spares]} | {' | '.join(cells)} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
