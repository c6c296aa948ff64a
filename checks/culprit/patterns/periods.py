"""Periods of time in which the tests of a node were bad, and good before and after. Pure.

If several nodes were bad at the same time, the network was congested, and no node is to blame for it. If it was one node alone, the
node is bad for some of the time. Retests are chosen because a cell was bad, so that a bad one says nothing new about a node: only
the first test of each cell counts, and retests that were good.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from checks.culprit.matrix import Congestion, Matrix, Span

# Judgement: within a period more than half of a node's tests are bad: congestion slows about half of them, a fault nearly all.
WITHIN = 0.6
# Judgement: a period begins once in fifty rounds at most, and lasts for about eight.
BEGINS, ENDS = math.log(1 / 50), math.log(1 / 8)
# Judgement: fewer rounds in which a node was bad are not a period but hiccups.
LEAST_ROUNDS = 3
# Judgement: the log odds from which on a period counts towards congestion.
LEAST_ODDS = 5.0
# The least and the greatest rate of bad tests outside of periods: a matrix of few tests may have none by chance.
LEAST_RATE, MOST_RATE = 0.002, 0.3
# A node that is bad in this share of its tests is bad all the time, or for so much of it that the search finds it.
STEADY = 0.5
# So many nodes at once are congestion. A leaf has at least an eighth of a cluster's nodes here; judgement.
TOGETHER, FEW_NODES, TOGETHER_OF_FEW = 3, 24, 2
# Log odds, before any measurement, that a node is bad for some of the time.
PRIOR = math.log(1 / 200)
# What congestion explains no longer counts in the rate of all others, so that the next pass sees more of it.
PASSES = 3
# Below a probability of 0.95 no node is named.
SURE_ODDS = math.log(0.95 / 0.05)
# Fewer rounds than this do not tell a fault that comes and goes from one event.
LEAST_SWEEP = 12
# Judgement: what lasts for more than this share of the sweep does not pass, neither congestion nor one event.
LONGEST = 0.5
# The border of a period is uncertain by a round.
MARGIN = 1


@dataclass(frozen=True)
class Spell:
    """A node was bad from round `first` to round `last`; `odds` compare this with chance."""

    node: int
    first: int
    last: int
    odds: float


@dataclass(frozen=True)
class PartTime:
    """A node that was bad for some of the time, alone. `odds` are log odds; `is_short`: one spell, that lasted for no more than half
    of the sweep.
    """

    node: int
    spells: int
    odds: float
    is_short: bool


@dataclass(frozen=True)
class Periods:
    """What was found. `excused` are bad tests that congestion explains."""

    congestion: tuple[Congestion, ...] = ()
    excused: frozenset[int] = frozenset()
    part_time: tuple[PartTime, ...] = ()


NOTHING = Periods()
Crowd = tuple[int, int, tuple[int, ...]]
Visits = list[tuple[int, int, int]]


def periods(matrix: Matrix, bad: Sequence[int], first: Sequence[bool], node_of: Sequence[int]) -> Periods:
    """The periods of the matrix. `first[k]` says whether test k was the first of its cell; `node_of` maps parts to nodes."""
    if not matrix.rounds or not bad or matrix.span is Span.INSIDE:
        return NOTHING
    nodes = max(node_of) + 1
    wrong = set(bad)
    together = TOGETHER if nodes >= FEW_NODES else TOGETHER_OF_FEW
    spells: list[Spell] = []
    crowds: list[Crowd] = []
    congestion: tuple[Congestion, ...] = ()
    excused: frozenset[int] = frozenset()
    steady: set[int] = set()
    every = _counts(matrix, wrong, first, node_of, nodes)[1]
    sweep = sorted({at for at, is_first in zip(matrix.rounds, first, strict=True) if is_first})
    for _ in range(PASSES):
        tests, spoiled = _counts(matrix, wrong - excused, first, node_of, nodes)
        shares = [some / all_ for some, all_ in zip(spoiled, tests, strict=True) if all_]
        rate = min(MOST_RATE, max(LEAST_RATE, median(shares)))
        steady = {node for node in range(nodes) if tests[node] and spoiled[node] >= STEADY * tests[node]}
        wanted = {node for node in range(nodes) if every[node] >= LEAST_ROUNDS}
        of_node = _visits(matrix, wrong, first, node_of, wanted, steady, crowds)
        spells = [spell for node in sorted(of_node) for spell in _spells(node, of_node[node], rate)]
        spells = [one for one in spells if one.odds > LEAST_ODDS and _ends(one, of_node[one.node])]
        past = [one for one in spells if one.node not in steady and _is_past(one, of_node[one.node], sweep)]
        crowds = _crowds(past, together)
        congestion, more = _congestion(matrix, bad, node_of, crowds)
        if more <= excused:
            break
        excused |= more
    rounds = max(matrix.rounds) + 1
    # A crowd that has not passed is no congestion, and tells as little about one of its nodes.
    alone = _alone(spells, _crowds(spells, together), nodes, rounds, sweep) if rounds >= LEAST_SWEEP else ()
    return Periods(congestion, excused, tuple(one for one in alone if one.node not in steady))


def _counts(
    matrix: Matrix, wrong: Collection[int], first: Sequence[bool], node_of: Sequence[int], nodes: int
) -> tuple[list[int], list[int]]:
    """The number of first tests of each node, and of the bad ones among them."""
    tests, spoiled = [0] * nodes, [0] * nodes
    for test, (source, target) in enumerate(zip(matrix.sources, matrix.targets, strict=True)):
        if first[test]:
            tests[node_of[source]] += 1
            tests[node_of[target]] += 1
    for test in wrong:
        if first[test]:
            spoiled[node_of[matrix.sources[test]]] += 1
            spoiled[node_of[matrix.targets[test]]] += 1
    return tests, spoiled


def _visits(
    matrix: Matrix,
    wrong: Collection[int],
    first: Sequence[bool],
    node_of: Sequence[int],
    wanted: Collection[int],
    steady: Collection[int],
    crowds: Sequence[Crowd],
) -> Mapping[int, Visits]:
    """For each wanted node (round, bad tests, tests), in the order of the rounds, without partners that explain what was bad: those
    that are always bad, and those that are known to have been congested at that time.
    """
    congested = _times_of_nodes(crowds)
    found: dict[int, dict[int, list[int]]] = {node: {} for node in wanted}
    for test, (source, target) in enumerate(zip(matrix.sources, matrix.targets, strict=True)):
        a, b = node_of[source], node_of[target]
        if a not in wanted and b not in wanted:
            continue
        is_bad = test in wrong
        if is_bad and not first[test]:
            continue
        at = matrix.rounds[test]
        now = {node for node in (a, b) if _is_within(at, congested.get(node, ()))}
        for node, other in ((a, b), (b, a)):
            if node not in wanted or (other in now and node not in now):
                continue
            if other not in steady or node in steady:
                counts = found[node].setdefault(at, [0, 0])
                counts[0] += is_bad
                counts[1] += 1
    return {node: [(at, *its[at]) for at in sorted(its)] for node, its in found.items()}  # type: ignore[misc]


def _times_of_nodes(crowds: Sequence[Crowd]) -> Mapping[int, Sequence[tuple[int, int]]]:
    """For each node its crowded times, in order and without overlap."""
    found: dict[int, list[tuple[int, int]]] = {}
    for begin, end, nodes in sorted(crowds):
        for node in nodes:
            its = found.setdefault(node, [])
            if its and begin <= its[-1][1]:
                its[-1] = (its[-1][0], max(end, its[-1][1]))
            else:
                its.append((begin, end))
    return found


def _is_within(at: int, times: Sequence[tuple[int, int]]) -> bool:
    place = bisect_right(times, (at, math.inf)) - 1
    return place >= 0 and at <= times[place][1]


def _spells(node: int, visits: Visits, rate: float) -> list[Spell]:
    """The most likely sequence of good and bad times (Viterbi's algorithm with two states), as its bad times."""
    bad_log, good_log = math.log(WITHIN / rate), math.log((1 - WITHIN) / (1 - rate))
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
    return Spell(node, visits[0][0], visits[-1][0], odds)


def _ends(spell: Spell, visits: Visits) -> bool:
    """Whether the node was good for as many rounds before or after the period."""
    outside = [one for one in visits if not spell.first <= one[0] <= spell.last]
    return sum(one[1] == 0 for one in outside) >= LEAST_ROUNDS


def _is_past(spell: Spell, visits: Visits, sweep: Sequence[int]) -> bool:
    """Whether it is shown that the period has ended, and it was not most of the sweep."""
    after = sum(at > spell.last and not some for at, some, _ in visits)
    return after >= LEAST_ROUNDS and _is_short(spell, sweep)


def _is_short(spell: Spell, sweep: Sequence[int]) -> bool:
    its = bisect_right(sweep, spell.last) - bisect_left(sweep, spell.first)
    return its - 2 * MARGIN <= LONGEST * len(sweep)


def _crowds(spells: Sequence[Spell], together: int) -> list[Crowd]:
    """The times in which so many nodes were bad, with these nodes."""
    # The spells of one node do not overlap, so that the number of spells is that of nodes.
    changes = Counter[int]()
    for spell in spells:
        changes[spell.first] += 1
        changes[spell.last + 1] -= 1
    times: list[list[int]] = []
    many, since = 0, 0
    for at in sorted(changes):
        if many >= together:
            if times and since - times[-1][1] <= 1 + MARGIN:
                times[-1][1] = at - 1
            else:
                times.append([since, at - 1])
        many, since = many + changes[at], at
    found = []
    for first, last in times:
        its = [spell for spell in spells if min(spell.last, last) - max(spell.first, first) >= MARGIN]
        nodes = tuple(sorted({spell.node for spell in its}))
        if len(nodes) >= together:
            begin = max(min(spell.first for spell in its), first - LEAST_ROUNDS)
            end = min(max(spell.last for spell in its), last + LEAST_ROUNDS)
            found.append((begin, end, nodes))
    return found


def _congestion(
    matrix: Matrix,
    bad: Sequence[int],
    node_of: Sequence[int],
    crowds: Sequence[Crowd],
) -> tuple[tuple[Congestion, ...], frozenset[int]]:
    names: dict[int, str] = {}
    switches: dict[int, tuple[str, ...]] = {}
    for part, node in zip(matrix.parts, node_of, strict=True):
        names[node], switches[node] = part.node, part.switches
    found, excused = [], set[int]()
    for first, last, nodes in crowds:
        touched = set(nodes)
        mine = [
            test
            for test in bad
            if first - MARGIN <= matrix.rounds[test] <= last + MARGIN
            and (node_of[matrix.sources[test]] in touched or node_of[matrix.targets[test]] in touched)
        ]
        excused.update(mine)
        common = [switch for switch in switches[nodes[0]] if all(switch in switches[node] for node in nodes)]
        found.append(
            Congestion(
                first, last, tuple(names[node] for node in nodes), common[0] if common else "", tuple(mine)
            )
        )
    return tuple(found), frozenset(excused)


def _alone(
    spells: Sequence[Spell], crowds: Sequence[Crowd], nodes: int, rounds: int, sweep: Sequence[int]
) -> tuple[PartTime, ...]:
    """Nodes with bad times of their own."""
    chance = math.log(nodes * rounds) - PRIOR
    of_node: dict[int, list[Spell]] = {}
    for spell in spells:
        if not any(
            spell.node in its and min(spell.last, last) - max(spell.first, first) >= 0
            for first, last, its in crowds
        ):
            of_node.setdefault(spell.node, []).append(spell)
    found = []
    for node, its in of_node.items():
        odds = sum(spell.odds for spell in its) - chance
        if odds > SURE_ODDS and (len(its) > 1 or not _accompanied(its[0], spells)):
            is_short = len(its) == 1 and _is_short(its[0], sweep)
            found.append(PartTime(node, len(its), odds, is_short))
    return tuple(found)


def _accompanied(spell: Spell, spells: Sequence[Spell]) -> bool:
    """Whether another node was bad for half of this time."""
    return any(
        other.node != spell.node
        and 2 * (min(spell.last, other.last) - max(spell.first, other.first) + 1)
        >= spell.last - spell.first + 1
        for other in spells
    )
