"""The worlds of tests/benchmarks/pair_worlds.py are what their names say, and the table counts what it claims to count."""

from __future__ import annotations

import pytest

from checks.culprit.matrix import Entity
from tests.benchmarks import pair_worlds
from tests.benchmarks.localising.calibration import Calibration
from tests.benchmarks.localising.cluster import Cluster, Fault
from tests.benchmarks.localising.noise import Noise
from tests.benchmarks.localising.ours import swept
from tests.benchmarks.localising.pair_worlds import WORLDS, PairWorld
from tests.benchmarks.localising.rules import Blame

STILL = Noise("still", hiccup=0.0, sensitivity=1.0, spread=0.0)
OF = {world.name: world for world in WORLDS}


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
    for run in range(3):
        cluster, made = pair_worlds.drawn(world, 8, 1, False, 5, run)
        calibration.add(cluster, swept(made, tolerance=pair_worlds.SHIPPED)[1])

    assert [3] == [every for every, _, _ in calibration.bins.values()]
    assert calibration.error < 0.01
