"""Links between two ends of which neither is blamed: the pair of one rail, or all rails between two nodes. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from checks.culprit.likelihood import Gain, Odds
from checks.culprit.matrix import Direction

# bad and tests from the pair's lower end to the higher, then bad and tests back, then visits with a bad test
Counts = list[int]
Pair = tuple[int, int]
V = TypeVar("V", int, tuple[Pair, int])


@dataclass(frozen=True)
class LinkFault:
    """A link that is more likely bad than good. `rail` is its pair of parts, None if it is all rails of two nodes."""

    ends: Pair
    rail: Pair | None
    way: Direction
    bad: int
    tests: int
    visits: int
    size: float
    gain: Gain


class Links:
    """The pairs with a bad test, and their tests without those that the blamed candidates explain.

    `visit` says to which visit a bad test belongs: the n-th test of its cell belongs to the n-th visit of its pair. A visit has
    `size` tests, in `back` directions (1 or 2).
    """

    def __init__(
        self, sources: Sequence[int], targets: Sequence[int], bad: Iterable[int], ends: list[int]
    ) -> None:
        """`ends[part]` is the end of a pair to which a part belongs: its node, or the part itself if pairs are inside of nodes."""
        self.whole = len(set(ends)) < len(ends)
        self._sources, self._targets, self._ends = sources, targets, ends
        self._bad = set(bad)
        wide = max(ends, default=0) + 1
        wanted = {ends[sources[test]] * wide + ends[targets[test]] for test in self._bad}
        wanted |= {key % wide * wide + key // wide for key in wanted}
        far = [end * wide for end in ends]
        tests = [
            k for k, (a, b) in enumerate(zip(sources, targets, strict=True)) if far[a] + ends[b] in wanted
        ]
        self.bad_tests: dict[Pair, list[int]] = {}
        for test in sorted(self._bad):
            self.bad_tests.setdefault(self.pair(test), []).append(test)
        self.pairs: dict[Pair, dict[Pair, Counts]] = {pair: {} for pair in self.bad_tests}
        self.tests: dict[Pair, list[int]] = {pair: [] for pair in self.bad_tests}
        self.visit: dict[int, int] = {}
        self._pair_of: list[Pair] = []
        self._bad_in: dict[int, int] = {}
        self._bad_on: dict[tuple[Pair, int], int] = {}
        self._visits: dict[Pair, int] = dict.fromkeys(self.pairs, 0)
        self._sort(tests)
        self.add(tests, 1)

    def _sort(self, tests: Sequence[int]) -> None:
        times: Counter[Pair] = Counter()
        known: dict[tuple[Pair, int], int] = {}
        cells: dict[Pair, set[Pair]] = {pair: set() for pair in self.pairs}
        for test in tests:
            pair, cell = self.pair(test), (self._sources[test], self._targets[test])
            self.tests[pair].append(test)
            cells[pair].add(cell)
            if test in self._bad:
                self.visit[test] = known.setdefault((pair, times[cell]), len(known))
            times[cell] += 1
        self._pair_of = [pair for pair, _ in known]
        sizes = sorted(len(its) for its in cells.values())
        self.size = sizes[len(sizes) // 2] if sizes else 1
        self.back = 2 if sum((b, a) in its for its in cells.values() for a, b in its) * 2 > sum(sizes) else 1

    def pick(self, ends: Pair, odds: Odds) -> list[LinkFault]:
        """The most likely explanation by links of the remaining tests between two ends; empty if chance is more likely."""
        rails = self.pairs[ends]
        found = []
        for rail, counts in rails.items():
            if counts[4] and (best := odds.of_link(tuple(counts), self.back, self.back)):
                found.append(LinkFault(ends, rail, *best))
        if not self.whole or len(rails) < 2 or not self._visits[ends]:
            return found
        total = [sum(column) for column in zip(*rails.values(), strict=True)]
        alone = sum(fault.gain.over_hiccups for fault in found)
        both = odds.of_link((*total[:4], self._visits[ends]), self.size, self.back)
        if both and both.gain.over_hiccups > alone:
            return [LinkFault(ends, None, *both)]
        spell = odds.innocent(total[0] + total[2], total[1] + total[3], self._visits[ends], self.size)
        return found if len(found) < 2 or alone > spell else []

    def spells(self, without: Container[Pair]) -> tuple[int, int]:
        """The number of visits that were bad as a whole, and of their bad tests, among the remaining tests of other pairs."""
        enough = max(2.0, self.size / 2)
        many = [(visit, number) for visit, number in self._bad_in.items() if number >= enough]
        bad = [number for visit, number in many if self._pair_of[visit] not in without]
        return len(bad), sum(bad)

    def pair(self, test: int) -> Pair:
        """The pair to which a test belongs."""
        one, other = self._ends[self._sources[test]], self._ends[self._targets[test]]
        return (one, other) if one < other else (other, one)

    def forward(self, test: int) -> bool:
        """Whether a test goes from the pair's first end to its second."""
        return self._ends[self._sources[test]] < self._ends[self._targets[test]]

    def rail(self, test: int) -> Pair:
        """The two parts of a test, the pair's first end first."""
        source, target = self._sources[test], self._targets[test]
        return (source, target) if self.forward(test) else (target, source)

    def add(self, tests: Iterable[int], sign: int) -> set[Pair]:
        """Counts tests in (1) or out (-1). Returns the pairs that this changes."""
        changed = set()
        for test in tests:
            source, target = self._sources[test], self._targets[test]
            pair = self.pair(test)
            rails = self.pairs.get(pair)
            if rails is None:
                continue
            forward = self._ends[source] < self._ends[target]
            rail = (source, target) if forward else (target, source)
            counts = rails.get(rail)
            if counts is None:
                counts = rails[rail] = [0, 0, 0, 0, 0]
            at = 0 if forward else 2
            counts[at + 1] += sign
            if test in self._bad:
                counts[at] += sign
                visit = self.visit[test]
                counts[4] += _step(self._bad_on, (rail, visit), sign)
                self._visits[pair] += _step(self._bad_in, visit, sign)
            changed.add(pair)
        return changed


def _step(counts: dict[V, int], visit: V, sign: int) -> int:
    """Counts a bad test of a visit in or out. Returns the change in the number of bad visits."""
    before = counts.get(visit, 0)
    if before + sign:
        counts[visit] = before + sign
    else:
        del counts[visit]
    return 1 if not before else -1 if not before + sign else 0
