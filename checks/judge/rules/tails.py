"""How heavy the tails of a group's noise are. Pure.

Far values are much more frequent in some noise than in normal noise of the same spread: of 300 values of Student's t with three
degrees of freedom, one is ten spreads away. The group's own values say how it is: those on the good side of the median (faster, for a
rate) are no faults, so a fault of one part never makes another fault unremarkable. Whom a finding names also depends on the
worse side, since noise that only slows has a longer tail there; what is reported without a name does not.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist

# Degrees of freedom that are tried, lighter tails first. Some thousand values do not tell more than 30 from normal noise.
FREEDOMS = (math.inf, 30.0, 20.0, 14.0, 10.0, 7.0, 5.0, 4.0, 3.0, 2.0)
# The spread of the good side may differ from that of all values by chance and by skewness.
SCALES = tuple(0.8 + 0.05 * step for step in range(9))
# Fewer values on the good side say nothing of tails, and fewer on either side do not show that the worse one has light tails.
LEAST_GOOD, LEAST_SURE = 40, 130
# By how much heavier tails must be more probable than lighter ones (logarithm of the ratio of likelihoods). Normal noise then seems to
# have heavy tails in two or three of a hundred groups (simulated for 150, 900 and 1,200 values).
EVIDENT = 2.5
# Noise that only slows is skewed to the slow side, of which the good side says nothing. Without the farthest values of each, the mean
# distance of the worse side is then exp(0.37) times that of the good one or more (simulated: half-normal 0.37, gamma of shape 2 0.43).
# For values that are not skewed the standard deviation of that logarithm is SKEW_SPREAD / sqrt(values).
SKEWED, SKEW_SPREAD = 0.37, 1.5
# Judgement: the degrees of freedom of a worse side that may be skewed, and of one that rather is than not. One of a million values of
# gamma noise of shape 2 is as far as with 8.
MAYBE_SKEWED, RATHER_SKEWED = 10.0, 8.0
# The power of the number of values with which medians of skewed noise lose their skewness.
SLOWLY = 0.3
# So many of the values on the worse side, or as many as two nodes have, may be faults: they say nothing of its noise.
DOUBTED = 0.15
BINS = 10  # per spread
QUARTILE = NormalDist().inv_cdf(0.75)


def student_quantile(chance: float, freedom: float) -> float:
    """How many deviations Student's t with so many degrees of freedom exceeds with this probability (0 < chance <= 0.5).

    Gaver and Kafadar's approximation (The American Statistician 38, 1984): 2 % too great for 0.0005 and 5 degrees of freedom, 0.5 %
    too great for 0.0001 and 10.
    """
    normal = -NormalDist().inv_cdf(min(max(chance, 1e-300), 0.5))
    if math.isinf(freedom):
        return normal
    return math.sqrt(freedom * math.expm1(min(normal * normal * _bend(freedom), 700.0)))


def student_share(distance: float, freedom: float) -> float:
    """With which probability Student's t exceeds this many deviations (at least 0): the same approximation the other way round."""
    if math.isinf(freedom):
        return NormalDist().cdf(-distance)
    return NormalDist().cdf(-math.sqrt(math.log1p(distance * distance / freedom) / _bend(freedom)))


def _bend(freedom: float) -> float:
    return (freedom - 5 / 6) / (freedom - 2 / 3 + 0.1 / freedom) ** 2


