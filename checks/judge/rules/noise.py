"""How far a value must be from the others of its group to be more than noise. Pure.

The spread of a group is estimated from its own values, so that a group that varies by 2 % needs a greater difference than one that
varies by 0.2 %. So are its tails (checks.judge.rules.tails). The chance that noise alone names anybody is shared by all values that a
report compares; tests/benchmarks/relative_rules.py counts how well that holds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from checks.judge.robust_statistics import biweight, qn, scaled_mad
from checks.judge.rules.tails import NORMAL, QUARTILE, Tails, student_quantile, student_share, tails_of

# Below these numbers the spread of a group says too little, and the thresholds of the rule alone decide. 8: the small-sample factors
# of the MAD are tabled to 9 values (Croux and Rousseeuw, COMPSTAT 1992). 5: a quarter of four nodes is a node.
LEAST_VALUES, LEAST_NODES = 8, 5
# Judgement: with fewer values a difference beyond the FAIL threshold is a finding whatever the spread, since Student's quantile would
# excuse a part that is a quarter slower.
SURE_VALUES = 16
# Qn needs all pairs of values, so it is for small groups. The degrees of freedom are its efficiency times the number of values: 82 %
# of large samples (Rousseeuw and Croux, JASA 1993), and 55 % of 12 values (simulated); 87 % for the biweight of more (Lax, JASA 1985).
MOST_PAIRED = 100
QN_EFFICIENCY, BIWEIGHT_EFFICIENCY = 0.55, 0.85
SMALL_GROUP = 2.5
# As in checks.judge.baseline.learn: a larger share are not outliers but a second kind of machine.
MOST_OUTLIERS = 0.25
# Judgement: noise with heavy tails reaches three times the expected number of values beyond a threshold, and a twentieth of all values
# beyond a FAIL threshold is no tail.
TAILS, MANY = 3.0, 0.05
# Judgement: a value that is twice as far from the median as the threshold is an outlier whatever the spread. Otherwise the spread of a
# few values, or of two kinds of machines, excuses a part that hardly works.
FAR = 2.0
# Judgement: where the group's own tails explain values so far, a part with a tenth of the usual rate is named all the same. A nearer
# one is a candidate: a finding that names nobody lists it, and a FAIL stays a FAIL.
HARDLY = 0.9
# Judgement: among heavy tails an outlier is half as far again as the good side reaches, since not all noise is like Student's t.
BEYOND = 1.5
# Judgement: normal noise of this spread takes a value so far in one of a thousand such groups. It is said, and blamed on nobody.
DOUBTFUL = 0.001


@dataclass(frozen=True)
class Noise:
    """The noise of `values` ratios of a group, as a share of their median.

    `warn` and `fail` are the distances from which a value beyond the WARN or the FAIL threshold is an outlier; 0.0 if the thresholds
    alone decide. `least` is the distance that the rule's own `deviations` demand. `spread` is the unit of `tails`, and many outliers
    hardly widen it. `capped`: a value at FAR times the threshold is an outlier whatever the spread. It is false if a quarter of all
    values are so far.
    """

    spread: float = 0.0
    warn: float = 0.0
    fail: float = 0.0
    chance: float = 0.0
    least: float = 0.0
    capped: bool = True
    tails: Tails = NORMAL
    values: int = 0

    def expected(self, values: int, distance: float) -> float:
        """How many of so many values noise alone takes at least so far to one side."""
        return values * student_share(distance / self.spread, self.tails.freedom) if self.spread > 0 else 0.0

    def is_excess(self, beyond: int, values: int, distance: float) -> bool:
        """Whether more values are beyond a threshold at that distance than noise explains (Chernoff's bound of Poisson's tail)."""
        usual = self.expected(values, distance)
        if self.spread <= 0 or values < SURE_VALUES or beyond <= TAILS * usual:
            return False
        if usual <= 0:
            return True
        return beyond - usual - beyond * math.log(beyond / usual) < math.log(max(self.chance, 1e-300))

    def limit(self, distance: float) -> float:
        """From which distance a value is an outlier whatever the spread, if the threshold is at this one.

        It is farther if the tails are heavy, and reach it or are half as far on the good side.
        """
        far = FAR * distance
        reached = self.expected(self.values, far) >= DOUBTFUL or self.tails.extreme * self.spread >= far / 2
        return max(far, HARDLY) if self.tails.heavy and reached else far


def noise_of(
    ratios: Sequence[float],
    nodes: int,
    chance: float,
    deviations: float = 0.0,
    *,
    better: int = 1,
    known: Tails = NORMAL,
) -> Noise:
    """The noise of a group of ratios to their median, which are of so many nodes.

    `chance` is the probability with which noise alone may name one of these values. `deviations` is the least distance of an outlier
    in scaled median absolute deviations. `better` is 1 if greater values are better, -1 if smaller ones are, and 0 if neither are.
    `known` is what other values say of the tails; the heavier ones count.
    """
    least = deviations * scaled_mad(ratios) if deviations and ratios else 0.0
    if len(ratios) < LEAST_VALUES or nodes < LEAST_NODES:
        return Noise(0.0, least, least, least=least)
    spread = spread_of(ratios)
    tails = known.heavier(tails_of(good_side(ratios, spread, better)))
    unit = QUARTILE / student_quantile(0.25, tails.freedom)
    far = max(least, _distance(ratios, spread * unit, chance, tails, better))
    if len(ratios) > MOST_PAIRED:
        spread = min(spread, scaled_mad(ratios))
    fail = far if len(ratios) >= SURE_VALUES else least
    return Noise(spread * unit, far, fail, chance * len(ratios), least, tails=tails, values=len(ratios))


def _distance(ratios: Sequence[float], unit: float, chance: float, tails: Tails, better: int) -> float:
    """From which distance on a value is an outlier, if the noise has these tails in this unit.

    If k values are outliers, each may be k times as probable as if it were alone (Benjamini and Hochberg, JRSS B 57, 1995): in a
    group without outliers noise names one with the chance that was asked for, and the share of false names among names is as small.
    """
    if unit <= 0:
        return 0.0
    efficiency = QN_EFFICIENCY if len(ratios) <= MOST_PAIRED else BIWEIGHT_EFFICIENCY
    freedom = 1.0 / (1.0 / (efficiency * len(ratios)) + 1.0 / tails.freedom)
    most = max(1, int(MOST_OUTLIERS * len(ratios)))
    nearest, found = student_quantile(chance * most, freedom), student_quantile(chance, freedom)
    distances = ((better * (1.0 - ratio) if better else abs(ratio - 1.0)) / unit for ratio in ratios)
    far = sorted((distance for distance in distances if distance >= nearest), reverse=True)
    for place, distance in enumerate(far[:most], 1):
        if distance >= (stepped := student_quantile(chance * place, freedom)):
            found = stepped
    return unit * max(found, BEYOND * tails.extreme if tails.heavy else 0.0)


def spread_of(ratios: Sequence[float]) -> float:
    """The standard deviation of the noise, as precise as the number of values allows. Many outliers widen it somewhat."""
    return qn(ratios) if len(ratios) <= MOST_PAIRED else biweight(ratios)


def good_side(ratios: Sequence[float], spread: float, better: int) -> list[float]:
    """How far the ratios on the better side of their median are from it, in spreads. Of neither side is better: the one with fewer
    values that are three spreads away.
    """
    if spread <= 0:
        return []
    above = [(ratio - 1.0) / spread for ratio in ratios if ratio > 1.0]
    below = [(1.0 - ratio) / spread for ratio in ratios if ratio < 1.0]
    if not better:
        better = -1 if sum(d > 3.0 for d in below) < sum(d > 3.0 for d in above) else 1
    return above if better > 0 else below


def of_small_group(ratios: Sequence[float], size: int) -> list[float]:
    """Ratios to the median of a group of this size as those to a known median, for the noise of many such groups together.

    The median of a few values is one of them, or between two: the middle ones seem nearer to it than they are. Simulated for groups of
    4, 6, 8 and 16 normal values: the distance that is exceeded once in 100,000 is 1.52, 1.36, 1.25 and 1.11 times what their pooled
    MAD says (1.50 for 5).
    """
    factor = 1.0 + SMALL_GROUP / max(size, 1)
    return [1.0 + (ratio - 1.0) * factor for ratio in ratios]
