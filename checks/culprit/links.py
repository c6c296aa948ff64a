"""Links between two ends of which neither is blamed: the pair of one rail, or all rails between two nodes. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass

from checks.culprit.likelihood import Gain, Odds
from checks.culprit.matrix import Direction

# bad and tests from the pair's lower end to the higher, then bad and tests back, then visits with a bad test
Counts = list[int]
Pair = tuple[int, int]


@dataclass(frozen=True)
class LinkFault:
    """A link that is more likely bad than good. `rail` is its pair of parts, None if it is all rails of two nodes."""

    ends: Pair
    rail: Pair | None
    direction: Direction
    bad: int
    tests: int
    visits: int
    size: float
    gain: Gain


class Links:
    """The pairs with a bad test, and their tests.

    `visit` says to which visit a bad test belongs: the n-th test of its cell belongs to the n-th visit of its pair. A visit has
    `size` tests, in `back` directions (1 or 2).
    """

    def __init__(
        self, sources: Sequence[int], targets: Sequence[int], bad: Iterable[int], ends: Sequence[int]
    ) -> None:
        """`ends[part]` is the end of a pair to which a part belongs: its node, or the part itself if pairs are inside of nodes."""
        self.whole = len(set(ends)) < len(ends)
        self._sources, self._targets, self._ends = sources, targets, ends
        self._bad = set(bad)
        self.bad_tests: dict[Pair, list[int]] = {}
        for test in sorted(self._bad):
            self.bad_tests.setdefault(self.pair(test), []).append(test)
        self.tests: dict[Pair, list[int]] = {pair: [] for pair in self.bad_tests}
        wide = max(ends, default=0) + 1
        wanted = {key for a, b in self.tests for key in (a * wide + b, b * wide + a)}
        far = [end * wide for end in ends]
        times: Counter[Pair] = Counter()
        numbers: dict[tuple[Pair, int], int] = {}
        cells: dict[Pair, set[Pair]] = {pair: set() for pair in self.tests}
        self.visit: dict[int, int] = {}
        for test, cell in enumerate(zip(sources, targets, strict=True)):
            if far[cell[0]] + ends[cell[1]] not in wanted:
                continue
            pair = self.pair(test)
            self.tests[pair].append(test)
            cells[pair].add(cell)
            if test in self._bad:
                self.visit[test] = numbers.setdefault((pair, times[cell]), len(numbers))
            times[cell] += 1
        sizes = sorted(len(own) for own in cells.values())
        self.size = sizes[len(sizes) // 2] if sizes else 1
        self.back = 2 if sum((b, a) in own for own in cells.values() for a, b in own) * 2 > sum(sizes) else 1

    def counts(self, pair: Pair, owned: Container[int]) -> dict[Pair, Counts]:
        """The counts of each rail of a pair, without the tests that a blamed candidate owns."""
        counts: dict[Pair, Counts] = {}
        visits = set[tuple[Pair, int]]()
        for test in self.tests[pair]:
            if test not in owned:
                rail, at = self.rail(test), 0 if self.forward(test) else 2
                count = counts.setdefault(rail, [0, 0, 0, 0, 0])
                count[at + 1] += 1
                if test in self._bad:
                    count[at] += 1
                    visits.add((rail, self.visit[test]))
        for rail, _ in visits:
            counts[rail][4] += 1
        return counts

    def pick(self, pair: Pair, odds: Odds, owned: Container[int]) -> list[LinkFault]:
        """The most likely explanation by links of the tests that nobody owns; empty if chance is more likely."""
        rails, faults = self.counts(pair, owned), []
        for rail, counts in rails.items():
            if counts[4] and (best := odds.of_link(tuple(counts), self.back, self.back)):
                faults.append(LinkFault(pair, rail, *best))
        visits = len({self.visit[test] for test in self.bad_tests[pair] if test not in owned})
        if not self.whole or len(rails) < 2 or not visits:
            return faults
        total = [sum(column) for column in zip(*rails.values(), strict=True)]
        separate = sum(fault.gain.over_hiccups for fault in faults)
        both = odds.of_link((*total[:4], visits), self.size, self.back)
        if both and both.gain.over_hiccups > separate:
            return [LinkFault(pair, None, *both)]
        spell = odds.innocent(total[0] + total[2], total[1] + total[3], visits, self.size)
        return faults if len(faults) < 2 or separate > spell else []

    def spells(self, without: Container[Pair], owned: Container[int]) -> tuple[int, int]:
        """The number of visits that were bad as a whole, and of their bad tests, among the tests of other pairs that nobody owns."""
        numbers = Counter(
            self.visit[test]
            for pair, tests in self.bad_tests.items()
            if pair not in without
            for test in tests
            if test not in owned
        )
        many = [number for number in numbers.values() if number >= max(2.0, self.size / 2)]
        return len(many), sum(many)

    def pair(self, test: int) -> Pair:
        """The pair to which a test belongs."""
        first, other = self._ends[self._sources[test]], self._ends[self._targets[test]]
        return (first, other) if first < other else (other, first)

    def forward(self, test: int) -> bool:
        """Whether a test goes from the pair's first end to its second."""
        return self._ends[self._sources[test]] < self._ends[self._targets[test]]

    def rail(self, test: int) -> Pair:
        """The two parts of a test, the pair's first end first."""
        source, target = self._sources[test], self._targets[test]
        return (source, target) if self.forward(test) else (target, source)