@dataclass(frozen=True)
class Tails:
    """Noise is like Student's t with so many degrees of freedom, infinite if it is normal.

    `extreme` is how far, in spreads, the second of the values on the good side is: a single freak value excuses nothing.
    """

    freedom: float = math.inf
    extreme: float = 0.0

    @property
    def heavy(self) -> bool:
        """Whether far values are more frequent than in normal noise."""
        return not math.isinf(self.freedom)

    def heavier(self, other: Tails) -> Tails:
        """The result has the smaller freedom and the greater extreme of the two, which allow more far values."""
        return Tails(min(self.freedom, other.freedom), max(self.extreme, other.extreme))

    def of_medians(self, many: int) -> Tails:
        """The tails of medians of so many independent values.

        Simulated for medians of 3 to 16 values with 3 to 7 degrees of freedom: (many + 1) / 2 times as many degrees hold however far
        out, and `many` times as many name one of 30,000 medians. The second is used, because the first would excuse slow nodes.
        """
        return Tails(self.freedom * many)

    def of_skewed_medians(self, many: int) -> Tails:
        """The tails of medians of so many values on the worse side.

        Medians lose skewness slowly: one in a million of gamma noise of shape 2 is as far as with 8 degrees of freedom, of medians of
        6, 20 and 40 values as with 12, 19 and 26 (computed from the order statistic). Where few values do not show whether the noise
        is skewed at all, medians are taken for less skewed than that.
        """
        return Tails(self.freedom * (many**SLOWLY if self.freedom <= RATHER_SKEWED else (many + 1) / 2))


NORMAL = Tails()


@dataclass(frozen=True)
class PooledTails:
    """The tails that all values of a report show together: on the good side, on the worse side, and on the good side of subjects'
    medians.
    """

    good: Tails = NORMAL
    worse: Tails = NORMAL
    medians: Tails = NORMAL


def tails_of(distances: Sequence[float], *, likely: bool = False) -> Tails:
    """The lightest tails that these distances on the good side of a median allow; with `likely` the most likely ones, if not normal.

    Distances are in robust spreads of their group, and none is negative. With few of them, or none that says otherwise, noise is
    normal. The farthest counts like the one after it.
    """
    if len(distances) < LEAST_GOOD:
        return NORMAL
    *_, second, farthest = sorted(distances)
    counts = Counter(round(distance * BINS) for distance in distances)
    counts[round(farthest * BINS)] -= 1
    counts[round(second * BINS)] += 1
    likelihoods = {freedom: _likelihood(counts, freedom) for freedom in FREEDOMS}
    enough = max(likelihoods.values()) - EVIDENT
    lightest = next(freedom for freedom, likelihood in likelihoods.items() if likelihood >= enough)
    if likely and not math.isinf(lightest):
        return Tails(max(likelihoods, key=likelihoods.__getitem__), second)
    return Tails(lightest, second)


def worse_side_tails(worse: Sequence[float], good: Sequence[float], nodes: int) -> Tails:
    """The tails of the worse side of a median, from how far the values of both sides are from it, of so many nodes.

    They are normal only if there are enough values and both sides are alike. Faults of one part hardly change that.
    """
    doubted = math.ceil(len(worse) * max(DOUBTED, 2.0 / max(nodes, 1)))
    sides = [sorted(side)[: max(0, len(side) - doubted)] for side in (worse, good)]
    values = min(map(len, sides))
    if values < LEAST_GOOD or not math.fsum(sides[1]):
        return Tails(MAYBE_SKEWED)
    means = [math.fsum(side) / len(side) for side in sides]
    skew = math.log(max(means[0], 1e-300) / means[1])
    if skew > SKEWED / 2:
        return Tails(RATHER_SKEWED)
    is_normal = values >= LEAST_SURE and skew <= SKEWED - 2.0 * SKEW_SPREAD / math.sqrt(values)
    return NORMAL if is_normal else Tails(MAYBE_SKEWED)


def _likelihood(counts: Counter[int], freedom: float) -> float:
    """The logarithm of the greatest likelihood for any of the scales, up to a constant."""
    usual = QUARTILE / student_quantile(0.25, freedom)
    total = sum(counts.values())
    best = -math.inf
    for scale in SCALES:
        unit = 1.0 / (BINS * scale * usual)
        likelihood = total * math.log(unit)
        likelihood += math.fsum(count * _density(bin_ * unit, freedom) for bin_, count in counts.items())
        best = max(best, likelihood)
    return best


def _density(distance: float, freedom: float) -> float:
    """The logarithm of the density."""
    if math.isinf(freedom):
        return -0.5 * distance * distance - 0.5 * math.log(2 * math.pi)
    return _constant(freedom) - (freedom + 1) / 2 * math.log1p(distance * distance / freedom)


@lru_cache(maxsize=64)
def _constant(freedom: float) -> float:
    return math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2) - 0.5 * math.log(freedom * math.pi)
