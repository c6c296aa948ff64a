"""How often rules that compare machines name good nodes, and how many slow nodes they find. Simulated, not measured.

`python -m tests.benchmarks.relative_rules [--fleets 10] [--nodes 300] [--seed 1] [--spreads 0.02] [--bad 15]` makes fleets in which so
many nodes are slow, judges each by Prelaunch's relative rules, by SuperBench's variance rule and by a fixed threshold, and prints a
table: slow nodes found, and good nodes named, in all fleets together. A node is named if any finding is about it or one of its ranks.

values    37 values per node, as in tests/benchmarks/fleet.py; a slow node is slow in the 6 values of one check
gpus      8 GPUs per node with 6 values each; a slow node is slow on all GPUs in the 2 values of one check
one gpu   as gpus, but slow on one GPU only
one value as values, but slow in one value only: nothing can be combined

Noise: normal; shared (half of the variance is the node's own, in all its values); heavy and heavier (Student's t with 4 and 3
degrees of freedom); mixed and rare (five times as wide in one of 20 and one of 100 values); laplace; half and gamma only slow.
SuperBench's rule is written from its documentation (Data Diagnosis, "variance" with lambda x: x < -0.05): a value more than 5 % below
the baseline. The baseline is the true mean here, which no site knows so well. The fixed rule compares with the fleet's median.
"""

from __future__ import annotations

import argparse
import math
import random
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from statistics import median

from checks.documents.columns import CheckTable
from checks.judge.rules.apply import apply
from checks.judge.rules.combined import chances, pooled
from checks.judge.rules.values import RuleContext
from checks.model import CLUSTER, Declared, Observation, Outcome, node_of
from checks.policy import FALSE_NAMES, CheckPolicy, OnWarn, Over, Policy, Rule

BAD = 15
FIXED = 0.05
# Check -> its number of metrics. Of each node one value per metric, or one per GPU.
VALUES: Mapping[str, int] = {"gemm": 6, "memory": 6, "transfer": 5, "health": 10, "host": 4, "collective": 6}
GPUS: Mapping[str, int] = {"memory": 2, "gemm": 2, "step": 2}

# (check, metric) -> subject -> value; a healthy machine's mean is 1
Cells = dict[tuple[str, str], dict[str, float]]


@dataclass(frozen=True)
class World:
    """What a fleet is made of: its values, and in how many of them a slow node is slow."""

    name: str
    checks: Mapping[str, int]
    ranks: int
    slow_metrics: int
    slow_ranks: int


WORLDS = (
    World("values", VALUES, 1, 6, 1),
    World("gpus", GPUS, 8, 2, 8),
    World("one gpu", GPUS, 8, 2, 1),
    World("one value", VALUES, 1, 1, 1),
)
Draw = Callable[..., float]


def normal(chance: random.Random, own: float = 0.0) -> float:
    """Independent normal noise of variance 1."""
    return chance.gauss(0.0, 1.0)


def shared(chance: random.Random, own: float) -> float:
    """Half of the variance is the node's own."""
    return math.sqrt(0.5) * (own + chance.gauss(0.0, 1.0))


def student(freedom: int, quartile: float) -> Draw:
    """Student's t with so many degrees of freedom, with the quartiles of a normal distribution."""

    def draw(chance: random.Random, own: float = 0.0) -> float:
        squares = [chance.gauss(0.0, 1.0) ** 2 for _ in range(freedom)]
        return chance.gauss(0.0, 0.6745 / quartile) / math.sqrt(math.fsum(squares) / freedom)

    return draw


def mixed(share: float) -> Draw:
    """Normal, and five times as wide in this share of the values."""
    return lambda chance, own=0.0: chance.gauss(0.0, 5.0 if chance.random() < share else 1.0)


def half_normal(chance: random.Random, own: float = 0.0) -> float:
    """Normal noise that only slows, of variance 1."""
    return -abs(chance.gauss(0.0, 1.0)) / math.sqrt(1 - 2 / math.pi)


def gamma(chance: random.Random, own: float = 0.0) -> float:
    """Gamma noise of shape 2 that only slows, of variance 1."""
    return -chance.gammavariate(2.0, 1.0) / math.sqrt(2.0)


def laplace(chance: random.Random, own: float) -> float:
    """Laplace's distribution with the quartiles of a normal one."""
    return chance.choice((-1.0, 1.0)) * chance.expovariate(math.log(2) / 0.6745)


DRAWS: Mapping[str, Draw] = {
    "normal": normal,
    "shared": shared,
    "heavy": student(4, 0.7407),
    "heavier": student(3, 0.7649),
    "mixed": mixed(0.05),
    "rare": mixed(0.01),
    "laplace": laplace,
    "half": half_normal,
    "gamma": gamma,
}


def fleet(
    world: World, nodes: int, noise: float, fault: float, draw: Draw, seed: int, bad: int = BAD
) -> tuple[Cells, frozenset[str]]:
    """The values of a fleet, and its slow nodes. The same seed gives the same fleet."""
    chance = random.Random(seed)
    names = [f"node-{index}" for index in range(nodes)]
    slow = frozenset(chance.sample(names, bad if fault else 0))
    own = {name: chance.gauss(0.0, 1.0) for name in names}
    checks = sorted(world.checks)
    where = {name: checks[chance.randrange(len(checks))] for name in sorted(slow)}
    cells: Cells = {}
    for check in checks:
        for metric in range(world.checks[check]):
            values = cells[check, f"m{metric}_gbps"] = {}
            for index, name in enumerate(names):
                is_slow = where.get(name) == check and metric < world.slow_metrics
                for rank in range(world.ranks):
                    mean = 1.0 - fault if is_slow and rank < world.slow_ranks else 1.0
                    value = mean * (1.0 + noise * draw(chance, own[name]))
                    values[f"{name}/rank-{index * world.ranks + rank}"] = value
    return cells, slow


