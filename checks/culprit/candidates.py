"""The parts that may be to blame, and the tests in which each of them takes part. Pure.

A candidate is an integer, so that counts are lists: `whos` says which part it is. There are too many links to list:
`checks.culprit.links` makes them from bad tests.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from checks.culprit.matrix import Direction, Endpoint, Entity, Matrix, Span

BOTH, OUT, IN = Direction.BOTH, Direction.OUT, Direction.IN


class Candidate(NamedTuple):
    """A part that may be to blame, with its name for people."""

    kind: Entity
    subject: str
    way: Direction


class Candidates:
    """All candidates of a matrix that are not links, and their tests."""

    def __init__(self, matrix: Matrix) -> None:
        endpoints = matrix.parts
        self.matrix = matrix
        self.whos: list[Candidate] = []
        self.nodes = list(dict.fromkeys(matrix.nodes))
        self.node_of = matrix.node_of
        self.rails = sorted({part.rail for part in endpoints})
        self.switches: list[str] = []
        self._members: dict[tuple[Entity, str], list[int]] = {}
        self._ids: dict[Candidate, int] = {}
        self._sending: list[list[int]] = [[] for _ in endpoints]
        self._receiving: list[list[int]] = [[] for _ in endpoints]
        self._groups: list[tuple[str, ...]] = [() for _ in endpoints]
        self.inside = matrix.span is Span.INSIDE
        several = len(endpoints) > len(self.nodes)
        # With two nodes it is impossible to say which one is faulty: only what is between them can be named.
        if not self.inside and len(self.nodes) <= 2:
            return
        if len(self.nodes) > 1:
            ways = ((BOTH,), ()) if self.inside else ((BOTH, OUT), (BOTH, IN))
            self._add(Entity.NODE, lambda part: part.node, *ways)
        if several:
            self._add(Entity.RANK, lambda part: part.name, (BOTH, OUT), (BOTH, IN))
        if several and len(self.rails) > 1 and len(self.nodes) > 1:
            self._add(Entity.RAIL, lambda part: f"rail {part.rail}", (BOTH,), (BOTH,) if self.inside else ())
        if not self.inside:
            self._add_switches()

    def _id(self, entity: Entity, subject: str, direction: Direction) -> int:
        who = Candidate(entity, subject, direction)
        if who not in self._ids:
            self._ids[who] = len(self.whos)
            self.whos.append(who)
        return self._ids[who]

    def _add(
        self,
        entity: Entity,
        subject_of: Callable[[Endpoint], str],
        sending: Sequence[Direction],
        receiving: Sequence[Direction],
    ) -> None:
        for at, endpoint in enumerate(self.matrix.parts):
            subject = subject_of(endpoint)
            self._members.setdefault((entity, subject), []).append(at)
            self._sending[at] += [self._id(entity, subject, direction) for direction in sending]
            self._receiving[at] += [self._id(entity, subject, direction) for direction in receiving]

    def _add_switches(self) -> None:
        members: dict[str, list[int]] = {}
        for at, end in enumerate(self.matrix.parts):
            for switch in end.switches:
                members.setdefault(switch, []).append(at)
        for name, its in sorted(members.items()):
            if 1 < len({self.node_of[at] for at in its}) < len(self.nodes):
                self.switches.append(name)
                self._members[Entity.SWITCH, name] = its
                for direction in Direction:
                    self._id(Entity.SWITCH, name, direction)
        known = set(self.switches)
        self._groups = [tuple(filter(known.__contains__, end.switches)) for end in self.matrix.parts]

    def nodes_of(self, candidate: int) -> tuple[str, ...]:
        """The nodes that a candidate is, or that are connected to it."""
        who = self.whos[candidate]
        return tuple(dict.fromkeys(self.matrix.parts[at].node for at in self._members[who.kind, who.subject]))

    def involved(self, test: int) -> list[int]:
        """The candidates that take part in a test, each once."""
        source, target = self.matrix.ends[test]
        mine = self._sending[source] + self._receiving[target]
        if self.switches:
            mine += self._crossed(self._groups[source], self._groups[target])
        return mine

    def _crossed(self, here: Sequence[str], there: Sequence[str]) -> list[int]:
        """The switches that a test between parts of these switches leaves or enters."""
        return [
            self._ids[Candidate(Entity.SWITCH, name, direction)]
            for its, others, ways in ((here, there, (BOTH, OUT)), (there, here, (BOTH, IN)))
            for name in its
            if name not in others
            for direction in ways
        ]

    def count(self, tests: Iterable[int] | None) -> list[int]:
        """In how many of the tests each candidate takes part; None: of all tests."""
        sources, targets = self.matrix.sources, self.matrix.targets
        if tests is not None:
            tests = list(tests)
            sources = [sources[test] for test in tests]
            targets = [targets[test] for test in tests]
        counts = [0] * len(self.whos)
        for column, candidates in ((sources, self._sending), (targets, self._receiving)):
            for part, number in Counter(column).items():
                for candidate in candidates[part]:
                    counts[candidate] += number
        if self.switches:
            groups = self._groups.__getitem__
            for (here, there), number in Counter(
                zip(map(groups, sources), map(groups, targets), strict=True)
            ).items():
                for candidate in self._crossed(here, there):
                    counts[candidate] += number
        return counts

    def tests(self, candidate: int) -> Sequence[int]:
        """All tests in which a candidate takes part."""
        who = self.whos[candidate]
        near = self.matrix.tests_of(self._members[who.kind, who.subject])
        return [test for test in near if candidate in self.involved(test)]
