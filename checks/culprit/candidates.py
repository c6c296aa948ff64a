"""The parts that may be to blame, and the tests in which each of them takes part. Pure.

A candidate is an integer, so that counts are lists: `kind`, `way` and `subject` say which part it is. There are too many links to
list: `checks.culprit.links` makes them from bad tests.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from checks.culprit.matrix import Direction, Kind, Matrix, Span


@dataclass(frozen=True)
class Candidate:
    """A part that may be to blame. `at` is the index of its node or part; for rails and switches, that of its name in `Candidates`."""

    kind: Kind
    way: Direction
    at: int


@dataclass
class Candidates:
    """All candidates of a matrix that are not links, and their tests."""

    matrix: Matrix
    whos: list[Candidate] = field(default_factory=list)
    nodes: list[str] = field(default_factory=list)
    node_of: list[int] = field(default_factory=list)
    rails: list[int] = field(default_factory=list)
    switches: list[str] = field(default_factory=list)
    _sending: list[list[int]] = field(default_factory=list)
    _receiving: list[list[int]] = field(default_factory=list)
    _ids: dict[tuple[Kind, Direction, int], int] = field(default_factory=dict)
    _groups: list[dict[str, int]] = field(default_factory=list)
    _touching: dict[int, list[int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        parts = self.matrix.parts
        self.nodes = list(dict.fromkeys(part.node for part in parts))
        at = {node: n for n, node in enumerate(self.nodes)}
        self.node_of = [at[part.node] for part in parts]
        self.rails = sorted({part.rail for part in parts})
        self._of_node: list[list[int]] = [[] for _ in self.nodes]
        for part, node in enumerate(self.node_of):
            self._of_node[node].append(part)
        self._sending = [[] for _ in parts]
        self._receiving = [[] for _ in parts]
        self.inside = self.matrix.span is Span.INSIDE
        self.several = len(parts) > len(self.nodes)
        # With two nodes it is impossible to say which one is faulty: only what is between them can be named.
        if self.inside or len(self.nodes) > 2:
            if len(self.nodes) > 1:
                self._add_nodes()
            if self.several:
                self._add_ranks()
                self._add_rails()
            if not self.inside:
                self._add_switches()

    def _id(self, kind: Kind, way: Direction, at: int) -> int:
        known = self._ids.get((kind, way, at))
        if known is None:
            known = self._ids[kind, way, at] = len(self.whos)
            self.whos.append(Candidate(kind, way, at))
        return known

    def _add_nodes(self) -> None:
        for part, node in enumerate(self.node_of):
            self._sending[part].append(self._id(Kind.NODE, Direction.BOTH, node))
            if not self.inside:
                self._receiving[part].append(self._id(Kind.NODE, Direction.BOTH, node))
                self._sending[part].append(self._id(Kind.NODE, Direction.OUT, node))
                self._receiving[part].append(self._id(Kind.NODE, Direction.IN, node))

    def _add_ranks(self) -> None:
        for part in range(len(self.node_of)):
            self._sending[part] += [
                self._id(Kind.RANK, Direction.BOTH, part),
                self._id(Kind.RANK, Direction.OUT, part),
            ]
            self._receiving[part] += [
                self._id(Kind.RANK, Direction.BOTH, part),
                self._id(Kind.RANK, Direction.IN, part),
            ]

    def _add_rails(self) -> None:
        if len(self.rails) < 2 or len(self.nodes) < 2:
            return
        at = {rail: n for n, rail in enumerate(self.rails)}
        for part, its in enumerate(self.matrix.parts):
            self._sending[part].append(self._id(Kind.RAIL, Direction.BOTH, at[its.rail]))
            if self.inside:
                self._receiving[part].append(self._id(Kind.RAIL, Direction.BOTH, at[its.rail]))

    def _add_switches(self) -> None:
        members: dict[str, set[str]] = {}
        for part in self.matrix.parts:
            for switch in part.switches:
                members.setdefault(switch, set()).add(part.node)
        self.switches = sorted(name for name, own in members.items() if 1 < len(own) < len(self.nodes))
        at = {name: n for n, name in enumerate(self.switches)}
        for name in self.switches:
            for way in Direction:
                self._id(Kind.SWITCH, way, at[name])
        self._groups = [
            {name: at[name] for name in part.switches if name in at} for part in self.matrix.parts
        ]

    def of(self, test: int) -> list[int]:
        """The candidates that take part in a test, each once."""
        source, target = self.matrix.sources[test], self.matrix.targets[test]
        mine = self._sending[source] + self._receiving[target]
        if self.switches:
            mine += self._crossed(source, target)
        return mine

    def _crossed(self, source: int, target: int) -> list[int]:
        here, there = self._groups[source], self._groups[target]
        mine: list[int] = []
        for name, at in here.items():
            if name not in there:
                mine += [self._ids[Kind.SWITCH, way, at] for way in (Direction.BOTH, Direction.OUT)]
        for name, at in there.items():
            if name not in here:
                mine += [self._ids[Kind.SWITCH, way, at] for way in (Direction.BOTH, Direction.IN)]
        return mine

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
            groups = [tuple(group) for group in self._groups]
            first = {group: part for part, group in enumerate(groups)}
            crossings = Counter(
                zip(map(groups.__getitem__, sources), map(groups.__getitem__, targets), strict=True)
            )
            for (here, there), number in crossings.items():
                for candidate in self._crossed(first[here], first[there]):
                    counts[candidate] += number
        return counts

    def remember(self, candidates: Iterable[int]) -> None:
        """Finds the tests of these nodes and ranks in one pass over the matrix."""
        wanted = {
            part for candidate in candidates for part in self._parts(self.whos[candidate])
        } - self._touching.keys()
        if not wanted:
            return
        self._touching.update((part, []) for part in wanted)
        sources, targets = self.matrix.sources, self.matrix.targets
        for test in [
            k for k, (a, b) in enumerate(zip(sources, targets, strict=True)) if a in wanted or b in wanted
        ]:
            for part in {sources[test], targets[test]} & wanted:
                self._touching[part].append(test)

    def tests(self, candidate: int) -> Sequence[int]:
        """All tests in which a candidate takes part."""
        who = self.whos[candidate]
        if who.kind in (Kind.NODE, Kind.RANK):
            self.remember([candidate])
            near = dict.fromkeys(test for part in self._parts(who) for test in self._touching[part])
        else:
            near = dict.fromkeys(range(len(self.matrix.sources)))
        return [test for test in near if candidate in self.of(test)]

    def _parts(self, who: Candidate) -> list[int]:
        if who.kind is Kind.RANK:
            return [who.at]
        return self._of_node[who.at] if who.kind is Kind.NODE else []