def superbench(cells: Cells) -> frozenset[str]:
    """The nodes with a value more than 5 % below the baseline."""
    return frozenset(node_of(s) for values in cells.values() for s, v in values.items() if v - 1.0 < -FIXED)


def fixed(cells: Cells) -> frozenset[str]:
    """The nodes with a value more than 5 % below the fleet's median."""
    middles = {key: median(values.values()) for key, values in cells.items()}
    return frozenset(
        node_of(subject)
        for key, values in cells.items()
        for subject, value in values.items()
        if value / middles[key] < 1.0 - FIXED
    )


def ours(cells: Cells, ranks: int) -> frozenset[str]:
    """The nodes that a finding of Prelaunch's rules names: WARN below 0.95, FAIL below 0.90, as in the shipped policy."""
    checks: dict[str, list[str]] = {}
    for check, metric in cells:
        checks.setdefault(check, []).append(metric)
    rows = {check: CheckTable.collect(check, list(_rows(check, cells))) for check in checks}
    lines = {check: CheckPolicy(rules=tuple(_rules(metrics, ranks))) for check, metrics in checks.items()}
    policy = Policy("relative", ("cpu",), OnWarn.GO, 0.25, lines)
    subjects = len(next(iter(cells.values())))
    declared = Declared("cpu", subjects // ranks, 0, ranks)
    share, pool = chances(FALSE_NAMES, policy, rows), cache(lambda: pooled(policy, rows))
    known = RuleContext(declared=declared, chances=share, pooled=pool)
    found = (
        f.subject for check, line in lines.items() for f in apply(check, line, rows[check], subjects, known)
    )
    return frozenset(node_of(subject) for subject in found if subject != CLUSTER)


def _rows(check: str, cells: Cells) -> Iterator[Observation]:
    columns = {metric: values for (name, metric), values in cells.items() if name == check}
    for subject in next(iter(columns.values())):
        metrics = {metric: values[subject] for metric, values in columns.items()}
        yield Observation(check, subject, Outcome.MEASURED, 1.0, metrics)


def _rules(metrics: Sequence[str], ranks: int) -> Iterator[Rule]:
    for metric in metrics:
        yield Rule(metric, "shipped", Over.PEERS, warn_below=0.95, fail_below=0.9)
        if ranks > 1:
            yield Rule(metric, "shipped", Over.NODE, warn_below=0.95, fail_below=0.9)
            yield Rule(metric, "shipped", Over.FLEET, warn_below=0.95, fail_below=0.9, deviations=3.5)


def measure(
    world: World, nodes: int, noise: float, fault: float, draw: Draw, seeds: Sequence[int], bad: int
) -> list[str]:
    """A row of the table: of each rule the slow nodes that it found, and the good ones that it named."""
    found = {name: [0, 0] for name in ("ours", "superbench", "fixed")}
    for seed in seeds:
        cells, slow = fleet(world, nodes, noise, fault, draw, seed, bad)
        results = {"ours": ours(cells, world.ranks), "superbench": superbench(cells), "fixed": fixed(cells)}
        for name, named in results.items():
            found[name][0] += len(named & slow)
            found[name][1] += len(named - slow)
    return [f"{hits}/{false}" for hits, false in found.values()]


def main(argv: Sequence[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--fleets", type=int, default=10)
    parser.add_argument("--nodes", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--bad", type=int, default=BAD)
    parser.add_argument("--worlds", default=",".join(world.name for world in WORLDS))
    parser.add_argument("--noises", default=",".join(DRAWS))
    parser.add_argument("--spreads", default=",".join(f"{noise:g}" for noise in (0.01, 0.02, 0.03)))
    parser.add_argument("--faults", default="")
    asked = parser.parse_args(argv)
    seeds = range(asked.seed * 1000, asked.seed * 1000 + asked.fleets)
    slow = asked.bad * asked.fleets
    print(f"slow nodes found of {slow} / good nodes named, {asked.fleets} fleets of {asked.nodes} nodes\n")
    print("| world | noise | fault | Prelaunch | SuperBench | fixed 5 % |")
    print("| --- | --- | ---: | ---: | ---: | ---: |")
    for world in (world for world in WORLDS if world.name in asked.worlds.split(",")):
        for kind in asked.noises.split(","):
            for noise in map(float, asked.spreads.split(",")):
                usual = (0.0, 0.05, 0.10, 0.20) if kind == "normal" else (0.0, 0.10)
                for fault in map(float, asked.faults.split(",")) if asked.faults else usual:
                    row = measure(world, asked.nodes, noise, fault, DRAWS[kind], seeds, asked.bad)
                    cells = (world.name, f"{kind} {noise:.0%}", f"{fault:.0%}", *row)
                    print(f"| {' | '.join(cells)} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
