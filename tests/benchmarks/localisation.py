"""Who finds the culprit: our way against the public tools' rules, on simulated clusters. Constructed, not measured.

`python tests/benchmarks/localisation.py` prints Markdown: docs/evidence/culprit.md holds it. The same options give the same figures.
`--trials N` (200), `--nodes N [N ...]` (16 64 256 1024), `--only targets|compare|large|kinds`, `--seed N`, `--jobs N` (1).

Each trial plants faults, and each way measures the same cluster, with the same spells and the same congestion, as it
would measure it. No way sees what was planted, and the decoder gets values and a tolerance alone: none of the
simulator's parameters. The clock is the round; seconds are rounds times what a round costs.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from tests.benchmarks.localising.cluster import Cluster  # noqa: E402 - as a script, this file's own folder is known
from tests.benchmarks.localising.noise import MODELS, Noise  # noqa: E402
from tests.benchmarks.localising.ours import ALL_PAIRS_NODES, ours  # noqa: E402
from tests.benchmarks.localising.rules import RULES, SOURCES  # noqa: E402
from tests.benchmarks.localising.scenarios import KINDS, SIZES, TARGETS, Scenario, compared, of_kind  # noqa: E402
from tests.benchmarks.localising.score import (  # noqa: E402
    EXACT_HEAD,
    HEAD,
    JOB_ROUND_S,
    RESTART_S,
    Exact,
    Tally,
    blame_of,
)
from tests.benchmarks.localising.world import World  # noqa: E402

SEED = 7_042_611
TRIALS = 200
OURS = "Prelaunch"
LARGE = 1024
FEW = 10  # the two tables that cost most have so many times fewer trials


def main(argv: Sequence[str] | None = None) -> int:
    """Print the tables that were asked for."""
    asked = _parser().parse_args(argv)
    for only, title, lines in _tables(asked):
        if asked.only in (None, only):
            print(f"### {title}", end="\n\n")
            for line in lines:
                print(line, flush=True)
            print()
    return 0


def _tables(asked: argparse.Namespace) -> Iterator[tuple[str, str, Iterator[str]]]:
    """What --only calls it, its title, and its lines, which are made when they are asked for."""
    trials, seed, few = asked.trials, asked.seed, max(1, asked.trials // FEW)
    yield "targets", "Targets", targets(trials, seed)
    for noise in MODELS:
        lines = comparison(noise, asked.nodes, trials, seed, asked.jobs)
        yield "compare", f"Our way and the public rules: {noise.name}", lines
    yield "compare", "Where the rules come from", sources()
    yield "large", f"1,024 nodes: matchings first, or all pairs ({few} trials)", large(few, seed)
    for noise in MODELS:
        title = (
            f"What kind of fault: {noise.name} (32 nodes with 4 ranks each, 8 nodes a switch; {few} trials)"
        )
        yield "kinds", title, kinds(noise, few, seed)


def run(
    scenario: Scenario, ways: Sequence[str], trials: int, seed: int, all_pairs_nodes: int = ALL_PAIRS_NODES
) -> dict[str, Tally]:
    """What each way made of the same clusters."""
    tallies = {way: Tally() for way in ways}
    for trial, cluster in enumerate(_clusters(scenario, trials, seed)):
        for way, tally in tallies.items():
            world = _world(scenario, cluster, seed, trial)
            blame = blame_of(ours(world, all_pairs_nodes)) if way == OURS else RULES[way](world)
            tally.add(cluster, blame, world.rounds, world.tests)
    return tallies


def targets(trials: int, seed: int) -> Iterator[str]:
    """The lines of the first table: our way alone."""
    yield HEAD.replace("way", "planted", 1)
    for scenario in TARGETS:
        what = f"{scenario.name}; {scenario.nodes} nodes, {scenario.noise.name}"
        yield run(scenario, (OURS,), trials, seed)[OURS].row(what, JOB_ROUND_S)


def comparison(noise: Noise, sizes: Sequence[int], trials: int, seed: int, jobs: int = 1) -> Iterator[str]:
    """The lines of a table: every way, at every size."""
    one = partial(_compared, noise=noise, trials=trials, seed=seed)
    if jobs > 1:
        with ProcessPoolExecutor(jobs) as pool:
            results = [*pool.map(one, sizes)]
    else:
        results = [*map(one, sizes)]
    yield HEAD.replace("way", "nodes | way", 1).replace("| ---", "| ---: | ---", 1)
    for nodes, tallies in zip(sizes, results, strict=True):
        for way, tally in tallies.items():
            yield f"| {nodes} {tally.row(way, JOB_ROUND_S if way == OURS else RESTART_S)}"


def _compared(nodes: int, noise: Noise, trials: int, seed: int) -> dict[str, Tally]:
    return run(compared(nodes, noise), (OURS, *RULES), trials, seed)


def large(trials: int, seed: int) -> Iterator[str]:
    """The lines of a table: what all pairs of 1,024 nodes would find, and cost."""
    yield HEAD.replace("way", "way, noise", 1)
    for noise in MODELS:
        for name, up_to in (
            (f"matchings first, {noise.name}", ALL_PAIRS_NODES),
            (f"all pairs, {noise.name}", LARGE),
        ):
            tally = run(compared(LARGE, noise), (OURS,), trials, seed, up_to)[OURS]
            yield tally.row(name, JOB_ROUND_S)


def sources() -> Iterator[str]:
    """The lines of a table: what each rule does, and who published it."""
    yield "| rule | what it does | taken from |\n| --- | --- | --- |"
    for name, rule in RULES.items():
        does = " ".join((rule.__doc__ or "").split())
        yield f"| {name} | {does} | {SOURCES[name]} |"


def kinds(noise: Noise, trials: int, seed: int) -> Iterator[str]:
    """The lines of a table: each kind of fault, and whether just that was named."""
    yield EXACT_HEAD
    for name in KINDS:
        scenario, exact = of_kind(name, noise), Exact()
        for trial, cluster in enumerate(_clusters(scenario, trials, seed)):
            exact.add(cluster, ours(_world(scenario, cluster, seed, trial)))
        yield exact.row(name)


def _clusters(scenario: Scenario, trials: int, seed: int) -> Iterator[Cluster]:
    for trial in range(trials):
        yield scenario.cluster(random.Random(f"{seed} {scenario.name} {scenario.nodes} planted {trial}"))


def _world(scenario: Scenario, cluster: Cluster, seed: int, trial: int) -> World:
    measured = f"{seed} {scenario.name} {scenario.nodes} {scenario.noise.name} measured {trial}"
    return World(cluster, scenario.noise, random.Random(measured))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description="Our way against the public rules, on simulated clusters: Markdown."
    )
    parser.add_argument("--trials", type=int, default=TRIALS)
    parser.add_argument("--nodes", type=int, nargs="+", default=list(SIZES))
    parser.add_argument("--only", choices=("targets", "compare", "large", "kinds"))
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument(
        "--jobs", type=int, default=1, help="processes side by side; the figures stay the same"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
