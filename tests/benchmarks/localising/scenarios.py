"""What is planted: the clusters of the comparison and of the targets."""

from __future__ import annotations

import random
from dataclasses import dataclass

from checks.culprit.matrix import Entity
from tests.benchmarks.localising.cluster import Cluster, Draw, Fault, Maker
from tests.benchmarks.localising.noise import BURSTY, CALM, NOISY, Noise

SIZES = (16, 64, 256, 1024)
BAD_NODES = {16: 1, 64: 2, 256: 5, 1024: 10}
BAD_LINKS = {16: 1, 64: 2, 256: 3, 1024: 3}


@dataclass(frozen=True)
class Scenario:
    """Clusters of one sort, and the noise around them."""

    name: str
    nodes: int
    noise: Noise
    make: Maker

    def cluster(self, rng: random.Random) -> Cluster:
        """One of them."""
        order = (*rng.sample(range(self.nodes), self.nodes),)
        return Cluster(self.nodes, 1, self.make(Draw(self.nodes, order)))


def compared(nodes: int, noise: Noise) -> Scenario:
    """Bad nodes and bad links at once: the comparison with the public rules. About one node in fifty is bad at N = 256."""
    bad = BAD_NODES.get(nodes, max(1, nodes // 50))
    links = BAD_LINKS.get(nodes, max(1, min(3, nodes // 32)))
    words = f"{bad} bad node{'s' * (bad > 1)} and {links} bad link{'s' * (links > 1)}"
    return Scenario(words, nodes, noise, lambda draw: draw.dead_and_slow(bad) + draw.links(links, bad))


def _links_and_node(draw: Draw) -> tuple[Fault, ...]:
    return draw.dead_and_slow(1) + draw.links(3, 1)


def _broken_link(draw: Draw) -> tuple[Fault, ...]:
    return (Fault(Entity.LINK, draw.order[:2], rate=1.0),)


# The first three have a target each; a link that the tournament saw good both ways, as one in a hundred is that is bad nine
# times of ten, cannot be found by any rule, so the second's is bad always.
TARGETS = (
    Scenario("5 bad nodes", 256, CALM, lambda draw: draw.dead_and_slow(5)),
    Scenario("a bad link", 64, CALM, _broken_link),
    Scenario("3 bad links and a bad node", 64, NOISY, _links_and_node),
    Scenario("5 bad nodes", 256, NOISY, lambda draw: draw.dead_and_slow(5)),
    Scenario("5 bad nodes", 256, BURSTY, lambda draw: draw.dead_and_slow(5)),
    Scenario("a link that is bad nine times of ten", 64, CALM, lambda draw: draw.links(1)),
    Scenario("a bad link", 64, NOISY, _broken_link),
    Scenario("a bad link", 64, BURSTY, _broken_link),
    Scenario("3 bad links and a bad node", 64, CALM, _links_and_node),
    Scenario("3 bad links and a bad node", 64, BURSTY, _links_and_node),
    Scenario("nothing", 64, CALM, lambda draw: ()),
    Scenario("nothing", 64, NOISY, lambda draw: ()),
    Scenario("nothing", 64, BURSTY, lambda draw: ()),
)
