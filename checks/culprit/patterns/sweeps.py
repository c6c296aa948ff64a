"""Whether tests were bad at some times and not at others, or as often each time. Pure."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence

from checks.culprit.matrix import Matrix, tallied

# By chance a number exceeds its expectation by so many standard deviations once in a thousand times.
CHANCE = 3.1


def varies_between_sweeps(matrix: Matrix, wrong: Collection[int]) -> bool:
    """Whether the same pairs were bad much more often in one sweep than in another: other traffic comes and goes, and what is broken
    in the fabric spoils as many of their tests each time. False if there was one sweep alone.
    """
    if not matrix.rounds:
        return False
    bad, groups = set(wrong), dict[int, list[list[int]]]()
    first = {cell: matrix.rounds[tests[0]] for cell, tests in matrix.cells.items()}
    swept = (test for test, is_swept in enumerate(matrix.swept) if is_swept)
    counts = tallied(((first[matrix.ends[test]], matrix.rounds[test]), test in bad) for test in swept)
    for (begun, _), count in counts.items():
        groups.setdefault(begun, []).append(count)
    return is_uneven([group for group in groups.values() if len(group) > 1])


def is_uneven(groups: Iterable[Collection[Sequence[int]]]) -> bool:
    """Whether (bad, all) tests differ within these groups more than chance explains; each group has a rate of its own."""
    uneven, freedom = 0.0, 0
    for group in groups:
        bad, tests = (sum(column) for column in zip(*group, strict=True))
        rate = bad / tests
        if 0 < rate < 1:
            uneven += sum((some - rate * every) ** 2 / (rate * (1 - rate) * every) for some, every in group)
            freedom += len(group) - 1
    return freedom > 0 and uneven > freedom + CHANCE * math.sqrt(2 * freedom)
