"""Clusters that fall in two: what looks like good and bad nodes, and is not (pure)."""

from __future__ import annotations

from collections.abc import Sequence

from checks.culprit.matrix import Kind, Matrix, Suspect, Tolerance
from checks.culprit.noise import Screened

# Judgement: nodes that belong together do so in most of their pairs.
MOST = 0.8
# Judgement: who is bad in so many tests is bad all the time, and would be so towards the other bad ones.
STEADY = 0.6


def most_are_slow(matrix: Matrix, screened: Screened, tolerance: Tolerance) -> bool:
    """Whether a few parts (three or more) reach far more than is usual among each other, and nobody else does.

    Then what is usual is what the bad ones reach. Where nearly all have some such partner, those are merely near.
    """
    if screened.distance is not None or screened.main.usual is None:
        return False
    of_cell = screened.main.merits
    usual = screened.main.usual if matrix.better.value == "higher" else 1 / screened.main.usual
    fast = {cell for cell, merit in of_cell.items() if merit * tolerance.ratio > usual}
    if not fast:
        return False
    few = {part for cell in fast for part in cell}
    among = sum(a in few and b in few for a, b in of_cell)
    return 3 <= len(few) < len(matrix.parts) / 2 and len(fast) >= MOST * among


def stand_together(matrix: Matrix, named: Sequence[Suspect], bad: Sequence[int]) -> bool:
    """Whether nodes (of one node: ranks) that are bad towards all others are good among each other: a cut in two."""
    parts = matrix.parts
    alone = len({part.node for part in parts}) == 1  # of one node it is its ranks
    kind = Kind.RANK if alone else Kind.NODE
    names = {one.subject for one in named if one.kind is kind and one.bad >= STEADY * one.tests}
    if len(names) < 2:
        return False
    mine = {at for at, part in enumerate(parts) if (part.name if alone else part.node) in names}
    ends = zip(matrix.sources, matrix.targets, strict=True)
    both = [
        test
        for test, (a, b) in enumerate(ends)
        if a in mine and b in mine and (alone or _apart(matrix, a, b))
    ]
    return len(both) >= 2 and len(set(bad) & set(both)) <= (1 - MOST) * len(both)


def _apart(matrix: Matrix, one: int, other: int) -> bool:
    return matrix.parts[one].node != matrix.parts[other].node
