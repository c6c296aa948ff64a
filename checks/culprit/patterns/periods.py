"""Periods of time in which the tests of a node were bad, and good before and after. Pure.

If several nodes were bad at the same time, the network was congested, and no node is to blame for it. If it was one node alone, the
node is bad for some of the time. Retests are chosen because a cell was bad, so that a bad one says nothing new about a node: only
the first test of each cell counts, and retests that were good.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from statistics import median

from checks.culprit.matrix import Congestion, Matrix, Span
from checks.culprit.patterns.spells import (
    LEAST_ODDS,
    LEAST_RATE,
    LEAST_ROUNDS,
    MARGIN,
    MOST_RATE,
    Spell,
    Visits,
    has_good_rounds,
    is_past,
    is_short,
    may_have_spell,
    spells_of,
)
from checks.culprit.patterns.sweeps import always_bad
from checks.culprit.patterns.whole_cluster import Crowd, belong_to_one, crowds_of_all

# Judgement, as log odds: of fewer nodes than this, those that are bad alone for a while mostly have a network that others use as well.
MANY_NODES, RARER = 16, math.log(1 / 20)
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
    """What was found. `excused` are bad tests that congestion explains. `unsure`: some node was bad for a while, and it is not known
    whether that returns.
    """

    congestion: tuple[Congestion, ...] = ()
    excused: frozenset[int] = frozenset()
    part_time: tuple[PartTime, ...] = ()
    unsure: bool = False


NOTHING = Periods()
# the nodes of a test, its round, and whether it was bad
Seen = tuple[int, int, int, bool]


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
    wanted = _close_nodes(matrix, wrong, first, node_of)
    seen = _seen(matrix, wrong, first, node_of, wanted)
    sweep = sorted({at for at, is_first in zip(matrix.rounds, first, strict=True) if is_first})
    for _ in range(PASSES):
        tests, spoiled = _counts(matrix, wrong - excused, first, node_of, nodes)
        shares = [some / all_ for some, all_ in zip(spoiled, tests, strict=True) if all_]
        rate = min(MOST_RATE, max(LEAST_RATE, median(shares)))
        steady = {node for node in range(nodes) if tests[node] and spoiled[node] >= STEADY * tests[node]}
        of_node = _visits(seen, wanted, steady, crowds)
        spells = [spell for node in sorted(of_node) for spell in spells_of(node, of_node[node], rate)]
        spells = [one for one in spells if one.odds > LEAST_ODDS and has_good_rounds(one, of_node[one.node])]
        past = [one for one in spells if one.node not in steady and is_past(one, of_node[one.node], sweep)]
        crowds = _crowds(past, together)
        congestion, more = _congestion(matrix, bad, node_of, crowds)
        if more <= excused:
            break
        excused |= more
    if nodes < FEW_NODES:
        whole = crowds_of_all(matrix, wrong - excused, node_of, steady, sweep)
        more_congestion, more = _congestion(matrix, sorted(wrong - excused), node_of, whole)
        crowds, congestion, excused = [*crowds, *whole], (*congestion, *more_congestion), excused | more
    rounds = max(matrix.rounds) + 1
    # A crowd that has not passed is no congestion, and tells as little about one of its nodes.
    told = [*_crowds(spells, together), *crowds]
    alone = _alone(spells, told, nodes, rounds, sweep) if rounds >= LEAST_SWEEP else ()
    sure = tuple(one for one in alone if one.node not in steady)
    again = {one.node for one in sure if not one.is_short}
    unsure = any(spell.node not in steady and spell.node not in again for spell in spells)
    unsure = unsure or belong_to_one(matrix, wrong - excused, node_of, steady | again)
    return Periods(congestion, excused, sure, unsure)


def _close_nodes(
    matrix: Matrix, wrong: Collection[int], first: Sequence[bool], node_of: Sequence[int]
) -> set[int]:
    """The nodes that may have a period: their bad rounds are close to each other."""
    found: dict[int, set[int]] = {}
    for test in wrong:
        if first[test]:
            for part in (matrix.sources[test], matrix.targets[test]):
                found.setdefault(node_of[part], set()).add(matrix.rounds[test])
    return {node for node, rounds in found.items() if may_have_spell(sorted(rounds))}


def _counts(
    matrix: Matrix, wrong: Collection[int], first: Sequence[bool], node_of: Sequence[int], nodes: int
) -> tuple[list[int], list[int]]:
    """The number of first tests of each node, and of the bad ones among them."""
    tests, spoiled = [0] * nodes, [0] * nodes
    for column in (matrix.sources, matrix.targets):
        for part, some in Counter(compress(column, first)).items():
            tests[node_of[part]] += some
        for part, some in Counter(column[test] for test in wrong if first[test]).items():
            spoiled[node_of[part]] += some
    return tests, spoiled


def _seen(
    matrix: Matrix,
    wrong: Collection[int],
    first: Sequence[bool],
    node_of: Sequence[int],
    wanted: Collection[int],
) -> list[Seen]:
    """The tests of wanted nodes that tell one time from another: not those of cells that are always bad, and no retests that were
    bad.
    """
    always = always_bad(matrix, wrong)
    is_wanted = [node in wanted for node in node_of]
    columns = enumerate(zip(matrix.sources, matrix.targets, strict=True))
    return [
        (node_of[cell[0]], node_of[cell[1]], matrix.rounds[test], test in wrong)
        for test, cell in columns
        if (is_wanted[cell[0]] or is_wanted[cell[1]])
        and (first[test] or test not in wrong)
        and not (always and cell in always)
    ]


def _visits(
    seen: Sequence[Seen], wanted: Collection[int], steady: Collection[int], crowds: Sequence[Crowd]
) -> Mapping[int, Visits]:
    """For each wanted node (round, bad tests, tests), in the order of the rounds, without partners that explain what was bad: those
    that are always bad, and those that are known to have been congested at that time.
    """
    congested = _times_of_nodes(crowds)
    special = congested.keys() | set(steady)
    found: dict[int, dict[int, list[int]]] = {node: {} for node in wanted}
    for a, b, at, is_bad in seen:
        ends: tuple[int, ...] = (a, b)
        if special and (a in special or b in special):
            ends = _unexplained(a, b, at, congested, steady)
        for node in ends:
            if node in found:
                its = found[node]
                if at not in its:
                    its[at] = [0, 0]
                counts = its[at]
                counts[0] += is_bad
                counts[1] += 1
    return {node: [(at, *its[at]) for at in sorted(its)] for node, its in found.items()}  # type: ignore[misc]


def _unexplained(
    a: int, b: int, at: int, congested: Mapping[int, Sequence[tuple[int, int]]], steady: Collection[int]
) -> tuple[int, ...]:
    """The ends of a test in this round whose partner does not explain it."""
    a_now = a in congested and _is_within(at, congested[a])
    b_now = b in congested and _is_within(at, congested[b])
    return tuple(
        node
        for node, other, excused in ((a, b, b_now and not a_now), (b, a, a_now and not b_now))
        if not excused and not (other in steady and node not in steady)
    )


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
    least = SURE_ODDS - (RARER if nodes < MANY_NODES else 0.0)
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
        if (
            odds > SURE_ODDS
            and (len(its) > 1 or not _accompanied(its[0], spells))
            and sum(spell.steady for spell in its) > least
        ):
            found.append(PartTime(node, len(its), odds, len(its) == 1 and is_short(its[0], sweep)))
    return tuple(found)


def _accompanied(spell: Spell, spells: Sequence[Spell]) -> bool:
    """Whether another node was bad for half of this time."""
    return any(
        other.node != spell.node
        and 2 * (min(spell.last, other.last) - max(spell.first, other.first) + 1)
        >= spell.last - spell.first + 1
        for other in spells
    )
