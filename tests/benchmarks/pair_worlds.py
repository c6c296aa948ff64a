"""Refusals, blame and recall of the pair tests in simulated worlds, healthy ones and faulty ones. Constructed, not measured.

`python tests/benchmarks/pair_worlds.py` prints Markdown: docs/evidence/culprit.md holds it. The same options give the same figures.
`--runs N` (20), `--nodes N [N ...]` (16 64), `--rails N` (1), `--known` (the decoder is told the leaves), `--world NAME [NAME ...]`
(all), `--seed N`, `--calibration`.

A refusal is a finding with level FAIL about a world in which no part is to be named; a world with a fault is let through if no finding
has that level. A named pair that is slow for good counts as neither right nor wrong. CPU is the processor's time of the longest
decoding of a run, and of all of them; each is the greatest of all runs.
"""

from __future__ import annotations

import argparse
import math
import random
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from checks.culprit.matrix import Decoded, Entity, MatrixAnswer, Tolerance  # noqa: E402 - as a script, this file's own folder is known
from checks.judge.cpu_contention import RecordedLoads  # noqa: E402
from checks.judge.culprits.findings import CheckFindings  # noqa: E402
from checks.judge.culprits.from_report import COLLECTIVE, MatrixSubject, PairTable  # noqa: E402
from checks.judge.culprits.pattern_findings import MatrixReading  # noqa: E402
from checks.judge.culprits.readings import SURE  # noqa: E402
from checks.model import Level  # noqa: E402
from tests.benchmarks.localising.calibration import Calibration  # noqa: E402
from tests.benchmarks.localising.cluster import Cluster  # noqa: E402
from tests.benchmarks.localising.ours import Tests, swept  # noqa: E402
from tests.benchmarks.localising.pair_worlds import WITH_RAILS, WORLDS, PairWorld  # noqa: E402
from tests.benchmarks.localising.score import Blame, blame_of  # noqa: E402
from tests.benchmarks.localising.world import World  # noqa: E402

SEED = 20_261_123
SHIPPED = Tolerance(ratio=0.7)  # slow_ratio of deployments/policies/nvidia.toml
Z = 1.96
CALIBRATION = Calibration()


@dataclass
class Counts:
    """Sums over the runs of one world."""

    runs: int = 0
    healthy: int = 0
    refused: int = 0
    let_through: int = 0
    good_nodes: int = 0
    good_links: int = 0
    planted: int = 0
    found: int = 0
    cpu_s: float = 0.0
    all_s: float = 0.0

    def add(
        self, world: PairWorld, cluster: Cluster, blame: Blame, wide: frozenset[str], refused: bool
    ) -> None:
        """One run. `wide` are the subjects of rails and switches that were named."""
        self.runs += 1
        self.healthy += world.healthy
        self.refused += world.healthy and refused
        self.let_through += not world.healthy and not refused
        self.good_nodes += len(blame.nodes - cluster.bad_nodes)
        paths = {frozenset(pair) for pair in cluster.paths}
        self.good_links += len(blame.links - cluster.bad_links - paths)
        wide_kinds = (Entity.RAIL, Entity.SWITCH) if cluster.group else (Entity.RAIL,)
        others = {one.subject(cluster) for one in cluster.faults if one.kind in wide_kinds}
        self.planted += len(cluster.bad_nodes) + len(cluster.bad_links) + len(others)
        self.found += len(cluster.bad_nodes & blame.nodes) + len(cluster.bad_links & blame.links)
        self.found += len(others & wide)

    def row(self, *names: object) -> str:
        """A line of the table."""
        cells = (
            *map(str, names),
            share(self.refused, self.runs, upper=True) if self.healthy else "-",
            "-" if self.healthy else share(self.let_through, self.runs, upper=True),
            f"{self.good_nodes / self.runs:.2f}",
            f"{self.good_links / self.runs:.2f}",
            share(self.found, self.planted, upper=False) if self.planted else "-",
            f"{self.cpu_s:.2f}; {self.all_s:.2f}",
        )
        return "| " + " | ".join(cells) + " |"


