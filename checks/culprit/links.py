"""Links between two ends of which neither is blamed: the pair of one rail, or all rails between two nodes. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import NamedTuple

from checks.culprit.likelihood import Gain, Odds
from checks.culprit.matrix import Direction, Matrix

# bad and tests from the pair's lower end to the higher, then bad and tests back, then visits with a bad test
Counts = list[int]
Pair = tuple[int, int]


class LinkFault(NamedTuple):
    """A link that is more likely bad than good. `rail` is its pair of parts, None if it is all rails of two nodes."""

    ends: Pair
    rail: Pair | None
    direction: Direction
    bad: int
    tests: int
    visits: int
    size: float
    gain: Gain


class Tally(NamedTuple):
    """What nobody owns of a pair: the counts of each rail, the visits with a bad test, and how many visits were bad as a whole, with
    how many bad tests.
    """

    rails: Mapping[Pair, Counts]
    visits: int
    spells: int
    spoiled: int


class Links:
    """The pairs with a bad test. `cells` holds for each of them the tests of its cells, `bad` for each cell its bad tests, with the
    visit of each: the n-th test of a cell belongs to the n-th visit of its pair. A visit has `size` tests, in `back` directions (1
    or 2).
    """

    def __init__(self, matrix: Matrix, bad: Sequence[int], ends: Sequence[int]) -> None:
        """`ends[part]` is the end of a pair to which a part belongs: its node, or the part itself if pairs are inside of nodes."""
        self.whole, self._ends = len(set(ends)) < len(ends), ends
        self.cells: dict[Pair, dict[Pair, Sequence[int]]] = {self.pair(matrix.ends[test]): {} for test in bad}
        for cell, tests in matrix.cells.items():
            if (own := self.cells.get(self.pair(cell))) is not None:
                own[cell] = tests
        self.bad: dict[Pair, dict[int, int]] = {}
        wrong, pairs = set(bad), len(self.cells)
        for number, own in enumerate(self.cells.values()):
            for cell, tests in own.items():
                visits = {test: at * pairs + number for at, test in enumerate(tests) if test in wrong}
                if visits:
                    self.bad[cell] = visits
        sizes = sorted(map(len, self.cells.values()))
        self.size = sizes[len(sizes) // 2] if sizes else 1
        self.back = (
            2 if sum((b, a) in own for own in self.cells.values() for a, b in own) * 2 > sum(sizes) else 1
        )
        self.tallies: dict[Pair, Tally] = {}
        self.count(self.cells, ())

    def count(self, pairs: Iterable[Pair], owned: Container[Pair]) -> None:
        """Counts what is left of these pairs without the cells that a blamed candidate owns."""
        least = max(2.0, self.size / 2)
        for pair in pairs:
            rails: dict[Pair, Counts] = {}
            visits: dict[Pair, list[int]] = {}
            for cell, tests in self.cells[pair].items():
                if cell not in owned:
                    rail, bad = self.rail(cell), self.bad.get(cell, {})
                    counts, at = rails.setdefault(rail, [0, 0, 0, 0, 0]), 0 if self.forward(cell) else 2
                    counts[at], counts[at + 1] = len(bad), len(tests)
                    visits.setdefault(rail, []).extend(bad.values())
            for rail, own in visits.items():
                rails[rail][4] = len(set(own))
            times = Counter(visit for own in visits.values() for visit in own)
            many = [number for number in times.values() if number >= least]
            self.tallies[pair] = Tally(rails, len(times), len(many), sum(many))

    def pick(self, pair: Pair, odds: Odds) -> list[LinkFault]:
        """The most likely explanation by links of the tests that nobody owns; empty if chance is more likely."""
        tally, faults = self.tallies[pair], []
        rails = tally.rails
        for rail, counts in rails.items():
            if counts[4] and (best := odds.of_link(tuple(counts), self.back, self.back)):
                faults.append(LinkFault(pair, rail, *best))
        if not self.whole or len(rails) < 2 or not tally.visits:
            return faults
        total = [sum(column) for column in zip(*rails.values(), strict=True)]
        separate = sum(fault.gain.over_hiccups for fault in faults)
        both = odds.of_link((*total[:4], tally.visits), self.size, self.back)
        if both and both.gain.over_hiccups > separate:
            return [LinkFault(pair, None, *both)]
        spell = odds.innocent(total[0] + total[2], total[1] + total[3], tally.visits, self.size)
        return faults if len(faults) < 2 or separate > spell else []

    def spells(self, without: Container[Pair]) -> tuple[int, int]:
        """The number of visits that were bad as a whole, and of their bad tests, among the tests of other pairs that nobody owns."""
        left = [tally for pair, tally in self.tallies.items() if tally.spells and pair not in without]
        return sum(tally.spells for tally in left), sum(tally.spoiled for tally in left)

    def pair(self, cell: Pair) -> Pair:
        """The pair to which a cell belongs."""
        first, other = self._ends[cell[0]], self._ends[cell[1]]
        return (first, other) if first < other else (other, first)

    def forward(self, cell: Pair) -> bool:
        """Whether a cell goes from the pair's first end to its second."""
        return self._ends[cell[0]] < self._ends[cell[1]]

    def rail(self, cell: Pair) -> Pair:
        """The two parts of a cell, the pair's first end first."""
        return cell if self.forward(cell) else cell[::-1]
