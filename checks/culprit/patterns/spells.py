"""Spells of rounds in which the tests of a node, or of all nodes, were bad: the most likely ones, and whether they have passed.
Pure.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

# Judgement: within a period more than half of a node's tests are bad: congestion slows about half of them, a fault nearly all.
WITHIN = 0.6
# Judgement: the shares of the tests that a fault and that congestion spoils in its time.
OF_FAULT, OF_CONGESTION = 0.95, 0.5
# Judgement: a period begins once in fifty rounds at most, and lasts for about eight.
BEGINS, ENDS = math.log(1 / 50), math.log(1 / 8)
# Judgement: fewer rounds in which a node was bad are not a period but hiccups.
LEAST_ROUNDS = 3
# Judgement: the log odds from which on a period counts towards congestion.
LEAST_ODDS = 5.0
# The least and the greatest rate of bad tests outside of periods: a matrix of few tests may have none by chance.
LEAST_RATE, MOST_RATE = 0.002, 0.3
# A bad test counts for six good ones at most: log(WITHIN / LEAST_RATE) / -log(1 - WITHIN).
CLOSE = 20
# Judgement: what lasts for more than this share of the sweep does not pass, neither congestion nor one event.
LONGEST = 0.5
# The border of a period is uncertain by a round.
MARGIN = 1

# of each round: its number, the bad tests, all tests (or their weights, if several of them are one event)
Visits = list[tuple[int, float, float]]


@dataclass(frozen=True)
class Spell:
    """A node was bad from round `first` to round `last`; `odds` compare this with chance, and `steady` a fault, which spoils
    nearly all tests, with congestion, which spoils half of them.
    """

    node: int
    first: int
    last: int
    odds: float
    steady: float


def may_have_spell(bad: Sequence[int]) -> bool:
    """Whether there may be a period: of these bad rounds, in order, three are within so many that good tests do not outweigh them."""
    return any(last - at <= CLOSE for at, last in zip(bad, bad[LEAST_ROUNDS - 1 :], strict=False))


def spells_of(node: int, visits: Visits, rate: float, within: float = WITHIN) -> list[Spell]:
    """The most likely sequence of good and bad times (Viterbi's algorithm with two states), as its bad times."""
    bad_log, good_log = math.log(within / rate), math.log((1 - within) / (1 - rate))
    # The best scores that end in a good and in a bad time, and for the latter where that time began and its own odds.
    good, bad = 0.0, -math.inf
    began, best_began = 0, [0] * len(visits)
    from_bad = [False] * len(visits)
    for at, (_, some, all_) in enumerate(visits):
        gain = some * bad_log + (all_ - some) * good_log
        stay, enter = bad, good + BEGINS
        left = bad + ENDS
        from_bad[at] = left > good
        good = max(good, left)
        if enter >= stay:
            began = at
        bad = max(stay, enter) + gain
        best_began[at] = began
    found, at, inside = [], len(visits) - 1, bad + ENDS > good
    while at >= 0:
        if inside:
            start = best_began[at]
            found.append(_spell(node, visits[start : at + 1], bad_log, good_log))
            at, inside = start - 1, False
            continue
        inside = from_bad[at]
        at -= 1
    return [spell for spell in reversed(found) if spell is not None]


def _spell(node: int, visits: Visits, bad_log: float, good_log: float) -> Spell | None:
    some, all_ = sum(one[1] for one in visits), sum(one[2] for one in visits)
    if sum(one[1] > 0 for one in visits) < LEAST_ROUNDS:
        return None
    odds = some * bad_log + (all_ - some) * good_log + BEGINS + ENDS
    steady = some * math.log(OF_FAULT / OF_CONGESTION) + (all_ - some) * math.log(
        (1 - OF_FAULT) / (1 - OF_CONGESTION)
    )
    return Spell(node, visits[0][0], visits[-1][0], odds, steady)


def has_good_rounds(spell: Spell, visits: Visits) -> bool:
    """Whether the node was good for as many rounds before or after the period."""
    outside = [one for one in visits if not spell.first <= one[0] <= spell.last]
    return sum(one[1] == 0 for one in outside) >= LEAST_ROUNDS


def is_past(spell: Spell, visits: Visits, sweep: Sequence[int]) -> bool:
    """Whether it is shown that the period has ended, and it was not most of the sweep."""
    after = sum(at > spell.last and not some for at, some, _ in visits)
    return after >= LEAST_ROUNDS and is_short(spell, sweep)


def is_short(spell: Spell, sweep: Sequence[int]) -> bool:
    """Whether the period was not most of the sweep."""
    its = bisect_right(sweep, spell.last) - bisect_left(sweep, spell.first)
    return its - 2 * MARGIN <= LONGEST * len(sweep)
