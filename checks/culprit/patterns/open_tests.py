"""What is measured again because of patterns: bad tests that have passed or have not, and whole sweeps of small clusters. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from checks.culprit.matrix import Matrix, MatrixAnswer, Span, Suspect
from checks.culprit.noise import Screened
from checks.culprit.patterns.paths import worst_parts
from checks.culprit.patterns.times import PartTime
from checks.culprit.rounds import is_small

# Judgement: a small cluster is swept again if more than this share of its tests are bad and belong to no suspect.
OPEN = 0.05
# With so many bad cells, and this share of all, of which none was measured again, no culprit can be told from any other.
MANY_CELLS, CROWD = 256, 0.03


def is_crowded(matrix: Matrix, screened: Screened) -> bool:
    """Whether so many cells are bad, none of which was measured again, that the search for culprits has to wait for that.

    Cells of parts that are bad towards half of their partners do not count: these are found at once.
    """
    if len(screened.bad) < MANY_CELLS or len(screened.bad) < CROWD * len(matrix.values):
        return False
    cells = {matrix.ends[test] for test in screened.bad}
    if any(matrix.ends[test] in cells for test, is_first in enumerate(matrix.swept) if not is_first):
        return False
    worst = worst_parts(matrix, set(screened.bad))
    free = sum(not worst.intersection(cell) for cell in cells)
    return free >= max(MANY_CELLS, CROWD * len(matrix.values))


def is_open(matrix: Matrix, screened: Screened, answer: MatrixAnswer, suspects: Sequence[Suspect]) -> bool:
    """Whether many tests are bad that belong to no suspect."""
    if answer is MatrixAnswer.NOBODY:
        return False
    culprits = suspects if answer is MatrixAnswer.BLAMED else ()
    blamed = {node for suspect in culprits for node in suspect.nodes}
    ends = (matrix.ends[test] for test in screened.bad)
    left = sum(matrix.nodes[a] not in blamed and matrix.nodes[b] not in blamed for a, b in ends)
    return left > OPEN * len(matrix.values)


def sweep_again(matrix: Matrix) -> tuple[tuple[int, int], ...]:
    """All cells of a small cluster: to sweep it again takes a few seconds, and what lasted for most of the sweep has ended then,
    or has not.
    """
    small = matrix.span is Span.BETWEEN and matrix.rounds and is_small(len(set(matrix.nodes)))
    return tuple(matrix.ends) if small else ()


def of_short_periods(
    matrix: Matrix, screened: Screened, part_time: Sequence[PartTime], tests: Collection[int]
) -> list[int]:
    """The bad tests of nodes that were bad for one period alone, of cells that were not good yet: it is looked whether that
    returns.
    """
    if not any(entry.is_short for entry in part_time):
        return []
    cells, bad = matrix.ends, set(screened.bad)
    good = {cell for test, cell in enumerate(cells) if not matrix.swept[test] and test not in bad}
    return [test for test in sorted(tests) if cells[test] not in good]
