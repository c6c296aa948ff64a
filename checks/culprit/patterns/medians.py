"""Nodes, ranks and rails that are a little slower than the others towards all of their partners, and how slow a node this sweep would
show. Pure.

The median over its partners is not moved by bad links, by congestion of a while, or by a bad partner. How far the medians of good
parts lie apart is measured, so that nothing depends on a fixed ratio. What a part is slower by is taken out of its tests before the
smaller parts are compared, so that neither its ranks nor its links are named for it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import compress, repeat
from statistics import NormalDist, median
from typing import NamedTuple

from checks.culprit.matrix import Better, Direction, Entity, Matrix, Span, Suspect, Tolerance
from checks.culprit.noise import MAD_TO_SIGMA, Screened
from checks.culprit.suspects import suspect_of, tests_of

# The median of n values of a normal distribution scatters by sqrt(pi / 2) of what their mean does.
MEDIAN_TO_MEAN = math.sqrt(math.pi / 2)
# One good node in a thousand sweeps of 256 nodes, in three directions, lies further off than 4.8 standard deviations.
DEVIATIONS = 4.8
# The spread of few medians is itself uncertain.
FEW = 8.0
# Judgement: healthy nodes of one cluster differ by a few percent for good (cables, slots, clocks).
LEAST_SLOWNESS = 0.05
# A node is seen in nine sweeps of ten if it lies this many standard deviations beyond the threshold.
NINE_OF_TEN = 1.2816
LEAST_PARTS = 4
# A part with fewer tests has no median that counts.
LEAST_TESTS = 3
# So many tests of a slow part are measured again, and with retests of fewer cells than this it is judged by its first tests.
MEASURED_AGAIN, FEW_CELLS = 6, 3
# Judgement: the search finds a part from this share of bad tests on.
MANY_BAD = 0.25
# Judgement: of two groups of tests this share lies on its own side of the middle between their medians.
APART = 0.9
# A test without a value counts as this logarithm of a share in the mean of a node.
LEAST_LOG = math.log(0.05)
# This many values of a part give its median to a fraction of a percent.
MOST_VALUES = 512


class _Level(NamedTuple):
    """The parts of one kind: to which of them each rank belongs, their names, and their nodes."""

    entity: Entity
    part_of: Sequence[int]
    subjects: Sequence[str]
    nodes: Sequence[tuple[str, ...]]


class _Limit(NamedTuple):
    """The medians of parts, their middle, how far those of good parts lie apart, and from where on one is slow; and how far the values
    lie apart.
    """

    medians: Sequence[float]
    middle: float
    spread: float
    least: float
    of_values: float


class _Slow(NamedTuple):
    """One slow part of a level: by which logarithm, and with which limit it was compared."""

    level: _Level
    at: int
    direction: Direction
    off: float
    limit: _Limit

    def has(self, source: int, target: int) -> bool:
        """Whether a test from one rank to another goes through the part."""
        sends = self.level.part_of[source] == self.at and self.direction is not Direction.IN
        return sends or (self.level.part_of[target] == self.at and self.direction is not Direction.OUT)

    def tests(self, sources: Sequence[int], targets: Sequence[int]) -> list[int]:
        """Which of the tests between these ranks go through the part."""
        mine = [index == self.at for index in self.level.part_of]
        none = [False] * len(mine)
        sends, receives = (none if self.direction is side else mine for side in (Direction.IN, Direction.OUT))
        ends = enumerate(zip(sources, targets, strict=True))
        return [test for test, (source, target) in ends if sends[source] or receives[target]]


@dataclass(frozen=True)
class SlowParts:
    """Parts that are slower than the others, and the least slowness of a node, a rank and a link that would have been seen in nine
    sweeps of ten (a kind that is missing: it cannot be told). `doubtful` are tests of theirs whose cells should be measured again.
    `many_slower`: too many parts are slower than the others to name them, by this share at most (None: there are not so many).
    """

    suspects: tuple[Suspect, ...] = ()
    seen_from: Mapping[Entity, float] = field(default_factory=dict)
    doubtful: tuple[int, ...] = ()
    many_slower: float | None = None
    slow: tuple[_Slow, ...] = ()

    def without_explained(self, matrix: Matrix, screened: Screened, tolerance: Tolerance) -> Screened:
        """The result lacks the bad tests that are good by the ratio if what the slow parts are slower by is taken out of them.

        A part of whose tests many are bad explains none: the search names it. What is below the floor stays bad.
        """
        bad, least = set(screened.bad), math.log(tolerance.ratio)
        off: dict[int, float] = {}
        for slow_part in self.slow if bad else ():
            mine = slow_part.tests(matrix.sources, matrix.targets)
            spoiled = bad.intersection(mine)
            for test in spoiled if len(spoiled) < MANY_BAD * len(mine) else ():
                off[test] = off.get(test, 0.0) + slow_part.off
        for test, log in off.items():
            value, usual = matrix.values[test] or 0.0, screened.usual(test)
            is_good = value > (tolerance.floor or 0.0) and usual and math.log(value / usual) - log >= least
            bad -= {test} if is_good else set()
        return replace(screened, bad=sorted(bad))


@dataclass
class _Swept:
    """The ends of the first tests of all cells, and the logarithms of the cells' values, compared with the usual ones.

    A cell counts once: by the median of its retests where it has some, because it was chosen for being bad. `again` has these medians.
    """

    sources: Sequence[int]
    targets: Sequence[int]
    logs: list[float]
    again: dict[tuple[int, int], float] = field(default_factory=dict)

    def take_out(self, slow: _Slow) -> None:
        """Takes what a slow part is slower by out of its tests."""
        for test in slow.tests(self.sources, self.targets):
            self.logs[test] -= slow.off
        self.again = {cell: log - slow.off if slow.has(*cell) else log for cell, log in self.again.items()}


def slow_parts(
    matrix: Matrix, screened: Screened, culprits: Sequence[Suspect], tolerance: Tolerance
) -> SlowParts:
    """The parts whose medians are low, without what the `culprits` already explain. If more of one kind are slow than may be named,
    none of them is.
    """
    if matrix.span is Span.INSIDE or matrix.better is Better.LOWER or screened.main.usual is None:
        return SlowParts()
    swept = _swept(matrix, screened, culprits)
    blamed = {(suspect.kind, suspect.subject) for suspect in culprits}
    bad_nodes = {node for suspect in culprits if suspect.kind is Entity.NODE for node in suspect.nodes}
    slow, nodes = list[_Slow](), len(set(matrix.nodes))
    suspects, doubtful = [], list[int]()
    seen_from, slower = {**_of_links(matrix, screened, tolerance.ratio)}, None
    for level in _levels(matrix):
        columns = _columns(swept, level)
        fewest = min(map(len, columns[Direction.BOTH]), default=0)
        if len(level.subjects) < LEAST_PARTS or fewest < LEAST_TESTS:
            continue
        limits = {direction: _limit(column) for direction, column in columns.items()}
        limit = limits[Direction.BOTH]
        if not math.isfinite(limit.middle):
            continue
        candidates = [
            candidate
            for candidate in _slow_of_level(level, columns, limits)
            if (level.entity, level.subjects[candidate.at]) not in blamed
            and (level.entity is Entity.RAIL or not bad_nodes.intersection(level.nodes[candidate.at]))
        ]
        if nodes >= LEAST_PARTS:
            seen_from[level.entity] = _seen_from(limit, len(level.subjects), nodes)
        if level.entity is Entity.NODE:
            slower = _slower_half(swept, level, columns)
        if len(candidates) > max(1.0, tolerance.max_unfit_fraction * len(level.subjects)):
            slower = 1 - math.exp(min(candidate.off for candidate in candidates))
            break
        for slow_part in candidates:
            cells = [log for cell, log in swept.again.items() if slow_part.has(*cell)]
            if len(cells) >= FEW_CELLS and median(cells) > slow_part.limit.middle - slow_part.limit.least / 2:
                continue
            slow.append(slow_part)
            suspects.append(_suspect(matrix, screened, slow_part))
            if len(cells) < FEW_CELLS:
                mine = tests_of(matrix, suspects[-1])
                doubtful += mine[:: max(1, len(mine) // MEASURED_AGAIN)]
        for slow_part in slow:
            if slow_part.level is level:
                swept.take_out(slow_part)
    return SlowParts(tuple(suspects), seen_from, tuple(doubtful), slower, tuple(slow))


def _levels(matrix: Matrix) -> Iterator[_Level]:
    """The kinds of parts, the largest first."""
    endpoints = matrix.endpoints
    names = list(dict.fromkeys(matrix.nodes))
    if len(endpoints) > len(names):
        rails = sorted({end.rail for end in endpoints})
        subjects = [f"rail {rail}" for rail in rails]
        yield _Level(
            Entity.RAIL, [rails.index(end.rail) for end in endpoints], subjects, [tuple(names)] * len(rails)
        )
    yield _Level(Entity.NODE, matrix.node_of, names, [(name,) for name in names])
    if len(endpoints) > len(names):
        subjects = [end.name for end in endpoints]
        yield _Level(Entity.RANK, range(len(endpoints)), subjects, [(end.node,) for end in endpoints])


Columns = dict[Direction, list[list[float]]]


def _columns(swept: _Swept, level: _Level) -> Columns:
    """For each part of the level the logarithms of its cells' values, by direction; a rail sends what it receives."""
    sent, received = (_of_parts(swept.logs, ends, level) for ends in (swept.sources, swept.targets))
    if level.entity is Entity.RAIL:
        return {Direction.BOTH: sent}
    both = [[*a, *b] for a, b in zip(sent, received, strict=True)]
    return {Direction.BOTH: both, Direction.OUT: sent, Direction.IN: received}


