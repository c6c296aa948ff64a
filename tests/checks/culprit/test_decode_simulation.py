"""The simulated comparison: its worlds are what their names say, the public rules do what they publish; ours is no worse.

A few trials with seeds of their own; `python tests/benchmarks/localisation.py` runs many.
"""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from checks.culprit.matrix import Entity
from tests.benchmarks import pair_worlds
from tests.benchmarks.localisation import OURS, main, run
from tests.benchmarks.localising.calibration import Calibration
from tests.benchmarks.localising.cluster import Cluster, Fault
from tests.benchmarks.localising.noise import CALM, MODELS, Noise
from tests.benchmarks.localising.ours import swept
from tests.benchmarks.localising.pair_worlds import WORLDS, PairWorld
from tests.benchmarks.localising.rules import RULES, Blame
from tests.benchmarks.localising.scenarios import TARGETS, Scenario, compared
from tests.benchmarks.localising.world import World

SEED = 31
TRIALS = 2
MOST_NODES = 48  # a matrix of 256 nodes takes seconds
STILL = Noise("still", hiccup=0.0, sensitivity=1.0, spread=0.0)

OF = {world.name: world for world in WORLDS}


def world(*faults: Fault, nodes: int = 16, noise: Noise = STILL, rails: int = 1) -> World:
    return World(Cluster(nodes, rails, faults), noise, random.Random(SEED))


def node(*numbers: int) -> tuple[Fault, ...]:
    return tuple(Fault(Entity.NODE, (number,)) for number in numbers)


def nodes(*numbers: int) -> Blame:
    return Blame(frozenset(numbers))


@pytest.mark.parametrize("rule", RULES)
def test_a_healthy_cluster_has_nobody_to_blame(rule: str) -> None:
    """Without noise every rule is silent."""
    assert Blame() == RULES[rule](world())


@pytest.mark.parametrize(
    ("rule", "named", "rounds", "tests"),
    [
        ("adjacent pairs once", (4, 5), 1, 8),
        ("two-pass with known-good", (5,), 2, 8 + 2),
        ("two-round pairing", (5,), 2, 8 + 8),
        # 4 groups of 4; 3 representatives; the failing four halved, one half fails; its two, each with a good node
        ("bisection by ceil(sqrt N)", (5,), 4, 4 + 1 + 2 + 2),
        ("all pairs, by majority", (5,), 15, 120),
    ],
)
def test_public_rule_names_the_published_nodes_for_a_bad_node(
    rule: str, named: tuple[int, ...], rounds: int, tests: int
) -> None:
    """Who is named for node 5, and what it costs; only neighbours-once names a good node with it."""
    measured = world(*node(5))

    assert (nodes(*named), rounds, tests) == (RULES[rule](measured), measured.rounds, measured.tests)


@pytest.mark.parametrize("rule", sorted(set(RULES) - {"adjacent pairs once"}))
def test_two_bad_nodes_in_one_pair(rule: str) -> None:
    """Both are named, though they were each other's first partner."""
    assert nodes(4, 5) == RULES[rule](world(*node(4, 5)))


@pytest.mark.parametrize(
    ("rule", "blame"),
    [
        ("adjacent pairs once", nodes(4, 5)),
        ("two-pass with known-good", Blame()),
        ("two-round pairing", Blame()),
        ("bisection by ceil(sqrt N)", Blame()),
        ("all pairs, by majority", Blame(links=frozenset({frozenset({4, 5})}))),
    ],
)
def test_a_bad_link_between_good_nodes(rule: str, blame: Blame) -> None:
    """Most rules forgive it, one blames its ends; only all pairs show it."""
    assert blame == RULES[rule](world(Fault(Entity.LINK, (4, 5))))


@pytest.mark.parametrize("scenario", TARGETS[:3], ids=lambda scenario: scenario.name)
def test_our_way_points_to_its_targets(scenario: Scenario) -> None:
    """Every bad node, nearly all bad links (of the noisy ones one in fifty is good both ways when measured), no good node."""
    tally = run(replace(scenario, nodes=min(scenario.nodes, MOST_NODES)), (OURS,), TRIALS, SEED)[OURS]

    assert tally.node_recall in (None, 1.0)
    assert (tally.link_recall or 1.0) >= 0.8
    assert (0, 0) == (tally.nodes_blamed, tally.links_blamed)


@pytest.mark.parametrize("noise", MODELS, ids=lambda noise: noise.name)
def test_our_way_blames_nobody_of_healthy_nodes(noise: Noise) -> None:
    """Neither hiccups nor congestion is a node's fault."""
    tally = run(Scenario("nothing", 32, noise, lambda draw: ()), (OURS,), TRIALS, SEED)[OURS]

    assert 0 == tally.nodes_blamed


def test_our_way_is_better_than_the_rules() -> None:
    """On the same clusters no rule names more bad nodes, none names links as surely, and ours costs a fraction."""
    tallies = run(compared(32, CALM), (OURS, *RULES), TRIALS, SEED)
    ours = tallies.pop(OURS)

    assert all((ours.node_recall or 0) >= (rule.node_recall or 0) for rule in tallies.values())
    assert all((ours.link_precision or 0) > (rule.link_precision or 0) for rule in tallies.values())
    assert (0, 1.0) == (ours.nodes_blamed, ours.link_recall)


def test_the_table_has_a_line_for_each_way(capsys: pytest.CaptureFixture[str]) -> None:
    """So that docs/evidence/culprit.md can be made again."""
    assert 0 == main(["--trials", "1", "--nodes", "16", "--only", "compare"])
    printed = capsys.readouterr().out

    assert all(f"| 16 | {way} |" in printed for way in (OURS, *RULES))


def test_blame_is_counted_for_good_parts_alone() -> None:
    """A pair that is slow for good is neither a good link nor a planted one."""
    cluster = Cluster(8, 1, (Fault(Entity.NODE, (2,)),), paths=frozenset({(0, 1)}))
    counts = pair_worlds.Counts()
    blame = Blame(frozenset({2, 3}), frozenset({frozenset({0, 1}), frozenset({4, 5})}))
    counts.add(PairWorld("mixed", STILL), cluster, blame, frozenset(), refused=True)

    assert (counts.good_nodes, counts.good_links, counts.found, counts.planted) == (1, 1, 1, 1)
    assert counts.refused == 0, "something is broken in this world, so that a refusal is right"


def test_the_table_has_a_line_for_each_world_and_way(capsys: pytest.CaptureFixture[str]) -> None:
    """Ours, and a rule beside it."""
    asked = ["--runs", "1", "--nodes", "8", "--known", "--world", "calm", "switch", "--way", "all"]

    assert 0 == pair_worlds.main(asked)
    lines = capsys.readouterr().out.splitlines()
    assert 2 + 2 * 7 == len(lines)
    assert all(line.count("|") == lines[0].count("|") for line in lines)


def test_calibration_compares_the_stated_probability_with_how_often_it_is_right() -> None:
    """Every suspect of a slow node among eight is that node."""
    calibration, world = Calibration(), OF["slow 30 %"]
    for trial in range(3):
        cluster, made = pair_worlds.drawn(world, 8, 1, False, 5, trial)
        calibration.add(cluster, swept(made, tolerance=pair_worlds.SHIPPED)[1])

    assert [3] == [every for every, _, _ in calibration.bins.values()]
    assert calibration.error < 0.01
