"""What the decoder names in simulated clusters, and how the benchmark of these clusters counts it.

A few trials with seeds of their own; `python tests/benchmarks/pair_worlds.py` runs many.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from checks.culprit.matrix import Entity
from tests.benchmarks import pair_worlds
from tests.benchmarks.localising.calibration import Calibration
from tests.benchmarks.localising.cluster import Cluster, Fault
from tests.benchmarks.localising.noise import CALM, MODELS, NOISY, Noise
from tests.benchmarks.localising.ours import swept
from tests.benchmarks.localising.pair_worlds import EVEN, PairWorld, link, node
from tests.benchmarks.localising.score import Blame, blame_of

SEED = 31
TRIALS = 2


def blamed(world: PairWorld, nodes: int) -> Iterator[tuple[Cluster, Blame]]:
    """Some clusters of the world, each with what the decoder names in it."""
    for trial in range(TRIALS):
        cluster, measured = pair_worlds.drawn(world, nodes, 1, False, SEED, trial)
        yield cluster, blame_of(swept(measured)[1])


@pytest.mark.parametrize(
    ("world", "link_recall"),
    [
        (PairWorld("5 bad nodes", CALM, lambda draw: draw.dead_and_slow(5)), 1.0),
        (PairWorld("a link that is always bad", CALM, link(0.3)), 1.0),
        # Of the links that are bad at times one in fifty is good both ways when it is measured.
        (PairWorld("3 links and a node", NOISY, lambda draw: draw.dead_and_slow(1) + draw.links(3, 1)), 0.8),
    ],
    ids=lambda value: value.name if isinstance(value, PairWorld) else "",
)
def test_our_way_points_to_its_targets(world: PairWorld, link_recall: float) -> None:
    """Every bad node, the bad links, and no good part."""
    clusters = [*blamed(world, nodes=48)]

    assert all(blame.nodes == cluster.bad_nodes for cluster, blame in clusters)
    assert all(blame.links <= cluster.bad_links for cluster, blame in clusters)
    planted = sum(len(cluster.bad_links) for cluster, _ in clusters)
    assert sum(len(blame.links) for _, blame in clusters) >= link_recall * planted


@pytest.mark.parametrize("noise", MODELS, ids=lambda noise: noise.name)
def test_our_way_blames_nobody_of_healthy_nodes(noise: Noise) -> None:
    """Neither hiccups nor congestion is a node's fault."""
    assert not any(blame.nodes for _, blame in blamed(PairWorld("nothing", noise), nodes=32))


def test_blame_is_counted_for_good_parts_alone() -> None:
    """A pair that is slow for good is neither a good link nor a planted one."""
    cluster = Cluster(8, 1, (Fault(Entity.NODE, (2,)),), paths=frozenset({(0, 1)}))
    counts = pair_worlds.Counts()
    blame = Blame(frozenset({2, 3}), frozenset({frozenset({0, 1}), frozenset({4, 5})}))
    counts.add(PairWorld("mixed", CALM), cluster, blame, frozenset(), refused=True)

    assert (counts.good_nodes, counts.good_links, counts.found, counts.planted) == (1, 1, 1, 1)
    assert counts.refused == 0, "something is broken in this world, so that a refusal is right"


def test_the_table_has_a_line_for_each_world(capsys: pytest.CaptureFixture[str]) -> None:
    """So that docs/evidence/culprit.md can be made again."""
    assert 0 == pair_worlds.main(["--runs", "1", "--nodes", "8", "--known", "--world", "calm", "switch"])
    lines = capsys.readouterr().out.splitlines()
    assert 2 + 2 == len(lines)
    assert all(line.count("|") == lines[0].count("|") for line in lines)


def test_calibration_compares_the_stated_probability_with_how_often_it_is_right() -> None:
    """Every suspect of a slow node among eight is that node."""
    calibration, world = Calibration(), PairWorld("slow 30 %", EVEN, node(0.7))
    for trial in range(3):
        cluster, made = pair_worlds.drawn(world, 8, 1, False, 5, trial)
        calibration.add(cluster, swept(made, tolerance=pair_worlds.SHIPPED)[1])

    assert [3] == [every for every, _, _ in calibration.bins.values()]
    assert calibration.error < 0.01
