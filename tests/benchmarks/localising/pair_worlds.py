"""Worlds for the table of refusals, blame and recall: healthy clusters that are not quiet, and faults that are small, rare or many.

A world is a noise, what the fabric does to good nodes (paths that are slow for good, oversubscription), and planted faults. Each is
constructed, not measured.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from itertools import combinations

from checks.culprit.matrix import Direction, Entity
from tests.benchmarks.localising.cluster import Cluster, Draw, Fault, Maker
from tests.benchmarks.localising.noise import BURSTY, CALM, NOISY, Noise

LEAF = 8
# Good values scatter by 2 %: the noise at which a node that is 10 % slow has to be found.
EVEN = Noise("even", hiccup=0.002, sensitivity=0.9, spread=0.02)


@dataclass(frozen=True)
class PairWorld:
    """A sort of clusters. `healthy`: no part is to be named, and the cluster is not to be refused."""

    name: str
    noise: Noise
    make: Maker = lambda draw: ()
    healthy: bool = False
    slow_paths: float = 0.0
    far_factor: float = 1.0

    def cluster(self, nodes: int, rails: int, known: bool, rng: random.Random) -> Cluster:
        """One of them; `known`: the decoder is told the leaves."""
        leaf = min(LEAF, nodes // 2)
        draw = Draw(nodes, (*rng.sample(range(nodes), nodes),))
        paths = frozenset(pair for pair in combinations(range(nodes), 2) if rng.random() < self.slow_paths)
        return Cluster(
            nodes, rails, self.make(draw), leaf if known else 0, paths, leaf=leaf, far_factor=self.far_factor
        )

    def noise_of(self, nodes: int) -> Noise:
        """The noise in a cluster of this size: congestion covers a leaf of it."""
        return replace(self.noise, leaf=min(LEAF, nodes // 2)) if self.noise.leaf else self.noise


def congested(share: float, lasting: float = 20.0, each: bool = False) -> Noise:
    """A leaf is congested for this share of the time, in bursts of `lasting` rounds; or `each` of them."""
    begins = share / (1.0 - share) / lasting
    return replace(
        CALM, name=f"congested {share:.0%}", congestion=begins, lasting=lasting, leaf=LEAF, each=each
    )


def node(factor: float | None, rate: float | None = 1.0, way: Direction = Direction.BOTH) -> Maker:
    """One node that is bad."""
    return lambda draw: (Fault(Entity.NODE, draw.order[:1], way=way, factor=factor, rate=rate),)


def link(factor: float, rate: float = 1.0) -> Maker:
    """One link that is bad."""
    return lambda draw: (Fault(Entity.LINK, draw.order[:2], factor=factor, rate=rate),)


def _leaf_switch(draw: Draw) -> tuple[Fault, ...]:
    size = min(LEAF, draw.nodes // 2)
    first = draw.order[0] // size * size
    return (Fault(Entity.SWITCH, tuple(range(first, first + size)), factor=0.5, rate=1.0),)


def _uplink(draw: Draw) -> tuple[Fault, ...]:
    """One of four uplinks of a leaf, over which it spreads its flows."""
    (switch,) = _leaf_switch(draw)
    return (replace(switch, factor=0.2, rate=0.25, way=Direction.OUT),)


def _elsewhere(draw: Draw, away: tuple[Fault, ...]) -> int:
    taken = {node for fault in away for node in fault.nodes}
    return next(node for node in draw.order if node not in taken)


def _mixture(first: Maker) -> Maker:
    def make(draw: Draw) -> tuple[Fault, ...]:
        away = first(draw)
        return (*away, Fault(Entity.NODE, (_elsewhere(draw, away),), factor=0.5, rate=1.0))

    return make


def _dead_slow_links(draw: Draw) -> tuple[Fault, ...]:
    return (*draw.dead_and_slow(2), *draw.links(2, 2))


def _rail(draw: Draw) -> tuple[Fault, ...]:
    return (Fault(Entity.RAIL, rail=draw.order[0] % 4, factor=0.5, rate=1.0),)


def spells(noise: Noise) -> Noise:
    """The same noise, where bad parts are bad for some rounds at a time."""
    return replace(noise, name=f"{noise.name}, in spells", spell=6.0)


CONGESTED, CROWDED = congested(0.02), congested(0.17)
WORLDS: tuple[PairWorld, ...] = (
    PairWorld("calm", CALM, healthy=True),
    PairWorld("noisy", NOISY, healthy=True),
    PairWorld("bursty", BURSTY, healthy=True),
    PairWorld("leaf congested 2 %", CONGESTED, healthy=True),
    PairWorld("leaf congested 17 %", CROWDED, healthy=True),
    PairWorld("each leaf congested 2 %", congested(0.02, each=True), healthy=True),
    PairWorld("each leaf congested 5 %", congested(0.05, each=True), healthy=True),
    PairWorld("each leaf congested 17 %", congested(0.17, each=True), healthy=True),
    PairWorld("collisions 5 %", CALM, healthy=True, slow_paths=0.05),
    PairWorld("collisions 15 %", CALM, healthy=True, slow_paths=0.15),
    PairWorld("oversubscribed 2:1", CALM, healthy=True, far_factor=0.5),
    PairWorld("slow 10 %", EVEN, node(0.9)),
    PairWorld("slow 20 %", EVEN, node(0.8)),
    PairWorld("slow 30 %", EVEN, node(0.7)),
    PairWorld("slow 30 %, noisy", NOISY, node(0.7)),
    PairWorld("part time 20 %", spells(CALM), node(0.4, 0.2)),
    PairWorld("part time 50 %", spells(CALM), node(0.4, 0.5)),
    PairWorld("half of the tests", CALM, node(0.4, 0.5)),
    PairWorld("sends slowly", CALM, node(0.5, way=Direction.OUT)),
    PairWorld("loss", NOISY, node(0.2, 0.3)),
    PairWorld("link at 50 %", CALM, link(0.5)),
    PairWorld("link at 50 %, half of the tests", CALM, link(0.5, 0.5)),
    PairWorld("dead, slow, 2 links", CALM, _dead_slow_links),
    PairWorld("switch", CALM, _leaf_switch),
    PairWorld("switch and a node", CALM, _mixture(_leaf_switch)),
    PairWorld("one uplink of four, one way", CALM, _uplink),
    PairWorld("slow 50 %, congested 17 %", CROWDED, node(0.5)),
    PairWorld("slow 50 %, collisions 5 %", CALM, node(0.5), slow_paths=0.05),
    PairWorld("slow 50 %, oversubscribed", CALM, node(0.5), far_factor=0.5),
)
WITH_RAILS: tuple[PairWorld, ...] = (
    PairWorld("rail", CALM, _rail),
    PairWorld("rail and a node", CALM, _mixture(_rail)),
)
