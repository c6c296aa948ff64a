"""Clusters with planted faults: what is wrong, and which tests it touches. Constructed, not measured."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from checks.culprit.matrix import Direction, Endpoint, Entity


@dataclass(frozen=True)
class Fault:
    """One bad part.

    `nodes`: a NODE's or RANK's node, a LINK's two ends, a SWITCH's group; empty for RAIL and FABRIC. `rail`: of a RANK, a
    RAIL, or a LINK that is bad on one rail alone. `factor`: what is left of a good value, None where nothing comes
    back. `rate`: the part of its tests that are bad; None: the noise model's sensitivity.
    """

    kind: Entity
    nodes: tuple[int, ...] = ()
    rail: int | None = None
    way: Direction = Direction.BOTH
    factor: float | None = 0.3
    rate: float | None = None

    def touches(self, source: int, target: int, rail: int) -> bool:
        """Whether a test from node `source` to node `target` on this rail goes through the part."""
        if self.rail is not None and rail != self.rail:
            return False
        if self.kind is Entity.LINK:
            forward, backward = (source, target) == self.nodes, (target, source) == self.nodes
            return (forward and self.way is not Direction.IN) or (backward and self.way is not Direction.OUT)
        if self.kind in (Entity.RAIL, Entity.FABRIC):
            return True
        out, into = source in self.nodes, target in self.nodes
        if self.kind is Entity.SWITCH and out == into:
            return False
        return (out and self.way is not Direction.IN) or (into and self.way is not Direction.OUT)

    def subject(self, cluster: Cluster) -> str:
        """Its name in a Suspect."""
        if self.kind is Entity.RANK:
            return cluster.part(self.nodes[0], self.rail or 0).name
        if self.kind is Entity.RAIL:
            return f"rail {self.rail}"
        if self.kind is Entity.SWITCH:
            return cluster.parts[self.nodes[0] * cluster.rails].switches[0]
        return name_of(self.nodes[0]) if self.nodes else ""


Maker = Callable[["Draw"], tuple[Fault, ...]]


@dataclass(frozen=True)
class Cluster:
    """`nodes` x `rails` parts, node by node; `group` nodes under each switch (0: nobody knows the switches).

    `paths` are pairs of nodes (the lower first) that are slow for good, on all rails and both ways, because their paths share a
    link of the fabric: `path_factor` is left of a good value. Between nodes of different leaves, of `leaf` nodes each, `far_factor`
    is left.
    """

    nodes: int
    rails: int = 1
    faults: tuple[Fault, ...] = ()
    group: int = 0
    paths: frozenset[tuple[int, int]] = frozenset()
    path_factor: float = 0.5
    leaf: int = 0
    far_factor: float = 1.0

    def share(self, a: int, b: int) -> float:
        """What the fabric leaves of a good value between two nodes, without any fault."""
        far = self.far_factor if self.leaf and a // self.leaf != b // self.leaf else 1.0
        return far * self.path_factor if self.paths and (min(a, b), max(a, b)) in self.paths else far

    def part(self, node: int, rail: int) -> Endpoint:
        """One end of tests."""
        name = name_of(node) if self.rails == 1 else f"{name_of(node)}/{rail}"
        switches = (f"leaf-{node // self.group}",) if self.group else ()
        return Endpoint(name, name_of(node), rail, switches)

    @property
    def parts(self) -> tuple[Endpoint, ...]:
        """All of them: part node * rails + rail."""
        return tuple(self.part(node, rail) for node in range(self.nodes) for rail in range(self.rails))

    @property
    def bad_nodes(self) -> frozenset[int]:
        """Nodes that ought to be named: they, or one of their ranks, are bad."""
        kinds = (Entity.NODE, Entity.RANK)
        return frozenset(node for fault in self.faults if fault.kind in kinds for node in fault.nodes)

    @property
    def bad_links(self) -> frozenset[frozenset[int]]:
        """Links that ought to be named, by their ends."""
        return frozenset(frozenset(fault.nodes) for fault in self.faults if fault.kind is Entity.LINK)


@dataclass(frozen=True)
class Draw:
    """A chance order of the nodes: where faults are planted."""

    nodes: int
    order: tuple[int, ...]

    def dead_and_slow(self, count: int) -> tuple[Fault, ...]:
        """Bad nodes: each third one answers nothing, the others have 0.3 and 0.6 of a good node's bandwidth left."""
        left: tuple[float | None, ...] = (0.3, None, 0.6)
        return tuple(Fault(Entity.NODE, (self.order[i],), factor=left[i % len(left)]) for i in range(count))

    def links(self, count: int, first: int = 0) -> tuple[Fault, ...]:
        """Bad links between nodes that are otherwise good; no two share an end."""
        ends = [self.order[first + 2 * i : first + 2 * i + 2] for i in range(count)]
        return tuple(Fault(Entity.LINK, pair) for pair in ends)


def name_of(node: int) -> str:
    """A node's name."""
    return f"n{node}"
