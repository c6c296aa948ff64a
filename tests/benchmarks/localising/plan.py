"""Which tests are run in which round, as columns, and where in them a part's tests are."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from checks.culprit import rounds as schedule
from checks.culprit.matrix import Entity
from tests.benchmarks.localising.cluster import Fault

PairTest = tuple[int, int, int]


@dataclass(frozen=True)
class Plan:
    """Rounds of disjoint duels (node, node, rail), each measured both ways: two tests, one after the other."""

    rails: int
    duels: tuple[PairTest, ...]
    starts: tuple[int, ...]
    of_node: dict[int, list[int]]

    def columns(self) -> tuple[list[int], list[int]]:
        """Sources and targets of the tests, as parts."""
        rails = self.rails
        ends = [(a * rails + rail, b * rails + rail) for a, b, rail in self.duels]
        return [end for pair in ends for end in pair], [end for a, b in ends for end in (b, a)]

    def round_of(self, test: int) -> int:
        """The round that a test belongs to."""
        return bisect_right(self.starts, test // 2) - 1

    def tests_of(self, when: int) -> range:
        """The tests of one round."""
        ends = (*self.starts[1:], len(self.duels))
        return range(2 * self.starts[when], 2 * ends[when])

    def touched(self, fault: Fault) -> list[int]:
        """The tests that go through a bad part."""
        if fault.kind in (Entity.NODE, Entity.RANK, Entity.LINK):
            duels: Iterable[int] = self.of_node.get(fault.nodes[0], ())
        else:
            duels = range(len(self.duels))
        found: list[int] = []
        for duel in duels:
            a, b, rail = self.duels[duel]
            if fault.touches(a, b, rail):
                found.append(2 * duel)
            if fault.touches(b, a, rail):
                found.append(2 * duel + 1)
        return found


def planned(rounds: Iterable[Sequence[PairTest]], rails: int) -> Plan:
    """A plan of these rounds."""
    duels: list[PairTest] = []
    starts: list[int] = []
    of_node: dict[int, list[int]] = {}
    for pairs in rounds:
        starts.append(len(duels))
        for duel in pairs:
            of_node.setdefault(duel[0], []).append(len(duels))
            of_node.setdefault(duel[1], []).append(len(duels))
            duels.append(duel)
    return Plan(rails, tuple(duels), tuple(starts), of_node)


@lru_cache(maxsize=4)
def tournament(nodes: int, rails: int, matchings: int | None = None) -> Plan:
    """The product's rounds between nodes: all pairs on all rails; or only so many matchings."""
    rounds = schedule.round_robin(nodes) if matchings is None else schedule.matchings(nodes, matchings)
    met = ([(node, round_.partner(node)) for node in range(nodes)] for round_ in rounds)
    return planned(
        (_on_rails(((a, b) for a, b in pairs if b is not None and a < b), rails) for pairs in met), rails
    )


def again(pairs: Iterable[tuple[int, int]], repeats: int, rails: int, most: int | None = None) -> Plan:
    """Some pairs of parts once more, in the first `most` rounds of the product's colouring: all of them, `repeats` times."""
    rounds = [
        [(a // rails, b // rails, a % rails) for a, b in listed.partners.items() if a < b]
        for listed in schedule.disjoint(pairs)[:most]
    ]
    return planned(rounds * repeats, rails)


def _on_rails(pairs: Iterable[tuple[int, int]], rails: int) -> list[PairTest]:
    return [(a, b, rail) for a, b in pairs for rail in range(rails)]
