"""What was bad at times, and good at others: congestion, which is no part's fault, and nodes that are bad for some of the time. Pure.

What two nodes measured in one round is a visit. A spell is a time in which the visits of a node were bad. If several nodes had one
at the same time, the network was congested then; if it was one node alone, the node is bad at times. So is a node of whose visits too
many are bad, spread over time and over partners. Retests are chosen because a cell was bad, so that a bad one says nothing new about
a node: only the tests of sweeps count, and retests that were good.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from statistics import median
from typing import NamedTuple

from checks.culprit.likelihood import at_least
from checks.culprit.matrix import Congestion, Entity, Matrix, Span, Suspect
from checks.culprit.noise import Screened
from checks.culprit.patterns.paths import always_bad
from checks.culprit.suspects import fewest_ends, node_suspect

# Judgement: within a spell more than half of a node's tests are bad: congestion slows about half of them, a fault nearly all.
WITHIN, OF_FAULT, OF_CONGESTION = 0.6, 0.95, 0.5
# Judgement, as log odds: a spell begins once in fifty rounds at most, lasts for about eight, and counts from the last number on.
CHANGES, LEAST_ODDS = math.log(1 / 50) + math.log(1 / 8), 5.0
# The least and the greatest rate of bad tests outside of spells: a matrix of few tests may have none by chance.
LEAST_RATE, MOST_RATE = 0.002, 0.3
# Judgement: fewer bad rounds are hiccups, and fewer good ones do not show that a spell has ended.
LEAST_ROUNDS = 3
# Judgement: what lasts for more than this share of the sweep does not pass, neither congestion nor one event.
LONGEST = 0.5
# Judgement: where so many tests are bad, no time is better than another one.
BLIND = 0.25
# The border of a spell is uncertain by a round.
MARGIN = 1
# A node that is bad in this share of its tests is bad all the time, or for so much of it that the search finds it.
STEADY = 0.5
# So many nodes at once are congestion. A leaf has at least an eighth of a cluster's nodes here; judgement.
TOGETHER, FEW_NODES, TOGETHER_OF_FEW = 3, 24, 2
# Log odds, before any measurement, that a node is bad for some of the time, and from which on it is named (a probability of 0.95).
PRIOR, SURE_ODDS = math.log(1 / 200), math.log(0.95 / 0.05)
# Judgement, as log odds: of fewer nodes than this, those that are bad alone for a while mostly have a network that others use as well.
MANY_NODES, RARER = 16, math.log(1 / 20)
# Fewer rounds than this do not tell a fault that comes and goes from one event.
LEAST_SWEEP = 12
# Judgement: a node is bad at any time if this share of its visits is, if it has so many bad ones, with so many partners, in each
# quarter of the sweep, and if as large a part of that share was bad when they were measured again.
LEAST_SHARE, LEAST_BAD, LEAST_PARTNERS, TIMES, RETURNS = 0.1, 4.0, 4, 4, 1 / 3
# Judgement: so many other nodes are as bad as half of that where the network is congested.
NEAR = 0.5
# Chance makes one of the nodes so bad less often than this; a good test is bad once in 200.
BY_CHANCE, HICCUP = 0.01, 0.005
# Judgement: with fewer retests nobody knows whether it returns, unless the sweeps took so long.
LEAST_RETESTS, LONG_S = 8, 5.0


class Visit(NamedTuple):
    """What a node measured with a partner in one round: the number of bad tests, and of all, of one rail."""

    at: int
    partner: int
    bad: float
    tests: float


class Spell(NamedTuple):
    """A node was bad from round `first` to round `last`; `odds` compare this with chance, and `steady` a fault, which spoils nearly
    all tests, with congestion, which spoils half of them. `ended`: it was good afterwards.
    """

    node: int
    first: int
    last: int
    odds: float
    steady: float
    ended: bool


@dataclass(frozen=True)
class PartTime:
    """A node that was bad for some of the time, alone. `odds` are log odds; `is_short`: one spell, that lasted for no more than half
    of the sweep.
    """

    node: int
    odds: float
    is_short: bool


@dataclass
class Times:
    """The times of a matrix whose `bad` tests are these.

    `excused` are bad tests that congestion explains. `unsure`: some node was bad for a while, and it is not known whether that
    returns.
    """

    matrix: Matrix
    bad: set[int]
    congestion: tuple[Congestion, ...] = ()
    excused: frozenset[int] = frozenset()
    part_time: list[PartTime] = field(default_factory=list)
    unsure: bool = False
    sweep: Sequence[int] = ()
    _series: dict[int, list[Visit]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        matrix = self.matrix
        if not matrix.rounds or not self.bad or matrix.span is Span.INSIDE:
            return
        self.sweep = sorted(
            {at for at, is_first in zip(matrix.rounds, matrix.swept, strict=True) if is_first}
        )
        visits = self._series = self._visits()
        if not visits:
            return
        shares = {node: _share(series) for node, series in visits.items()}
        steady = {node for node, share in shares.items() if share >= STEADY}
        own = {
            node: [visit for visit in series if node in steady or visit.partner not in steady]
            for node, series in visits.items()
        }
        rate = min(MOST_RATE, max(LEAST_RATE, min(median(shares.values()), self._usual(visits))))
        if _share([visit for node, series in own.items() if node not in steady for visit in series]) >= BLIND:
            return
        spells = [spell for node, series in own.items() for spell in _spells(node, series, rate)]
        nodes = len(set(matrix.nodes))
        together = TOGETHER if nodes >= FEW_NODES else TOGETHER_OF_FEW
        past = [
            spell
            for spell in spells
            if spell.node not in steady and spell.ended and self._is_short(spell.first, spell.last)
        ]
        crowds = [crowd for crowd in _at_once(past) if len(_nodes(crowd)) >= together]
        explained = set[Spell]()
        if sum(self._rounds(*_ends(crowd)) for crowd in crowds) <= LONGEST * len(self.sweep):
            explained = {spell for crowd in crowds if self._excuse(crowd) for spell in crowd}
        apart = [group for group in _at_once(spells) if len(_nodes(group)) < together]
        self._find_lonely(apart, nodes, steady)
        lasting = {entry.node for entry in self.part_time if not entry.is_short}
        self.unsure = any(spell not in explained and spell.node not in steady | lasting for spell in spells)

    def _usual(self, visits: Mapping[int, Sequence[Visit]]) -> float:
        """The share of bad tests of the usual round."""
        of_round: dict[int, list[float]] = {}
        for series in visits.values():
            for at, _, bad, tests in series:
                sums = of_round.setdefault(at, [0.0, 0.0])
                sums[0] += bad
                sums[1] += tests
        return median(bad / tests for bad, tests in of_round.values())

    def _visits(self) -> dict[int, list[Visit]]:
        """The visits of each node by time, without cells that are bad in each test: they do not tell one time from another."""
        matrix, (visit_of, tests) = self.matrix, self._pairs
        always, weight = always_bad(matrix, self.bad), 1 / max(1, len({end.rail for end in matrix.endpoints}))
        spoiled, ignored = Counter[tuple[int, int, int]](), Counter[tuple[int, int, int]]()
        for test in self.bad:
            is_used = matrix.swept[test] and matrix.ends[test] not in always
            (spoiled if is_used else ignored)[visit_of[test]] += 1
        visits: dict[int, list[Visit]] = {}
        for key, every in tests:
            at, a, b = key
            if used := weight * (every - ignored.get(key, 0)):
                bad = weight * spoiled.get(key, 0)
                visits.setdefault(a, []).append(Visit(at, b, bad, used))
                visits.setdefault(b, []).append(Visit(at, a, bad, used))
        return visits

    @cached_property
    def _pairs(self) -> tuple[list[tuple[int, int, int]], list[tuple[tuple[int, int, int], int]]]:
        """The round and the nodes of each test, the lower number first, and how many tests have the same, in the order of time."""
        nodes = (
            map(self.matrix.node_of.__getitem__, ends) for ends in (self.matrix.sources, self.matrix.targets)
        )
        tests = zip(self.matrix.rounds, *nodes, strict=True)
        visit_of = [(at, a, b) if a < b else (at, b, a) for at, a, b in tests]
        return visit_of, sorted(Counter(visit_of).items())

    def _rounds(self, first: int, last: int) -> int:
        """How many rounds of the sweep lie in this time, but for its uncertain borders."""
        return bisect_right(self.sweep, last) - bisect_left(self.sweep, first) - 2 * MARGIN

    def _is_short(self, first: int, last: int) -> bool:
        return self._rounds(first, last) <= LONGEST * len(self.sweep)

    def _excuse(self, crowd: Sequence[Spell]) -> bool:
        """Explains the bad tests of this time by congestion. Returns whether so many nodes share them that it is congestion."""
        matrix = self.matrix
        first, last = _ends(crowd)
        touched = set(_nodes(crowd))
        names = dict(zip(matrix.node_of, matrix.endpoints, strict=True))
        bad = ((test, self._pairs[0][test]) for test in sorted(self.bad - self.excused))
        then = {test: (a, b) for test, (at, a, b) in bad if first - MARGIN <= at <= last + MARGIN}
        shared = [ends for ends in then.values() if touched.intersection(ends)]
        theirs = sorted(node for node, _ in fewest_ends(shared))
        if len(theirs) < max(TOGETHER_OF_FEW, min(TOGETHER, len(names) // 2)):
            return False
        mine = tuple(test for test, ends in then.items() if touched.union(theirs).intersection(ends))
        endpoints = [names[node] for node in theirs]
        common = [name for name in endpoints[0].switches if all(name in end.switches for end in endpoints)]
        nodes, switch = tuple(end.node for end in endpoints), common[0] if common else ""
        self.congestion += (Congestion(first, last, nodes, switch, mine),)
        self.excused |= set(mine)
        return True

    def _find_lonely(self, apart: Sequence[Sequence[Spell]], nodes: int, steady: set[int]) -> None:
        """Finds the nodes with spells of their own."""
        rounds = max(self.matrix.rounds) + 1
        least = SURE_ODDS - (RARER if nodes < MANY_NODES else 0.0)
        of_node: dict[int, list[Spell]] = {}
        for group in apart if rounds >= LEAST_SWEEP else ():
            for spell in group:
                of_node.setdefault(spell.node, []).append(spell)
        lonely = {group[0].node for group in apart if len(_nodes(group)) == 1}
        left = [test for test in self.bad - self.excused if self.matrix.swept[test]]
        ends = [self._pairs[0][test][1:] for test in left]
        often = Counter(node for pair in ends if steady.isdisjoint(pair) for node in pair)
        together = TOGETHER if nodes >= FEW_NODES else TOGETHER_OF_FEW
        others = sorted(often.values(), reverse=True)[together - 1 : together] or [0]
        for node, spells in of_node.items():
            odds = sum(entry.odds for entry in spells) - math.log(nodes * rounds) + PRIOR
            is_alone = (len(spells) > 1 or node in lonely) and others[0] <= NEAR * often[node]
            is_fault = odds > SURE_ODDS and sum(entry.steady for entry in spells) > least
            if is_alone and is_fault and node not in steady:
                is_short = len(spells) == 1 and self._is_short(*_ends(spells))
                self.part_time.append(PartTime(node, odds, is_short))

    def tests_of(self, nodes: Collection[int]) -> list[int]:
        """The tests of these nodes."""
        return self.matrix.tests_of(end for end, node in enumerate(self.matrix.node_of) if node in nodes)

    def suspect(self, screened: Screened, part_time: PartTime) -> Suspect:
        """The suspect for a node that was bad in some spells."""
        bad, cells = set(screened.bad), self.matrix.ends
        tests = self.tests_of([part_time.node])
        mine = {cells[test] for test in tests if test in bad}
        again = [test for test in tests if not self.matrix.swept[test] and cells[test] in mine]
        passed = (
            part_time.is_short and {cells[test] for test in again} == mine and not bad.intersection(again)
        )
        probability = 1 / (1 + math.exp(-min(700.0, part_time.odds)))
        node = self.matrix.node_of.index(part_time.node)
        return node_suspect(self.matrix, screened, node, tests, probability, passed=passed)

    def at_any_time(self, screened: Screened, suspects: Sequence[Suspect]) -> Iterator[Suspect]:
        """Nodes that are bad in some of their tests, at any time and with any partner, beside those that are suspects already."""
        matrix, node_of = self.matrix, self.matrix.node_of
        if matrix.span is Span.INSIDE or not matrix.rounds or not screened.bad:
            return
        others = {node for suspect in suspects if suspect.kind is not Entity.LINK for node in suspect.nodes}
        blamed = {node for end, node in zip(matrix.endpoints, node_of, strict=True) if end.node in others}
        sweep = set(self.sweep)
        if self.bad != set(screened.bad):
            self.bad = set(screened.bad)
            self._series = self._visits()
        while True:
            visits = {
                node: [v for v in own if v.at in sweep and v.partner not in blamed]
                for node, own in self._series.items()
                if node not in blamed and any(v.partner not in blamed for v in own)
            }
            sums = {node: sum(v.bad / v.tests for v in own if v.bad) for node, own in visits.items()}
            order = sorted(sums, key=lambda number: (-sums[number], number))
            few = TOGETHER_OF_FEW if len(order) < FEW_NODES else TOGETHER
            if len(order) < few or sums[order[few - 1]] > NEAR * sums[order[0]] or sums[order[0]] < LEAST_BAD:
                return
            node, every = order[0], sum(sums.values()) / 2
            mine, some = visits[node], sums[node]
            rest = max(1.0, sum(map(len, visits.values())) / 2 - len(mine))
            chance = len(visits) * at_least(len(mine), int(some), max(HICCUP, (every - some) / rest))
            if chance > BY_CHANCE or not _is_spread(mine, some) or not self._returns(node, some / len(mine)):
                self.unsure = True
                return
            yield node_suspect(matrix, screened, node_of.index(node), self.tests_of([node]), 1 - chance)
            blamed.add(node)

    def _returns(self, node: int, share: float) -> bool:
        """Whether the node was as bad when it was measured again, at other times."""
        mine, moments = self.tests_of([node]), self.matrix.moments
        again = [test for test in mine if not self.matrix.swept[test]]
        if len(again) < LEAST_RETESTS:
            times = [moments[test] for test in mine] if moments else [0.0]
            return max(times) - min(times) >= LONG_S
        return sum(test in self.bad for test in again) >= RETURNS * share * len(again)


def _share(visits: Sequence[Visit]) -> float:
    return sum(visit.bad for visit in visits) / (sum(visit.tests for visit in visits) or 1.0)


def _spells(node: int, visits: Sequence[Visit], rate: float) -> Iterator[Spell]:
    """The times in which bad visits outweigh good ones; one ends where the good visits that follow outweigh a new beginning."""
    bad_log, good_log = math.log(WITHIN / rate), math.log((1 - WITHIN) / (1 - rate))
    start, last, total, best = 0, -1, 0.0, 0.0
    for at, visit in enumerate((*visits, Visit(0, 0, 0.0, math.inf))):
        total += visit.bad * bad_log + (visit.tests - visit.bad) * good_log
        if total > best:
            last, best = at, total
        elif total < max(0.0, best + CHANGES):
            if best + CHANGES > LEAST_ODDS:
                yield from _spell(node, visits, start, last, best + CHANGES)
            start, last, total, best = at + 1, at, 0.0, 0.0


def _spell(node: int, visits: Sequence[Visit], start: int, last: int, odds: float) -> Iterator[Spell]:
    inside, after = visits[start : last + 1], sum(visit.bad == 0 for visit in visits[last + 1 :])
    if sum(visit.bad > 0 for visit in inside) < LEAST_ROUNDS:
        return
    if after + sum(visit.bad == 0 for visit in visits[:start]) < LEAST_ROUNDS:
        return
    some, every = sum(visit.bad for visit in inside), sum(visit.tests for visit in inside)
    steady = some * math.log(OF_FAULT / OF_CONGESTION)
    steady += (every - some) * math.log((1 - OF_FAULT) / (1 - OF_CONGESTION))
    yield Spell(node, inside[0].at, inside[-1].at, odds, steady, after >= LEAST_ROUNDS)


def _at_once(spells: Sequence[Spell]) -> list[list[Spell]]:
    """The spells in groups, each of which has rounds in common with another one of its group."""
    groups: list[list[Spell]] = []
    end = -math.inf
    for spell in sorted(spells, key=lambda entry: entry.first):
        if spell.first < end:
            groups[-1].append(spell)
        else:
            groups.append([spell])
            end = -math.inf
        end = max(end, spell.last)
    return groups


def _ends(spells: Sequence[Spell]) -> tuple[int, int]:
    return min(spell.first for spell in spells), max(spell.last for spell in spells)


def _nodes(spells: Sequence[Spell]) -> list[int]:
    return sorted({spell.node for spell in spells})


def _is_spread(mine: Sequence[Visit], some: float) -> bool:
    """Whether the bad visits are spread over time and over partners."""
    if some < LEAST_SHARE * len(mine):
        return False
    partners = Counter(visit.partner for visit in mine if visit.bad)
    quarters = [mine[at * len(mine) // TIMES : (at + 1) * len(mine) // TIMES] for at in range(TIMES)]
    return len(partners) >= LEAST_PARTNERS and all(
        sum(visit.bad / visit.tests for visit in quarter) >= some / TIMES**2 for quarter in quarters
    )
