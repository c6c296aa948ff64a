"""Who finds the culprit: our way against the public tools' rules, on simulated clusters. Constructed, not measured.

`python tests/benchmarks/localisation.py` prints Markdown: docs/evidence/culprit.md holds it. The same options give the same figures.
`--trials N` (200), `--nodes N [N ...]` (16 64 256 1024), `--only targets|compare`, `--seed N`.

Each trial plants faults, and each way measures the same cluster, with the same spells and the same congestion, as it
would measure it. No way sees what was planted, and the decoder gets values and a tolerance alone: none of the
simulator's parameters. The clock is the round; seconds are rounds times what a round costs.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from tests.benchmarks.localising.cluster import Cluster  # noqa: E402 - as a script, this file's own folder is known
from tests.benchmarks.localising.noise import MODELS, Noise  # noqa: E402
from tests.benchmarks.localising.ours import ours  # noqa: E402
from tests.benchmarks.localising.rules import RULES, SOURCES  # noqa: E402
from tests.benchmarks.localising.scenarios import SIZES, TARGETS, Scenario, compared  # noqa: E402
from tests.benchmarks.localising.score import HEAD, JOB_ROUND_S, RESTART_S, Tally, blame_of  # noqa: E402
from tests.benchmarks.localising.world import World  # noqa: E402

SEED = 7_042_611
TRIALS = 200
OURS = "Prelaunch"


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
    trials, seed = asked.trials, asked.seed
    yield "targets", "Targets", targets(trials, seed)
    for noise in MODELS:
        lines = comparison(noise, asked.nodes, trials, seed)
        yield "compare", f"Our way and the public rules: {noise.name}", lines
    yield "compare", "Where the rules come from", sources()


def run(scenario: Scenario, ways: Sequence[str], trials: int, seed: int) -> dict[str, Tally]:
    """What each way made of the same clusters."""
    tallies = {way: Tally() for way in ways}
    for trial, cluster in enumerate(_clusters(scenario, trials, seed)):
        for way, tally in tallies.items():
            world = _world(scenario, cluster, seed, trial)
            blame = blame_of(ours(world)) if way == OURS else RULES[way](world)
            tally.add(cluster, blame, world.rounds, world.tests)
    return tallies


def targets(trials: int, seed: int) -> Iterator[str]:
    """The lines of the first table: our way alone."""
    yield HEAD.replace("way", "planted", 1)
    for scenario in TARGETS:
        what = f"{scenario.name}; {scenario.nodes} nodes, {scenario.noise.name}"
        yield run(scenario, (OURS,), trials, seed)[OURS].row(what, JOB_ROUND_S)


def comparison(noise: Noise, sizes: Sequence[int], trials: int, seed: int) -> Iterator[str]:
    """The lines of a table: every way, at every size."""
    yield HEAD.replace("way", "nodes | way", 1).replace("| ---", "| ---: | ---", 1)
    for nodes in sizes:
        for way, tally in run(compared(nodes, noise), (OURS, *RULES), trials, seed).items():
            yield f"| {nodes} {tally.row(way, JOB_ROUND_S if way == OURS else RESTART_S)}"


def sources() -> Iterator[str]:
    """The lines of a table: what each rule does, and who published it."""
    yield "| rule | what it does | taken from |\n| --- | --- | --- |"
    for name, rule in RULES.items():
        does = " ".join((rule.__doc__ or "").split())
        yield f"| {name} | {does} | {SOURCES[name]} |"


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
    parser.add_argument("--only", choices=("targets", "compare"))
    parser.add_argument("--seed", type=int, default=SEED)
    return parser


if __name__ == "__main__":
    sys.exit(main())
