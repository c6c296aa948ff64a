"""The parts that may be to blame, and the tests in which each of them takes part. Pure.

A candidate is an integer, so that counts are lists: `entries` says which part it is. There are too many links to list:
`checks.culprit.links` makes them from bad tests.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Sized
from typing import NamedTuple

from checks.culprit.matrix import Direction, Endpoint, Entity, Matrix, Span

BOTH, OUT, IN = Direction.BOTH, Direction.OUT, Direction.IN


class Candidate(NamedTuple):
    """A part that may be to blame, with its name for people."""

    entity: Entity
    subject: str
    direction: Direction

    @property
    def fault(self) -> tuple[Entity, Direction]:
        """On what its odds depend."""
        return self.entity, self.direction


class Candidates:
    """All candidates of a matrix that are not links, and their tests."""

    def __init__(self, matrix: Matrix) -> None:
        endpoints = matrix.endpoints
        self.matrix = matrix
        self.entries: list[Candidate] = []
        self.nodes = list(dict.fromkeys(matrix.nodes))
        self.node_of = matrix.node_of
        self.rails = sorted({end.rail for end in endpoints})
        self.switches: list[str] = []
        self._members: dict[tuple[Entity, str], list[int]] = {}
        self._ids: dict[Candidate, int] = {}
        self._sending: list[list[int]] = [[] for _ in endpoints]
        self._receiving: list[list[int]] = [[] for _ in endpoints]
        self._groups: list[tuple[str, ...]] = [() for _ in endpoints]
        self._ways: dict[tuple[tuple[str, ...], tuple[str, ...]], list[int]] = {}
        self.inside = matrix.span is Span.INSIDE
        several = len(endpoints) > len(self.nodes)
        # With two nodes it is impossible to say which one is faulty: only what is between them can be named.
        if not self.inside and len(self.nodes) <= 2:
            return
        if len(self.nodes) > 1:
            ways = ((BOTH,), ()) if self.inside else ((BOTH, OUT), (BOTH, IN))
            self._add(Entity.NODE, lambda end: end.node, *ways)
        if several:
            self._add(Entity.RANK, lambda end: end.name, (BOTH, OUT), (BOTH, IN))
        if several and len(self.rails) > 1 and len(self.nodes) > 1:
            self._add(Entity.RAIL, lambda end: f"rail {end.rail}", (BOTH,), (BOTH,) if self.inside else ())
        if not self.inside:
            self._add_switches()

    def _id(self, entity: Entity, subject: str, direction: Direction) -> int:
        candidate = Candidate(entity, subject, direction)
        if candidate not in self._ids:
            self._ids[candidate] = len(self.entries)
            self.entries.append(candidate)
        return self._ids[candidate]

    def _add(
        self,
        entity: Entity,
        subject_of: Callable[[Endpoint], str],
        sending: Sequence[Direction],
        receiving: Sequence[Direction],
    ) -> None:
        for at, endpoint in enumerate(self.matrix.endpoints):
            subject = subject_of(endpoint)
            self._members.setdefault((entity, subject), []).append(at)
            self._sending[at] += [self._id(entity, subject, direction) for direction in sending]
            self._receiving[at] += [self._id(entity, subject, direction) for direction in receiving]

    def _add_switches(self) -> None:
        members: dict[str, list[int]] = {}
        for at, end in enumerate(self.matrix.endpoints):
            for switch in end.switches:
                members.setdefault(switch, []).append(at)
        for name, indices in sorted(members.items()):
            if 1 < len({self.node_of[at] for at in indices}) < len(self.nodes):
                self.switches.append(name)
                self._members[Entity.SWITCH, name] = indices
                for direction in Direction:
                    self._id(Entity.SWITCH, name, direction)
        names = set(self.switches)
        self._groups = [tuple(filter(names.__contains__, end.switches)) for end in self.matrix.endpoints]

    def nodes_of(self, candidate: int) -> tuple[str, ...]:
        """The nodes that a candidate is, or that are connected to it."""
        entry = self.entries[candidate]
        nodes = self.matrix.nodes
        return tuple(dict.fromkeys(nodes[at] for at in self._members[entry.entity, entry.subject]))

    def involved(self, cell: tuple[int, int]) -> list[int]:
        """The candidates that take part in a cell's tests, each once."""
        source, target = cell
        mine = self._sending[source] + self._receiving[target]
        return mine + self._crossed(self._groups[source], self._groups[target]) if self.switches else mine

    def _crossed(self, here: tuple[str, ...], target: tuple[str, ...]) -> list[int]:
        """The switches that a test between parts of these switches leaves or enters."""
        if (here, target) not in self._ways:
            self._ways[here, target] = [
                self._ids[Candidate(Entity.SWITCH, name, direction)]
                for switches, others, ways in ((here, target, (BOTH, OUT)), (target, here, (BOTH, IN)))
                for name in switches
                if name not in others
                for direction in ways
            ]
        return self._ways[here, target]

    def count(self, tests: Mapping[tuple[int, int], Sized]) -> list[int]:
        """In how many of these tests, by cell, each candidate takes part."""
        counts = [0] * len(self.entries)
        for cell, mine in tests.items():
            number = len(mine)
            for at in self.involved(cell):
                counts[at] += number
        return counts

    def cells(self, candidate: int) -> Sequence[tuple[int, int]]:
        """All cells in which a candidate takes part."""
        entry = self.entries[candidate]
        near = self.matrix.tests_of(self._members[entry.entity, entry.subject])
        cells = dict.fromkeys(map(self.matrix.ends.__getitem__, near))
        return [cell for cell in cells if candidate in self.involved(cell)]
