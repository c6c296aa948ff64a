"""The statistics of the rule for trends that Prelaunch had before, with which the simulator compares the present one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate, combinations
from statistics import NormalDist

from checks.judge.robust_statistics import median_of

# Up to this many values the exact distribution is computed.
EXACT = 40


def theil_sen(times: Sequence[float], values: Sequence[float]) -> float:
    """The median of all slopes between two points (Theil 1950, Sen 1968). Up to a third of the points may be outliers.

    The result is 0.0 if no two points differ in time.
    """
    points = list(zip(times, values, strict=True))
    slopes = [(w - v) / (t - s) for (s, v), (t, w) in combinations(points, 2) if t != s]
    return median_of(slopes) if slopes else 0.0


def mann_kendall(values: Sequence[float]) -> tuple[int, float]:
    """(S, p): the number of rising pairs minus the number of falling ones, and the probability of an S at least as far to that side
    without any trend.

    p is exact for up to 40 values that all differ; otherwise it is the normal approximation with the correction for ties (Mann 1945,
    Kendall 1975).
    """
    many = len(values)
    signs = [(later > earlier) - (later < earlier) for earlier, later in combinations(values, 2)]
    score = sum(signs)
    if many < 2 or score == 0:
        return score, 1.0
    if many <= EXACT and 0 not in signs:
        against = (len(signs) - abs(score)) // 2
        ways = _inversions(many)
        return score, sum(ways[: against + 1]) / sum(ways)
    ties = sum(t * (t - 1) * (2 * t + 5) for t in Counter(values).values())
    variance = (many * (many - 1) * (2 * many + 5) - ties) / 18
    return score, 1.0 - NormalDist().cdf((abs(score) - 1) / variance**0.5) if variance > 0 else 1.0


@lru_cache(maxsize=EXACT)
def _inversions(many: int) -> tuple[int, ...]:
    """How many orders of `many` different values have 0, 1, 2 ... falling pairs."""
    ways = [1]
    for size in range(2, many + 1):
        sums = list(accumulate(ways, initial=0))
        pairs = size * (size - 1) // 2
        ways = [sums[min(k, len(ways) - 1) + 1] - sums[max(0, k - size + 1)] for k in range(pairs + 1)]
    return tuple(ways)
