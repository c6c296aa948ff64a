"""Which tests belong to a sweep of all pairs, and which cells are bad in each test. Pure.

Tests that belong to no sweep were chosen because a cell was bad, and a bad one says nothing new about a part.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from checks.culprit.matrix import Matrix

# Judgement: if so many of all cells were measured a second time, they were not chosen for being bad. A node that stopped answering
# takes a quarter of eight nodes' cells with it; and if more cells than these are bad, the fabric is.
NEARLY_ALL = 0.7
# A cell that was bad in each of so many tests is slow for good. At a rate of one half this happens to one bad cell in eight.
ALWAYS = 4


def swept_tests(matrix: Matrix) -> list[bool]:
    """Whether each test belongs to a sweep: the first test of its cell does, and the n-th if nearly all cells have so many tests."""
    if len(matrix.cells) == len(matrix.values):
        return [True] * len(matrix.values)
    times, places = dict[tuple[int, int], int](), list[int]()
    for cell in matrix.ends:
        index = times.get(cell, 0)
        places.append(index)
        times[cell] = index + 1
    of_place = Counter(places)
    sweeps = 1
    while of_place[sweeps] >= NEARLY_ALL * len(times) > 0:
        sweeps += 1
    return [index < sweeps for index in places]


def always_bad(matrix: Matrix, wrong: Collection[int]) -> set[tuple[int, int]]:
    """The cells that were bad in each of several tests, or in each of two if all cells have so many. They do not tell one time from
    another.
    """
    tests = matrix.cells
    least = 2 if len(matrix.values) >= (1 + NEARLY_ALL) * len(tests) else ALWAYS
    spoiled = Counter(matrix.ends[test] for test in wrong)
    return {cell for cell, some in spoiled.items() if least <= some == tests[cell]}