COLUMNS = (
    "world",
    "nodes",
    "healthy, refused",
    "broken, let through",
    "good nodes blamed a run",
    "good links blamed a run",
    "recall",
    "CPU s of one decoding; of all",
)
HEAD = f"| {' | '.join(COLUMNS)} |\n| --- | ---: |{' ---: |' * (len(COLUMNS) - 2)}"


def share(some: int, whole: int, upper: bool) -> str:
    """A share with the end of its 95 % interval that counts (Wilson's score)."""
    p, square = some / whole, Z * Z
    middle, half = p + square / (2 * whole), Z * math.sqrt(p * (1 - p) / whole + square / (4 * whole * whole))
    bound = (middle + half if upper else middle - half) / (1 + square / whole)
    return f"{p:.2f} ({'<' if upper else '>'} {bound:.2f})"


def main(argv: Sequence[str] | None = None) -> int:
    """Print the table that was asked for."""
    asked = _parser().parse_args(argv)
    every = (*WORLDS, *(WITH_RAILS if asked.rails > 1 else ()))
    worlds = [one for one in every if not asked.world or one.name in asked.world]
    print(HEAD)
    for nodes in asked.nodes:
        for line in lines(worlds, nodes, asked.rails, asked.known, asked.runs, asked.seed):
            print(line, flush=True)
    if asked.calibration:
        print("", *CALIBRATION.lines(), sep="\n")
    return 0


def lines(
    worlds: Sequence[PairWorld], nodes: int, rails: int, known: bool, runs: int, seed: int
) -> Iterator[str]:
    """A line for each world."""
    for world in worlds:
        counts = Counts()
        for run in range(runs):
            cluster, made = drawn(world, nodes, rails, known, seed, run)
            counts.add(world, cluster, *_result(made, counts))
        yield counts.row(world.name, nodes)


def drawn(
    world: PairWorld, nodes: int, rails: int, known: bool, seed: int, run: int
) -> tuple[Cluster, World]:
    """A cluster of the world, and what measures it."""
    name = f"{seed} {world.name} {nodes} {rails} {run}"
    cluster = world.cluster(nodes, rails, known, random.Random(f"{name} planted"))
    return cluster, World(cluster, world.noise_of(nodes), random.Random(f"{name} measured"))


def _result(world: World, counts: Counts) -> tuple[Blame, frozenset[str], bool]:
    before = time.process_time()
    tests, decoded = swept(world, tolerance=SHIPPED)
    counts.cpu_s = max(counts.cpu_s, tests.longest_s)
    counts.all_s = max(counts.all_s, time.process_time() - before - world.seconds)
    CALIBRATION.add(world.cluster, decoded)
    sure = [one for one in decoded.suspects if one.probability >= SURE]
    wide = frozenset(one.subject for one in sure if one.kind in (Entity.RAIL, Entity.SWITCH))
    named = wide if decoded.answer is MatrixAnswer.BLAMED else frozenset[str]()
    return blame_of(decoded), named, refused(tests, decoded)


def refused(tests: Tests, decoded: Decoded) -> bool:
    """Whether the judge makes a FAIL of it."""
    matrix = tests.matrix
    reading = MatrixReading(COLLECTIVE, MatrixSubject.BANDWIDTH, matrix, decoded)
    table = PairTable(matrix.endpoints, tuple(range(len(matrix.endpoints))))
    found = CheckFindings(COLLECTIVE, table, [reading], RecordedLoads((), {})).findings()
    return any(finding.level is Level.FAIL for finding in found)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Refusals, blame and recall in simulated worlds: Markdown.")
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--nodes", type=int, nargs="+", default=[16, 64])
    parser.add_argument("--rails", type=int, default=1)
    parser.add_argument("--known", action="store_true", help="the decoder is told the leaves")
    parser.add_argument("--world", nargs="+", default=[])
    parser.add_argument("--seed", type=int, default=SEED)
    text = "how often suspects of a probability are at fault"
    parser.add_argument("--calibration", action="store_true", help=text)
    return parser


if __name__ == "__main__":
    sys.exit(main())
