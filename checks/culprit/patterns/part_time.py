"""The suspect that is made of a node that is bad for some of the time. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence

from checks.culprit.matrix import Direction, Kind, Matrix, Suspect
from checks.culprit.noise import Screened
from checks.culprit.patterns.periods import PartTime
from checks.culprit.search import MOST_CELLS


def part_time_suspect(
    matrix: Matrix, screened: Screened, node_of: Sequence[int], first: Sequence[bool], one: PartTime
) -> Suspect:
    """The suspect for a node that was bad for some of the time."""
    bad = set(screened.bad)
    ends = [(node_of[a], node_of[b]) for a, b in zip(matrix.sources, matrix.targets, strict=True)]
    tests = [test for test, pair in enumerate(ends) if one.node in pair]
    mine = [test for test in tests if test in bad]
    out = sum(ends[test][0] == one.node for test in mine)
    way = Direction.BOTH if 0 < out < len(mine) else Direction.OUT if out else Direction.IN
    if way is not Direction.BOTH:
        tests = [test for test in tests if (ends[test][0] == one.node) is (way is Direction.OUT)]
    ratios = [
        v / u for test in mine if (v := matrix.values[test]) is not None and (u := screened.usual(test))
    ]
    name = matrix.parts[node_of.index(one.node)].node
    probability = 1 / (1 + math.exp(-min(700.0, one.odds)))
    ratio = sorted(ratios)[len(ratios) // 2] if ratios else None
    cells = {(matrix.sources[test], matrix.targets[test]) for test in mine}
    again = [
        test for test in tests if not first[test] and (matrix.sources[test], matrix.targets[test]) in cells
    ]
    measured = {(matrix.sources[test], matrix.targets[test]) for test in again}
    passed = one.is_short and measured == cells and not bad.intersection(again)
    return Suspect(
        Kind.NODE, name, (name,), way, probability, len(mine), len(tests), ratio, tuple(mine[:MOST_CELLS]), passed=passed
    )  # fmt: skip
