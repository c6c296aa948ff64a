"""How far a value must be from the others of its group to be more than noise. Pure.

The spread of a group is estimated from its own values, so that a group that varies by 2 % needs a greater difference than one that
varies by 0.2 %. The chance that noise alone names anybody is shared by all values that a report compares. The noise is taken for
normal; tests/benchmarks/relative_rules.py counts what other noise does.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

from checks.judge.robust_statistics import qn, scaled_mad

# Below these numbers the spread of a group says too little, and the thresholds of the rule alone decide. 8: the small-sample factors
# of the MAD are tabled to 9 values (Croux and Rousseeuw, COMPSTAT 1992). 5: a quarter of four nodes is a node.
LEAST_VALUES, LEAST_NODES = 8, 5
# Judgement: with fewer values a difference beyond the FAIL threshold is a finding whatever the spread, since Student's quantile would
# excuse a part that is a quarter slower.
SURE_VALUES = 16
# Qn needs all pairs of values, so it is for small groups. The degrees of freedom are its efficiency times the number of values: 82 %
# of large samples, 37 % for the MAD (Rousseeuw and Croux, JASA 1993), and 55 % of 12 values (simulated).
MOST_PAIRED = 100
QN_EFFICIENCY, MAD_EFFICIENCY = 0.55, 0.36
SMALL_GROUP = 2.5
# As in checks.judge.baseline.learn: a larger share are not outliers but a second kind of machine.
MOST_OUTLIERS = 0.25
# Judgement: noise with heavy tails reaches three times the expected number of values beyond a threshold, and a twentieth of all values
# beyond a FAIL threshold is no tail.
TAILS, MANY = 3.0, 0.05
# Judgement: a value that is twice as far from the median as the threshold is an outlier whatever the spread. Otherwise the spread of a
# few values, or of two kinds of machines, excuses a part that hardly works.
FAR = 2.0
# Judgement: normal noise of this spread takes a value so far in one of a thousand such groups. It is said, and blamed on nobody.
DOUBTFUL = 0.001


@dataclass(frozen=True)
class Noise:
    """The noise of a group, as a share of its median. `warn` and `fail` are the distances from which a value beyond the WARN or the
    FAIL threshold is an outlier; 0.0 if the thresholds alone decide. `least` is the distance that the rule's own `deviations` demand;
    `capped`: a value at FAR times the threshold is an outlier whatever the spread, which is not so where a quarter of all are so far.
    """

    spread: float = 0.0
    warn: float = 0.0
    fail: float = 0.0
    chance: float = 0.0
    least: float = 0.0
    capped: bool = True

    def expected(self, values: int, distance: float) -> float:
        """How many of so many values noise alone takes at least so far to one side."""
        return values * NormalDist().cdf(-distance / self.spread) if self.spread > 0 else 0.0

    def is_excess(self, beyond: int, values: int, distance: float) -> bool:
        """Whether more values are beyond a threshold at that distance than noise explains (Chernoff's bound of Poisson's tail)."""
        usual = self.expected(values, distance)
        if self.spread <= 0 or values < SURE_VALUES or beyond <= TAILS * usual:
            return False
        if usual <= 0:
            return True
        return beyond - usual - beyond * math.log(beyond / usual) < math.log(max(self.chance, 1e-300))


def noise_of(ratios: Sequence[float], nodes: int, chance: float, deviations: float = 0.0) -> Noise:
    """The noise of a group of ratios to their median, which are of so many nodes.

    `chance` is the probability with which noise alone may name one of these values. `deviations` is the least distance of an outlier
    in scaled median absolute deviations.
    """
    least = deviations * scaled_mad(ratios) if deviations and ratios else 0.0
    if len(ratios) < LEAST_VALUES or nodes < LEAST_NODES:
        return Noise(0.0, least, least, least=least)
    spread, freedom = _spread(ratios)
    far = max(least, spread * student_quantile(chance, freedom))
    return Noise(spread, far, far if len(ratios) >= SURE_VALUES else least, chance * len(ratios), least)


def of_small_group(ratios: Sequence[float], size: int) -> list[float]:
    """Ratios to the median of a group of this size as those to a known median, for the noise of many such groups together.

    The median of a few values is one of them, or between two: the middle ones seem nearer to it than they are. Simulated for groups of
    4, 6, 8 and 16 normal values: the distance that is exceeded once in 100,000 is 1.52, 1.36, 1.25 and 1.11 times what their pooled
    MAD says (1.50 for 5).
    """
    factor = 1.0 + SMALL_GROUP / max(size, 1)
    return [1.0 + (ratio - 1.0) * factor for ratio in ratios]


def student_quantile(chance: float, freedom: float) -> float:
    """How many deviations Student's t with so many degrees of freedom exceeds with this probability (0 < chance <= 0.5).

    Gaver and Kafadar's approximation (The American Statistician 38, 1984): 2 % too great for 0.0005 and 5 degrees of freedom, 0.5 %
    too great for 0.0001 and 10.
    """
    normal = -NormalDist().inv_cdf(min(max(chance, 1e-300), 0.5))
    scale = (freedom - 5 / 6) / (freedom - 2 / 3 + 0.1 / freedom) ** 2
    return math.sqrt(freedom * math.expm1(min(normal * normal * scale, 700.0)))


def _spread(ratios: Sequence[float]) -> tuple[float, float]:
    """The standard deviation of the noise, and its degrees of freedom."""
    many = len(ratios)
    if many <= MOST_PAIRED:
        return qn(ratios), QN_EFFICIENCY * many
    return scaled_mad(ratios) * many / (many - 0.8), MAD_EFFICIENCY * many
