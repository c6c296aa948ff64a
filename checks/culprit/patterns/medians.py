"""Nodes that are a little slower than the others towards all of their partners, and how slow a node this sweep would show. Pure.

The median over its partners is not moved by bad links, by congestion of a while, or by a bad partner. How far the medians of good
nodes lie apart is measured, so that nothing depends on a fixed ratio.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress, repeat
from statistics import median

from checks.culprit.matrix import Better, Direction, Kind, Matrix, Span, Suspect
from checks.culprit.noise import MAD_TO_SIGMA, Screened

# Of a normal distribution the median of n values scatters by sqrt(pi / 2) of what their mean does.
MEDIAN_TO_MEAN = math.sqrt(math.pi / 2)
# One good node in a thousand sweeps of 256 nodes, in three directions, lies further off than 4.8 standard deviations.
DEVIATIONS = 4.8
# The spread of few medians is itself uncertain.
FEW = 8.0
# Judgement: healthy nodes of one cluster differ by a few percent for good (cables, slots, clocks).
LEAST_SLOWNESS = 0.05
# A node is seen in nine sweeps of ten if it lies this many standard deviations beyond the threshold.
NINE_OF_TEN = 1.2816
LEAST_NODES = 4
MOST_CELLS = 16
# So many tests of a slow node are measured again, and with retests of fewer cells than this it is judged by its first tests.
MEASURED_AGAIN, FEW_CELLS = 6, 3
# Judgement: of two groups of tests this share lies on its own side of the middle between their medians.
APART = 0.9
# A test without a value counts as this logarithm of a share in the mean of a node.
LEAST_LOG = math.log(0.05)
# This many values of a node give its median to a fraction of a percent.
MOST_VALUES = 512


@dataclass(frozen=True)
class SlowNodes:
    """Nodes that are slower than the others, and the least slowness that would have been seen in nine sweeps of ten (None: it cannot
    be told). `doubtful` are tests of theirs whose cells should be measured again. `many_slower`: too many nodes are slower than the
    others to name them, by this share at most (None: there are not so many).
    """

    suspects: tuple[Suspect, ...]
    seen_from: float | None
    doubtful: tuple[int, ...] = ()
    many_slower: float | None = None


def slow_nodes(
    matrix: Matrix,
    screened: Screened,
    node_of: Sequence[int],
    first: Sequence[bool],
    known: Collection[str],
    most: float,
) -> SlowNodes:
    """The nodes whose medians are low. `known` are named already; if more than the share `most` are slow, none is named."""
    nodes = max(node_of, default=-1) + 1
    if matrix.span is Span.INSIDE or nodes < LEAST_NODES or screened.main.usual is None:
        return SlowNodes((), None)
    every = _all_logs(matrix, screened)
    again = _again(matrix, every, first)
    swept = _first_tests(matrix, every, node_of, first, again)
    sent, received = _logs(swept, nodes)
    both = [[*a, *b] for a, b in zip(sent, received, strict=True)]
    if any(len(its) < 3 for its in both):
        return SlowNodes((), None)
    names = {node: matrix.parts[part].node for part, node in enumerate(node_of)}
    medians = {
        way: [median(its) if its else 0.0 for its in column]
        for way, column in ((Direction.BOTH, both), (Direction.OUT, sent), (Direction.IN, received))
    }
    limits = {
        way: _limit(its, column, nodes)
        for (way, its), column in zip(medians.items(), (both, sent, received), strict=True)
    }
    limit = limits[Direction.BOTH]
    if not math.isfinite(limit.middle):
        return SlowNodes((), None)
    found = []
    columns = {Direction.BOTH: both, Direction.OUT: sent, Direction.IN: received}
    for node in range(nodes):
        way = _way(node, medians, limits)
        if way is not None and names[node] not in known and _is_steady(columns[way][node], limits[way]):
            found.append((node, way, medians[way][node] - limits[way].middle, limits[way]))
    # The limit of another sweep differs from this one's, the more so the fewer nodes there are.
    least = (DEVIATIONS + FEW / nodes + NINE_OF_TEN) * limit.spread * (1 + 1 / math.sqrt(nodes))
    seen_from = 1 - math.exp(-max(least, NINE_OF_TEN * limit.spread - math.log(1 - LEAST_SLOWNESS)))
    if len(found) > max(1.0, most * nodes):
        return SlowNodes((), seen_from, many_slower=1 - math.exp(min(off for _, _, off, _ in found)))
    suspects, doubtful = [], list[int]()
    for node, way, off, limit in found:
        mine = _tests(matrix, node_of, node, way)
        cells = {cell for test in mine if (cell := (matrix.sources[test], matrix.targets[test])) in again}
        if len(cells) >= FEW_CELLS and median(again[cell] for cell in cells) > limit.middle - limit.least / 2:
            continue
        suspects.append(_suspect(matrix, names[node], mine, way, off, limit))
        doubtful += mine[:: max(1, len(mine) // MEASURED_AGAIN)] if len(cells) < FEW_CELLS else ()
    slower = _slower_half(swept, both)
    return SlowNodes(tuple(suspects), seen_from, tuple(doubtful), slower)


def _slower_half(swept: Swept, logs: Sequence[Sequence[float]]) -> float | None:
    """By which share all other tests are slower than those of a few nodes with each other, if these are half of the nodes at most.

    A test is as slow as the slower of its ends, so that the usual value and nearly all medians are those of the slow nodes.
    """
    means = [sum([one if one > LEAST_LOG else LEAST_LOG for one in its]) / len(its) for its in logs]
    order = sorted(range(len(means)), key=lambda node: -means[node])
    sizes = range(LEAST_NODES, len(order) // 2 + 1)
    size = max(sizes, key=lambda at: means[order[at - 1]] - means[order[at]], default=0)
    is_fast = [False] * len(order)
    for node in order[:size]:
        is_fast[node] = True
    both = [is_fast[a] and is_fast[b] for a, b in zip(swept.sources, swept.targets, strict=True)]
    among = [log for log, fast in zip(swept.logs, both, strict=True) if fast]
    others = [log for log, fast in zip(swept.logs, both, strict=True) if not fast]
    if not among or not others:
        return None
    high, low = median(among), median(others)
    if not math.isfinite(high) or high - max(low, LEAST_LOG) < -math.log(1 - LEAST_SLOWNESS):
        return None
    middle = (high + max(low, LEAST_LOG)) / 2
    above, below = sum(one > middle for one in among), sum(one < middle for one in others)
    if above < APART * len(among) or below < APART * len(others):
        return None
    return 1 - math.exp(low - high)


def _is_steady(logs: Sequence[float], limit: _Limit) -> bool:
    """Whether the node is slow towards three quarters of its partners: noise with a long tail moves the median alone."""
    return sorted(logs)[3 * len(logs) // 4] < limit.middle - limit.least / 2


@dataclass(frozen=True)
class _Limit:
    middle: float
    spread: float
    least: float


def _limit(medians: Sequence[float], logs: Sequence[Sequence[float]], nodes: int) -> _Limit:
    middle = median(medians)
    apart = MAD_TO_SIGMA * median(abs(one - middle) for one in medians)
    scatter = sorted([abs(value - middle) for its in logs for value in its[:64]])
    spread = MAD_TO_SIGMA * scatter[len(scatter) // 2] if scatter else 0.0
    tests = median(len(its) for its in logs) or 1
    spread = max(apart, MEDIAN_TO_MEAN * spread / math.sqrt(tests))
    return _Limit(middle, spread, max((DEVIATIONS + FEW / nodes) * spread, -math.log(1 - LEAST_SLOWNESS)))


def _way(
    node: int, medians: dict[Direction, list[float]], limits: dict[Direction, _Limit]
) -> Direction | None:
    """In which direction the node is slow; None if it is not."""
    off = {way: limits[way].middle - medians[way][node] for way in medians}
    slow = {way for way in off if off[way] > limits[way].least}
    if slow >= {Direction.OUT, Direction.IN} or slow == {Direction.BOTH}:
        return Direction.BOTH
    one = slow - {Direction.BOTH}
    if not one:
        return None
    (way,) = one
    other = Direction.IN if way is Direction.OUT else Direction.OUT
    return way if off[other] < off[way] / 2 else Direction.BOTH


def _tests(matrix: Matrix, node_of: Sequence[int], node: int, way: Direction) -> list[int]:
    """The tests of the node in this direction."""
    ends = [(node_of[a], node_of[b]) for a, b in zip(matrix.sources, matrix.targets, strict=True)]
    return [
        test
        for test, (a, b) in enumerate(ends)
        if (a == node and way is not Direction.IN) or (b == node and way is not Direction.OUT)
    ]


def _suspect(
    matrix: Matrix, name: str, mine: Sequence[int], way: Direction, off: float, limit: _Limit
) -> Suspect:
    slow = [test for test in mine if matrix.values[test] is not None]
    slow.sort(key=lambda test: matrix.values[test] or 0.0, reverse=matrix.better is Better.LOWER)
    chance = math.erfc(-off / limit.spread / math.sqrt(2)) / 2 if limit.spread else 0.0
    return Suspect(
        Kind.NODE,
        name,
        (name,),
        way,
        1 - min(1.0, chance * 100),
        0,
        len(mine),
        math.exp(off),
        tuple(slow[:MOST_CELLS]),
    )


def _again(matrix: Matrix, every: Sequence[float], first: Sequence[bool]) -> dict[tuple[int, int], float]:
    """The best value, as a logarithm, of each cell that was measured again."""
    found: dict[tuple[int, int], float] = {}
    for test, is_first in enumerate(first):
        if not is_first:
            cell = matrix.sources[test], matrix.targets[test]
            found[cell] = max(found.get(cell, -math.inf), every[test])
    return found


@dataclass(frozen=True)
class Swept:
    """The nodes of the first tests of all cells, and the logarithms of the cells' values, compared with the usual ones.

    A cell counts once: its best test, because what was measured again was chosen for being bad.
    """

    sources: Sequence[int]
    targets: Sequence[int]
    logs: Sequence[float]


def _first_tests(
    matrix: Matrix,
    every: Sequence[float],
    node_of: Sequence[int],
    first: Sequence[bool],
    again: Mapping[tuple[int, int], float],
) -> Swept:
    sources, targets = list(compress(matrix.sources, first)), list(compress(matrix.targets, first))
    logs = list(compress(every, first))
    if again:
        best = map(again.get, zip(sources, targets, strict=True))
        logs = [log if more is None or more < log else more for log, more in zip(logs, best, strict=True)]
    return Swept([node_of[part] for part in sources], [node_of[part] for part in targets], logs)


def _logs(swept: Swept, nodes: int) -> tuple[list[list[float]], list[list[float]]]:
    """For each node the logarithms of its cells' values, sending and receiving."""
    sent: list[list[float]] = [[] for _ in range(nodes)]
    received: list[list[float]] = [[] for _ in range(nodes)]
    has_many = max(Counter(swept.sources).values(), default=0) > MOST_VALUES
    for source, target, log in zip(swept.sources, swept.targets, swept.logs, strict=True):
        if not has_many or min(len(sent[source]), len(received[target])) < MOST_VALUES:
            sent[source].append(log)
            received[target].append(log)
    return sent, received


def _all_logs(matrix: Matrix, screened: Screened) -> list[float]:
    """The logarithm of each test's value, compared with the usual one: the greater, the better."""
    usual = [math.log(level.usual) if level.usual else None for level in screened.levels]
    log, inf, sign = math.log, math.inf, 1 if matrix.better is Better.HIGHER else -1
    bases = [usual[far] for far in screened.distance] if screened.distance else repeat(usual[0])
    return [
        sign * (log(value) - base) if value is not None and 0 < value < inf and base is not None else -inf
        for value, base in zip(matrix.values, bases, strict=False)
    ]
