"""The worlds of tests/benchmarks/pair_worlds.py are what their names say, and the table counts what it claims to count."""

from __future__ import annotations

import random

import pytest

from checks.culprit.matrix import Kind
from tests.benchmarks import pair_worlds
from tests.benchmarks.localising.calibration import Calibration
from tests.benchmarks.localising.cluster import Cluster, Fault
from tests.benchmarks.localising.noise import Noise, Weather
from tests.benchmarks.localising.ours import swept
from tests.benchmarks.localising.pair_worlds import CROWDED, WORLDS, PairWorld
from tests.benchmarks.localising.plan import tournament
from tests.benchmarks.localising.rules import Blame
from tests.benchmarks.localising.world import World

STILL = Noise("still", hiccup=0.0, sensitivity=1.0, spread=0.0)
OF = {world.name: world for world in WORLDS}


def test_a_congested_leaf_is_congested_for_its_share_of_the_time() -> None:
    """Whole leaves of eight, 17 % of the rounds, about twenty rounds at a time."""
    weather = Weather(CROWDED, 64, random.Random(5), [])
    covered = [weather.over(when) for when in range(40_000)]

    assert {(part.start % 8, len(part)) for part in covered if part} == {(0, 8)}
    assert 0.17 == pytest.approx(sum(map(bool, covered)) / len(covered), abs=0.03)


def test_paths_that_are_slow_for_good_are_slow_in_every_test() -> None:
    """Both ways, on all rails, whenever they are measured."""
    world = World(Cluster(4, 2, paths=frozenset({(1, 3)})), STILL, random.Random(1))
    plan = tournament(4, 2)

    for _ in range(2):
        slow = {plan.duels[test // 2][:2] for test, value in enumerate(world.measure(plan)) if value == 0.5}
        assert slow == {(1, 3)}


def test_between_leaves_an_oversubscribed_fabric_is_slower() -> None:
    """Pairs of one leaf keep their speed."""
    cluster = OF["oversubscribed 2:1"].cluster(16, 1, True, random.Random(1))

    assert (1.0, 0.5) == (cluster.share(0, 7), cluster.share(7, 8))


def test_blame_is_counted_for_good_parts_alone() -> None:
    """A pair that is slow for good is neither a good link nor a planted one."""
    cluster = Cluster(8, 1, (Fault(Kind.NODE, (2,)),), paths=frozenset({(0, 1)}))
    counts = pair_worlds.Counts()
    blame = Blame(frozenset({2, 3}), frozenset({frozenset({0, 1}), frozenset({4, 5})}))
    counts.add(PairWorld("mixed", STILL), cluster, blame, frozenset(), refused=True)

    assert (counts.good_nodes, counts.good_links, counts.found, counts.planted) == (1, 1, 1, 1)
    assert counts.refused == 0, "something is broken in this world, so that a refusal is right"


def test_a_refusal_of_a_healthy_world_is_counted_with_its_bound() -> None:
    """No refusal in twenty runs leaves up to one in six possible."""
    assert "0.00 (< 0.16)" == pair_worlds.share(0, 20, upper=True)
    assert "1.00 (> 0.84)" == pair_worlds.share(20, 20, upper=False)


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
    for run in range(3):
        cluster, made = pair_worlds.drawn(world, 8, 1, False, 5, run)
        calibration.add(cluster, swept(made, tolerance=pair_worlds.SHIPPED)[1])

    assert [3] == [every for every, _, _ in calibration.bins.values()]
    assert calibration.error < 0.01
