"""Suspects that are made of nodes that are bad for some of the time: in periods, or in some of their tests at any time. Pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterator, Sequence

from checks.culprit.likelihood import at_least
from checks.culprit.matrix import Kind, Matrix, Span, Suspect
from checks.culprit.noise import Screened
from checks.culprit.patterns.periods import FEW_NODES, TOGETHER, TOGETHER_OF_FEW, PartTime
from checks.culprit.patterns.sweeps import always_bad
from checks.culprit.suspects import node_suspect

# Judgement: a node is bad at any time if this share of its visits is, if it has so many bad ones, with so many partners, in each
# quarter of the sweep, and if as large a part of that share was bad when they were measured again.
LEAST_SHARE, LEAST_BAD, LEAST_PARTNERS, TIMES, RETURNS = 0.1, 4.0, 4, 4, 1 / 3
# Judgement: so many other nodes are as bad as half of that where the network is congested.
NEAR = 0.5
# Chance makes one of the nodes so bad less often than this; a good test is bad once in 200.
BY_CHANCE, HICCUP = 0.01, 0.005
# Judgement: with fewer retests nobody knows whether it returns, unless the sweeps took so long.
LEAST_RETESTS, LONG_S = 8, 5.0

# of each node: the round, the partner, and the share of bad tests of each visit
Visits = dict[int, list[tuple[int, int, float]]]


def in_periods(
    matrix: Matrix, screened: Screened, node_of: Sequence[int], first: Sequence[bool], one: PartTime
) -> Suspect:
    """The suspect for a node that was bad in some periods."""
    bad, cells = set(screened.bad), list(zip(matrix.sources, matrix.targets, strict=True))
    tests = _tests(matrix, node_of, one.node)
    mine = {cells[test] for test in tests if test in bad}
    again = [test for test in tests if not first[test] and cells[test] in mine]
    passed = one.is_short and {cells[test] for test in again} == mine and not bad.intersection(again)
    probability = 1 / (1 + math.exp(-min(700.0, one.odds)))
    return node_suspect(matrix, screened, node_of.index(one.node), tests, probability, passed=passed)


def at_any_time(
    matrix: Matrix,
    screened: Screened,
    node_of: Sequence[int],
    first: Sequence[bool],
    named: Sequence[Suspect],
) -> Iterator[Suspect]:
    """Nodes that are bad in some of their tests, at any time and with any partner, beside those that are `named`."""
    if matrix.span is Span.INSIDE or not matrix.rounds or not screened.bad:
        return
    names = [part.node for part in matrix.parts]
    others = {node for one in named if one.kind is not Kind.LINK for node in one.nodes}
    known = {node for part, node in enumerate(node_of) if names[part] in others}
    while True:
        visits = _visits(matrix, screened, node_of, first, known)
        sums = {node: sum(bad for _, _, bad in its) for node, its in visits.items()}
        order = sorted(sums, key=lambda one: (-sums[one], one))
        few = TOGETHER_OF_FEW if len(order) < FEW_NODES else TOGETHER
        if len(order) < few or sums[order[few - 1]] > NEAR * sums[order[0]] or sums[order[0]] < LEAST_BAD:
            return
        node, every = order[0], sum(sums.values()) / 2
        mine, some = visits[node], sums[node]
        rest = max(1.0, sum(map(len, visits.values())) / 2 - len(mine))
        chance = len(visits) * at_least(len(mine), int(some), max(HICCUP, (every - some) / rest))
        share = some / len(mine)
        if (
            chance > BY_CHANCE
            or not _is_spread(mine, some)
            or not _returns(matrix, screened, node_of, first, node, share)
        ):
            return
        yield node_suspect(matrix, screened, node_of.index(node), _tests(matrix, node_of, node), 1 - chance)
        known.add(node)


def _tests(matrix: Matrix, node_of: Sequence[int], node: int) -> list[int]:
    """The tests of a node."""
    ends = enumerate(zip(matrix.sources, matrix.targets, strict=True))
    return [test for test, (a, b) in ends if node in (node_of[a], node_of[b])]


def _visits(
    matrix: Matrix, screened: Screened, node_of: Sequence[int], first: Sequence[bool], known: Collection[int]
) -> Visits:
    """The visits of the sweeps, in the order of time, without nodes that are `known` and cells that are bad in each test."""
    wrong = set(screened.bad)
    always = always_bad(matrix, wrong)
    counts: dict[tuple[int, int, int], list[int]] = {}
    for test, cell in enumerate(zip(matrix.sources, matrix.targets, strict=True)):
        a, b = sorted((node_of[cell[0]], node_of[cell[1]]))
        if first[test] and a not in known and b not in known and cell not in always:
            its = counts.setdefault((matrix.rounds[test], a, b), [0, 0])
            its[0] += test in wrong
            its[1] += 1
    found: Visits = {}
    for (at, a, b), (some, all_) in sorted(counts.items()):
        found.setdefault(a, []).append((at, b, some / all_))
        found.setdefault(b, []).append((at, a, some / all_))
    return found


def _is_spread(mine: Sequence[tuple[int, int, float]], some: float) -> bool:
    """Whether the bad visits are spread over time and over partners."""
    if some < LEAST_SHARE * len(mine):
        return False
    partners = Counter[int]()
    for _, partner, bad in mine:
        partners[partner] += bad > 0
    quarters = [mine[at * len(mine) // TIMES : (at + 1) * len(mine) // TIMES] for at in range(TIMES)]
    return sum(times > 0 for times in partners.values()) >= LEAST_PARTNERS and all(
        sum(bad for _, _, bad in its) >= some / TIMES**2 for its in quarters
    )


def _returns(
    matrix: Matrix, screened: Screened, node_of: Sequence[int], first: Sequence[bool], node: int, share: float
) -> bool:
    """Whether the node was as bad when it was measured again, at other times."""
    mine = _tests(matrix, node_of, node)
    again = [test for test in mine if not first[test]]
    if len(again) < LEAST_RETESTS:
        moments = [matrix.moments[test] for test in mine] if matrix.moments else [0.0]
        return max(moments) - min(moments) >= LONG_S
    return len(set(screened.bad).intersection(again)) >= RETURNS * share * len(again)
