"""Congestion that befalls all nodes of a small cluster, and bad tests that have one node in common. Pure."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Collection, Sequence
from statistics import median

from checks.culprit.matrix import Matrix
from checks.culprit.patterns.spells import LEAST_ODDS, LEAST_RATE, LONGEST, MOST_RATE, is_past, spells_of
from checks.culprit.patterns.sweeps import always_bad

# Judgement: if one of two leaves is congested, a quarter of all tests is bad; of the bad tests less than this share belong to one
# node.
WITHIN_ALL, OF_ONE = 0.25, 0.6
# Judgement: from so many bad tests on, of which this share belong to one node, a small cluster is swept again.
SEVERAL, NEARLY = 4, 0.6

# the first and the last round, and the nodes
Crowd = tuple[int, int, tuple[int, ...]]


def crowds_of_all(
    matrix: Matrix,
    wrong: Collection[int],
    node_of: Sequence[int],
    steady: Collection[int],
    sweep: Sequence[int],
) -> list[Crowd]:
    """The times in which the tests of many nodes of a small cluster were bad, all of which together are no more than half of the
    sweep.

    If one of two leaves is congested, all nodes lose the same share of their tests, and no node most of them. A time whose bad tests
    belong to one or two nodes is theirs.
    """
    always, swept = always_bad(matrix, wrong), set(sweep)
    # What two nodes measure at one time on several rails is one event more than several.
    weight = 1 / max(1, len({part.rail for part in matrix.parts}))
    of_round: dict[int, list[float]] = {}
    ends: dict[int, list[tuple[int, int]]] = {}
    for test, (source, target) in enumerate(zip(matrix.sources, matrix.targets, strict=True)):
        a, b, at = node_of[source], node_of[target], matrix.rounds[test]
        if at in swept and not {a, b}.intersection(steady) and (source, target) not in always:
            counts = of_round.setdefault(at, [0.0, 0.0])
            counts[0] += weight * (test in wrong)
            counts[1] += weight
            if test in wrong:
                ends.setdefault(at, []).append((a, b))
    visits = [(at, some, all_) for at, (some, all_) in sorted(of_round.items())]
    rate = max(LEAST_RATE, median(some / all_ for _, some, all_ in visits)) if visits else MOST_RATE
    if rate >= WITHIN_ALL / 2:
        return []
    spells = [one for one in spells_of(0, visits, rate, WITHIN_ALL) if one.odds > LEAST_ODDS]
    found, lasted = [], 0
    for spell in spells:
        its = [pair for at, pairs in ends.items() if spell.first <= at <= spell.last for pair in pairs]
        often = Counter(node for pair in its for node in pair).most_common(3)
        lasted += bisect_right(sweep, spell.last) - bisect_left(sweep, spell.first)
        if (
            len(often) == 3
            and often[0][1] < OF_ONE * len(its)
            and often[2][1] > 1
            and is_past(spell, visits, sweep)
        ):
            found.append((spell.first, spell.last, tuple(sorted({node for pair in its for node in pair}))))
    return found if lasted <= LONGEST * len(sweep) else []


def belong_to_one(matrix: Matrix, wrong: Collection[int], node_of: Sequence[int], known: set[int]) -> bool:
    """Whether most bad tests, of several, belong to one node that is not known as bad yet."""
    always = always_bad(matrix, wrong)
    cells = [(matrix.sources[test], matrix.targets[test]) for test in wrong]
    ends = [(node_of[a], node_of[b]) for a, b in cells if (a, b) not in always]
    left = [pair for pair in ends if not known & set(pair)]
    often = Counter(node for pair in left for node in pair).most_common(1)
    return bool(often) and often[0][1] >= max(SEVERAL, NEARLY * len(left))
