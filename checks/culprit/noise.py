"""The usual values of a matrix, how far good values differ from them, and which tests are bad. Pure.

It also recognises clusters that fall into two groups, which look like good and bad nodes and are not.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from checks.culprit.matrix import Better, Entity, Matrix, Suspect, Tolerance

# This many values give a median to a fraction of a percent; sorting a million would take longer than everything else.
SAMPLE = 16_384
# Judgement: links to nodes of another switch are oversubscribed two or three times, and not more.
FAR = 0.25
# The median absolute deviation of a normal distribution is 0.6745 standard deviations.
MAD_TO_SIGMA = 1.4826


@dataclass(frozen=True)
class NoiseLevel:
    """The usual value of tests of one distance, and the value beyond which one of them is bad (None: there is none).

    `merits` holds one value per cell (a greater one is better), of as many cells as the usual value is computed from.
    """

    usual: float | None
    spread: float
    line: float | None
    merits: Mapping[tuple[int, int], float]


@dataclass(frozen=True)
class Screened:
    """The bad tests (indices, ascending), and each distance's level. `distance[k]` is test k's distance, None if all are the same."""

    bad: list[int]
    levels: tuple[NoiseLevel, ...]
    distance: list[int] | None
    main: NoiseLevel

    def usual(self, test: int) -> float | None:
        """The usual value for this test."""
        return self.levels[self.distance[test] if self.distance else 0].usual


def screen(matrix: Matrix, tolerance: Tolerance) -> Screened:
    """Which tests are bad. If switches are known, pairs are only compared with pairs of the same distance."""
    distance = _distances(matrix)
    if distance is None:
        tests: list[Sequence[int]] = [range(len(matrix.values))]
    else:
        tests = [[] for _ in range(max(distance) + 1)]
        for test, far in enumerate(distance):
            tests[far].append(test)  # type: ignore[attr-defined]
    levels = _held_to_best(matrix, tolerance, [_level(matrix, tolerance, mine) for mine in tests])
    bad: list[int] = []
    for level, mine in zip(levels, tests, strict=True):
        bad += _bad(matrix, mine, level.line)
    main = max(zip(levels, tests, strict=True), key=lambda pair: len(pair[1]))[0]
    return Screened(sorted(bad), levels, distance, main)


def _bad(matrix: Matrix, tests: Sequence[int], line: float | None) -> list[int]:
    values = matrix.values
    if line is None:
        return [test for test in tests if (value := values[test]) is None or value != value]
    # The test is for "not good" instead of "bad", so that NaN is not good.
    if matrix.better is Better.HIGHER:
        return [test for test in tests if (value := values[test]) is None or not value >= line]
    return [test for test in tests if (value := values[test]) is None or not value <= line]


def _level(matrix: Matrix, tolerance: Tolerance, tests: Sequence[int]) -> NoiseLevel:
    of_cell = _merits(matrix, tests)
    if not of_cell:
        return NoiseLevel(None, 0.0, tolerance.floor, {})
    of_part: dict[int, list[float]] = {}
    for (source, target), merit in of_cell.items():
        of_part.setdefault(source, []).append(merit)
        of_part.setdefault(target, []).append(merit)
    least, log = tolerance.ratio * _reference(of_part), math.log
    good = sorted([merit for merit in of_cell.values() if merit >= least])
    usual = good[len(good) // 2]
    scatter = sorted([abs(log(merit / usual)) for merit in good])
    spread = MAD_TO_SIGMA * scatter[len(scatter) // 2]
    lines = [tolerance.ratio * usual, tolerance.floor]
    if matrix.better is Better.HIGHER:
        return NoiseLevel(usual, spread, max(line for line in lines if line is not None), of_cell)
    lines[0] = 1 / (tolerance.ratio * usual)
    return NoiseLevel(1 / usual, spread, min(line for line in lines if line is not None), of_cell)


def _held_to_best(
    matrix: Matrix, tolerance: Tolerance, levels: Sequence[NoiseLevel]
) -> tuple[NoiseLevel, ...]:
    """The levels with thresholds at which a whole distance is bad if it reaches too little of what the best one reaches."""
    higher = matrix.better is Better.HIGHER
    usual = [level.usual if higher else 1 / level.usual for level in levels if level.usual]
    share = min(FAR, tolerance.ratio) * max(usual, default=0.0)
    if higher:
        stricter, line = max, share
    else:
        stricter, line = min, 1 / share if share else math.inf
    return tuple(
        level if level.line is None else replace(level, line=stricter(level.line, line)) for level in levels
    )


def _merits(matrix: Matrix, tests: Sequence[int]) -> dict[tuple[int, int], float]:
    """One value per cell, the greater the better: bad cells are measured again, which must not make them the usual ones."""
    higher = matrix.better is Better.HIGHER
    of_cell: dict[tuple[int, int], list[float]] = {}
    for test in tests[:: max(1, len(tests) // SAMPLE) | 1]:
        value = matrix.values[test]
        if value is not None and 0 < value < math.inf:
            cell = matrix.sources[test], matrix.targets[test]
            of_cell.setdefault(cell, []).append(value if higher else 1 / value)
    return {
        cell: values[0] if len(values) == 1 else sorted(values)[len(values) // 2]
        for cell, values in of_cell.items()
    }


def _reference(of_part: dict[int, list[float]]) -> float:
    """What a good part reaches with good partners.

    The upper quartile of a part allows three bad partners in four; the median over parts allows half of the parts to be bad. It is
    the upper one of two middle values each time, so that one slow node in three does not set the usual value.
    """
    quartiles = []
    for merits in of_part.values():
        merits.sort()
        quartiles.append(merits[len(merits) * 3 // 4])
    quartiles.sort()
    return quartiles[len(quartiles) // 2]


def _distances(matrix: Matrix) -> list[int] | None:
    """Each test's distance: how many of the source's switches, nearest first, the target does not share."""
    if not any(end.switches for end in matrix.endpoints) or not matrix.values:
        return None
    every = dict.fromkeys(endpoint.switches for endpoint in matrix.endpoints)
    groups = {switches: at for at, switches in enumerate(every)}
    group = [groups[end.switches] for end in matrix.endpoints]
    table = [[_distance(first, other) for other in groups] for first in groups]
    distance = [table[group[a]][group[b]] for a, b in matrix.ends]
    used = sorted(set(distance))
    if len(used) == 1 or not all(_comparable(matrix, distance, far) for far in used):
        return None
    rank = {far: at for at, far in enumerate(used)}
    return [rank[far] for far in distance]


def _distance(source: tuple[str, ...], target: tuple[str, ...]) -> int:
    return next((at for at, switch in enumerate(source) if switch in target), len(source))


def _comparable(matrix: Matrix, distance: list[int], far: int) -> bool:
    """Whether no single node takes part in all tests of this distance, because it would be compared with itself."""
    common: set[str] | None = None
    for test, value in enumerate(distance):
        if value == far:
            ends = {matrix.nodes[matrix.sources[test]], matrix.nodes[matrix.targets[test]]}
            common = ends if common is None else common & ends
            if not common:
                return True
    return False


# Judgement: nodes of one group are good in most of their pairs with each other.
MOST = 0.8
# Judgement: who is bad in so many tests is bad all the time, and would be so towards the other bad ones.
STEADY = 0.6


def most_are_slow(matrix: Matrix, screened: Screened, tolerance: Tolerance) -> bool:
    """Whether a few parts (three or more) reach far more than usual with each other, and no other part does.

    Then the usual value is that of the bad parts. If nearly all parts have such a partner, these are merely near to each other.
    """
    return any(_few_are_fast(matrix, level, tolerance.ratio) for level in screened.levels)


def _few_are_fast(matrix: Matrix, level: NoiseLevel, ratio: float) -> bool:
    if level.usual is None:
        return False
    usual = level.usual if matrix.better is Better.HIGHER else 1 / level.usual
    fast = {cell for cell, merit in level.merits.items() if merit * ratio > usual}
    if not fast:
        return False
    few = {end for cell in fast for end in cell}
    among = sum(a in few and b in few for a, b in level.merits)
    return 3 <= len(few) < len(matrix.endpoints) / 2 and len(fast) >= MOST * among


def steady_parts(suspects: Sequence[Suspect], entity: Entity) -> list[str]:
    """The named parts of this kind that are bad all the time."""
    return [entry.subject for entry in suspects if entry.kind is entity and entry.bad >= STEADY * entry.tests]
