"""How many reports of healthy machines name one of them, whatever the noise, at sizes from 1 to 1,024 nodes. Simulated, not measured.

`python -m tests.benchmarks.false_names [--reports 1000] [--seed 1] [--most 40000]` draws one report at a time: nodes, ranks, metrics,
the standard deviation (0.5 to 5 %) and the kind of noise. It judges each by relative rules as in the shipped policy and prints a line
for each that names a node or a rank, and how many they are. `--most` limits the values of a report.
"""

from __future__ import annotations

import argparse
import math
import random
import sys
from collections.abc import Callable

from tests.benchmarks.relative_rules import Cells, gamma, half_normal, normal, ours

# The correlation of what a machine measures with what it measured just before.
PERSISTENCE = 0.8


def two_populations(chance: random.Random, many: int) -> list[float]:
    """A fifth of the machines has three times the standard deviation of the others."""
    own = 3.0 if chance.random() < 0.2 else 1.0
    return [chance.gauss(0.0, own) for _ in range(many)]


def unequal(chance: random.Random, many: int) -> list[float]:
    """Each machine has a standard deviation of its own."""
    own = chance.lognormvariate(0.0, 0.5)
    return [chance.gauss(0.0, own) for _ in range(many)]


def persistent(chance: random.Random, many: int) -> list[float]:
    """AR(1) in time: what is slow stays slow for a while."""
    values = [chance.gauss(0.0, 1.0)]
    while len(values) < many:
        values.append(PERSISTENCE * values[-1] + math.sqrt(1.0 - PERSISTENCE**2) * chance.gauss(0.0, 1.0))
    return values


KINDS: dict[str, Callable[[random.Random, int], list[float]]] = {
    "normal": lambda chance, many: [normal(chance) for _ in range(many)],
    "half-normal": lambda chance, many: [half_normal(chance) for _ in range(many)],
    "gamma": lambda chance, many: [gamma(chance) for _ in range(many)],
    "two populations": two_populations,
    "unequal": unequal,
    "persistent": persistent,
}


def report(seed: int, most: int) -> tuple[str, int, Cells]:
    """What the report is, in words, the ranks of each node, and the values."""
    chance = random.Random(seed)
    kind = chance.choice(sorted(KINDS))
    ranks, metrics = chance.choice((1, 2, 4, 8)), chance.randint(1, 40)
    nodes = min(max(1, most // (ranks * metrics)), round(math.exp(chance.uniform(0.0, math.log(1024.5)))))
    spread = math.exp(chance.uniform(math.log(0.005), math.log(0.05)))
    checks = max(1, round(metrics / chance.randint(1, 10)))
    cells: Cells = {(f"check{metric % checks}", f"m{metric}_gbps"): {} for metric in range(metrics)}
    for subject in range(nodes * ranks):
        for values, value in zip(cells.values(), KINDS[kind](chance, metrics), strict=True):
            values[f"node-{subject // ranks}/rank-{subject}"] = max(0.0, 1.0 + spread * value)
    return f"{kind} {spread:.1%}, {nodes} x {ranks}, {metrics} metrics", ranks, cells


def main(argv: list[str] | None = None) -> int:
    """Print what was counted."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--reports", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--most", type=int, default=40_000)
    options = parser.parse_args(argv)
    wrong = 0
    for seed in range(options.seed * 100_000, options.seed * 100_000 + options.reports):
        title, ranks, cells = report(seed, options.most)
        if named := ours(cells, ranks):
            wrong += 1
            print(f"seed {seed}: {title}: {', '.join(sorted(named)[:4])}", flush=True)
    print(f"{wrong} of {options.reports} reports named somebody")
    return 0


if __name__ == "__main__":
    sys.exit(main())