def _of_parts(logs: Sequence[float], ends: Sequence[int], level: _Level) -> list[list[float]]:
    """The values of the tests of each part, or evenly chosen ones of them."""
    values: list[list[float]] = [[] for _ in level.subjects]
    appends = [values[at].append for at in level.part_of]
    for append, log in zip(map(appends.__getitem__, ends), logs, strict=True):
        append(log)
    return [own[:: 1 + len(own) // MOST_VALUES] for own in values]


def _limit(column: Sequence[Sequence[float]]) -> _Limit:
    medians = [median(values) if values else 0.0 for values in column]
    middle = median(medians)
    apart = MAD_TO_SIGMA * median(abs(value - middle) for value in medians)
    scatter = sorted([abs(value - middle) for values in column for value in values[:64]])
    of_values = MAD_TO_SIGMA * scatter[len(scatter) // 2] if scatter else 0.0
    tests = median(len(values) for values in column) or 1
    spread = max(apart, MEDIAN_TO_MEAN * of_values / math.sqrt(tests))
    least = max((DEVIATIONS + FEW / len(column)) * spread, -math.log(1 - LEAST_SLOWNESS))
    return _Limit(medians, middle, spread, least, of_values)


def _seen_from(limit: _Limit, count: int, nodes: int) -> float:
    # The limit of another sweep differs from this one's, the more so the fewer parts there are.
    least = (DEVIATIONS + FEW / count + NINE_OF_TEN) * limit.spread * (1 + 1 / math.sqrt(count))
    least = max(least, NINE_OF_TEN * limit.spread - math.log(1 - LEAST_SLOWNESS))
    # A part that is slow is the partner in this share of each other part's tests, and lowers their medians as well.
    share = 1 / (nodes - 1)
    lower = -limit.of_values * NormalDist().inv_cdf((0.5 - share) / (1 - share))
    return 1 - math.exp(-least - lower)


def _of_links(matrix: Matrix, screened: Screened, ratio: float) -> Mapping[Entity, float]:
    """From which slowness on nine of ten tests of a link would have been bad, if every pair of each rail was tested."""
    rails = Counter(end.rail for end in matrix.endpoints)
    if min(rails.values()) < LEAST_PARTS or matrix.cell_count < sum(
        ends * (ends - 1) for ends in rails.values()
    ):
        return {}
    return {Entity.LINK: 1 - ratio * math.exp(-NINE_OF_TEN * max(level.spread for level in screened.levels))}


def _slow_of_level(level: _Level, columns: Columns, limits: dict[Direction, _Limit]) -> Iterator[_Slow]:
    """The slow parts of a level, each with its direction."""
    for at in range(len(level.subjects)):
        off = {side: limit.middle - limit.medians[at] for side, limit in limits.items()}
        direction = _slow_direction(off, {side for side in off if off[side] > limits[side].least})
        if direction is not None and _is_steady(columns[direction][at], limits[direction]):
            yield _Slow(level, at, direction, -off[direction], limits[direction])


def _slow_direction(off: dict[Direction, float], slow: set[Direction]) -> Direction | None:
    """In which direction a part is slow; None if it is not."""
    if slow >= {Direction.OUT, Direction.IN} or slow == {Direction.BOTH}:
        return Direction.BOTH
    single = slow - {Direction.BOTH}
    if not single:
        return None
    (direction,) = single
    other = Direction.IN if direction is Direction.OUT else Direction.OUT
    return direction if off[other] < off[direction] / 2 else Direction.BOTH


def _is_steady(logs: Sequence[float], limit: _Limit) -> bool:
    """Whether a part is slow towards three quarters of its partners: noise with a long tail moves the median alone."""
    return sorted(logs)[3 * len(logs) // 4] < limit.middle - limit.least / 2


def _slower_half(swept: _Swept, level: _Level, columns: Columns) -> float | None:
    """By which share all other tests are slower than those of a few nodes with each other, if these are half of the nodes at most.

    A test is as slow as the slower of its ends, so that the usual value and nearly all medians are those of the slow nodes.
    """
    both = columns[Direction.BOTH]
    means = [sum([log if log > LEAST_LOG else LEAST_LOG for log in logs]) / len(logs) for logs in both]
    order = sorted(range(len(means)), key=lambda node: -means[node])
    sizes = range(LEAST_PARTS, len(order) // 2 + 1)
    size = max(sizes, key=lambda at: means[order[at - 1]] - means[order[at]], default=0)
    fast_nodes = set(order[:size])
    is_fast = [node in fast_nodes for node in level.part_of]
    fast = [is_fast[a] and is_fast[b] for a, b in zip(swept.sources, swept.targets, strict=True)]
    among = list(compress(swept.logs, fast))
    others = [log for log, is_quick in zip(swept.logs, fast, strict=True) if not is_quick]
    if not among or not others:
        return None
    high, low = median(among), median(others)
    if not math.isfinite(high) or high - max(low, LEAST_LOG) < -math.log(1 - LEAST_SLOWNESS):
        return None
    middle = (high + max(low, LEAST_LOG)) / 2
    above, below = sum(log > middle for log in among), sum(log < middle for log in others)
    if above < APART * len(among) or below < APART * len(others):
        return None
    return 1 - math.exp(low - high)


def _suspect(matrix: Matrix, screened: Screened, slow_part: _Slow) -> Suspect:
    subject, nodes = slow_part.level.subjects[slow_part.at], slow_part.level.nodes[slow_part.at]
    mine = slow_part.tests(matrix.sources, matrix.targets)
    spread = slow_part.limit.spread
    chance = math.erfc(-slow_part.off / spread / math.sqrt(2)) / 2 if spread else 0.0
    identity = slow_part.level.entity, subject, nodes, slow_part.direction
    suspect = suspect_of(matrix, screened, identity, mine, mine, 1 - min(1.0, chance * 100))
    return replace(suspect, bad=0, ratio=math.exp(slow_part.off))


def _swept(matrix: Matrix, screened: Screened, suspects: Sequence[Suspect]) -> _Swept:
    logs, bad = _all_logs(matrix, screened), set(screened.bad)
    for suspect in suspects:
        mine = [test for test in tests_of(matrix, suspect) if test in bad]
        fine = [logs[test] for test in mine if math.isfinite(logs[test])]
        usual = median(fine) if fine else 0.0
        for test in mine:
            logs[test] = logs[test] - usual if math.isfinite(logs[test]) else 0.0
    if all(matrix.swept):
        return _Swept(matrix.sources, matrix.targets, logs)
    retests: dict[tuple[int, int], list[float]] = {}
    for test, is_first in enumerate(matrix.swept):
        if not is_first:
            retests.setdefault(matrix.ends[test], []).append(logs[test])
    again = {cell: median(values) for cell, values in retests.items()}
    sources, targets = (list(compress(ends, matrix.swept)) for ends in (matrix.sources, matrix.targets))
    cells = zip(sources, targets, compress(logs, matrix.swept), strict=True)
    swept = [again.get((source, target), log) for source, target, log in cells]
    return _Swept(sources, targets, swept, again)


def _all_logs(matrix: Matrix, screened: Screened) -> list[float]:
    """The logarithm of each test's value, compared with the usual one: the greater, the better."""
    usual = [math.log(level.usual) if level.usual else None for level in screened.levels]
    log, inf = math.log, math.inf
    bases = [usual[far] for far in screened.distance] if screened.distance else repeat(usual[0])
    return [
        log(value) - base if value is not None and 0 < value < inf and base is not None else -inf
        for value, base in zip(matrix.values, bases, strict=False)
    ]
