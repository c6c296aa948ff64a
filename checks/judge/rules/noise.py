"""How far a value must be from the others of its group to be more than noise. Pure.

The spread of a group is estimated from its own values, so that a group that varies by 2 % needs a greater difference than one that
varies by 0.2 %. So are its tails (checks.judge.rules.tails). The chance that noise alone names anybody is shared by all values that a
report compares; tests/benchmarks/relative_rules.py counts how well that holds.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from checks.judge.robust_statistics import biweight, median_of, qn, scaled_mad
from checks.judge.rules.tails import (
    NORMAL,
    QUARTILE,
    Tails,
    student_quantile,
    student_share,
    tails_of,
    worse_side_tails,
)

# Below these numbers the values of a group say too little of its spread, and only a gross difference names one. 8: the small-sample
# factors of the MAD are tabled to 9 values (Croux and Rousseeuw, COMPSTAT 1992). 5: a quarter of four nodes is a node.
LEAST_VALUES, LEAST_NODES = 8, 5
# Nobody can tell which one of two nodes is slow.
LEAST_COMPARED = 3
# Fewer values than this say too little to speak of an excess of values beyond a threshold.
SURE_VALUES = 16
# Judgement: a part so far from the others is an outlier where nothing is known of the spread. Gamma noise with a standard deviation of
# 5 % takes one of 8,000 values so far.
GROSS = 0.35
# Qn needs all pairs of values, so it is for small groups. The degrees of freedom are its efficiency times the number of values: 82 %
# of large samples (Rousseeuw and Croux, JASA 1993), and 55 % of 12 values (simulated); 87 % for the biweight of more (Lax, JASA 1985).
MOST_PAIRED = 100
QN_EFFICIENCY, BIWEIGHT_EFFICIENCY = 0.55, 0.85
SMALL_GROUP = 2.5
# The median of fewer values of a node is one of them. The variance of a median of many normal values is pi/2 times that of their mean.
LEAST_ALIKE, MEDIAN_VARIANCE = 4, math.pi / 2
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
# Judgement: noise of this spread takes a value so far in one of 500 such groups. It is reported, and blamed on nobody.
REMARKABLE = 0.002


@dataclass(frozen=True)
class SharedNoise:
    """What several groups whose values vary alike say of the noise of each: its tails, those of its good side, and the ratios to the
    medians of the groups if there are few.
    """

    tails: Tails | None = None
    ratios: Sequence[float] = ()
    good: Tails = NORMAL


NOTHING_SHARED = SharedNoise()


@dataclass(frozen=True)
class Noise:
    """The noise of `values` ratios of a group, as a share of their median.

    `warn` and `fail` are the distances from which a value beyond the WARN or the FAIL threshold is an outlier; 0.0 if the thresholds
    alone decide. If nothing is known of the noise, `is_known` is false, `spread` is 0.0, and only a gross distance is one. `least` is
    the distance that the rule's own `deviations` demand. `spread` is the unit of `tails`, and many outliers hardly widen it; `widest`
    is the less robust estimate of it. `capped`: a value at FAR times the threshold is an outlier whatever the spread. It is false if a
    quarter of all values are so far.
    """

    spread: float = 0.0
    warn: float = 0.0
    fail: float = 0.0
    chance: float = 0.0
    least: float = 0.0
    capped: bool = True
    tails: Tails = NORMAL
    values: int = 0
    good: Tails = NORMAL
    widest: float = 0.0

    @property
    def is_known(self) -> bool:
        """Whether the values of the group, or of others like them, say how much they vary."""
        return self.spread > 0 or self.warn == self.least

    def as_good_side(self) -> Noise:
        """The returned noise has the tails of the good side on the worse side, too, because faults do not change them. What it does
        not explain is reported, though it names nobody.
        """
        return replace(self, spread=self.spread * _unit(self.good) / _unit(self.tails), tails=self.good)

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

        Where the tails are heavy, it is as far as they reach with the chance with which noise may name one of the values, if that is
        farther, and HARDLY at most; that is also where good values are half as far.
        """
        far = max(FAR * distance, GROSS)
        if not self.tails.heavy:
            return far
        reached = student_quantile(self.chance / max(1, self.values), self.tails.freedom)
        reached *= max(self.spread, self.widest)
        return max(far, HARDLY if self.tails.extreme * self.spread >= far / 2 else min(HARDLY, reached))


def noise_of(
    ratios: Sequence[float],
    nodes: int,
    chance: float,
    deviations: float = 0.0,
    *,
    better: int = 1,
    shared: SharedNoise = NOTHING_SHARED,
) -> Noise:
    """The noise of a group of ratios to their median, which are of so many nodes.

    `chance` is the probability with which noise alone may name one of these values. `deviations` is the least distance of an outlier
    in scaled median absolute deviations. `better` is 1 if greater values are better, -1 if smaller ones are, and 0 if neither are.
    What is `shared` counts if its tails are heavier, and gives the spread of a small group, or of one of too few nodes, if it is not
    less than the group's own.
    """
    least = deviations * scaled_mad(ratios) if deviations and ratios else 0.0
    enough = len(ratios) >= LEAST_VALUES and nodes >= LEAST_NODES
    is_small = len(ratios) <= MOST_PAIRED and len(shared.ratios) > len(ratios)
    sample = shared.ratios if is_small or not enough else ratios
    if len(sample) < LEAST_VALUES:
        return Noise(0.0, max(least, GROSS), max(least, GROSS), least=least)
    spread = max(spread_of(sample), spread_of(ratios) if enough else 0.0)
    worse, good = good_side(sample, spread, -better), good_side(sample, spread, better)
    even = tails_of(good).heavier(shared.good)
    tails = even.heavier(shared.tails or worse_side_tails(worse, good, nodes))
    unit = _unit(tails)
    widest = spread * unit
    far = max(least, _distance(ratios, len(sample), widest, chance, tails, better))
    robust = min(widest, scaled_mad(sample) * unit) if len(sample) > MOST_PAIRED else widest
    noise = Noise(robust, far, far, chance * len(ratios), least, tails=tails, values=len(ratios))
    return replace(noise, good=even, widest=widest)


def _unit(tails: Tails) -> float:
    """The unit of a distribution with these tails whose quartiles are those of a normal one with a standard deviation of 1."""
    return QUARTILE / student_quantile(0.25, tails.freedom)


def _distance(
    ratios: Sequence[float], count: int, unit: float, chance: float, tails: Tails, better: int
) -> float:
    """From which distance on a value is an outlier, if the noise has these tails in this unit, which so many values say.

    If k values are outliers, each may be k times as probable as if it were alone (Benjamini and Hochberg, JRSS B 57, 1995): in a
    group without outliers noise names one with the chance that was asked for, and the share of false names among names is as small.
    """
    if unit <= 0:
        return 0.0
    efficiency = QN_EFFICIENCY if count <= MOST_PAIRED else BIWEIGHT_EFFICIENCY
    freedom = 1.0 / (1.0 / (efficiency * count) + 1.0 / tails.freedom)
    most = max(1, int(MOST_OUTLIERS * len(ratios)))
    nearest, limit = student_quantile(chance * most, freedom), student_quantile(chance, freedom)
    distances = ((better * (1.0 - ratio) if better else abs(ratio - 1.0)) / unit for ratio in ratios)
    far = sorted((distance for distance in distances if distance >= nearest), reverse=True)
    for index, distance in enumerate(far[:most], 1):
        if distance >= (stepped := student_quantile(chance * index, freedom)):
            limit = stepped
    return unit * max(limit, BEYOND * tails.extreme if tails.heavy else 0.0)


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


def within_nodes(groups: Iterable[Sequence[float]], values: int = 1) -> list[float]:
    """The values of each node as shares of their median, for the noise of medians of so many values where few nodes are compared.

    Judgement: what the values of a node have in common varies no more than they do among themselves.
    """
    wider = math.sqrt(1.0 + (MEDIAN_VARIANCE / values if values > 1 else 1.0))
    ratios: list[float] = []
    for group in groups:
        middle = median_of(group) if len(group) >= LEAST_ALIKE else 0.0
        if middle > 0:
            ratios += of_small_group([1.0 + (value / middle - 1.0) * wider for value in group], len(group))
    return ratios


def of_small_group(ratios: Sequence[float], size: int) -> list[float]:
    """Ratios to the median of a group of this size as those to a known median, for the noise of many such groups together.

    The median of a few values is one of them, or between two: the middle ones seem nearer to it than they are. Simulated for groups of
    4, 6, 8 and 16 normal values: the distance that is exceeded once in 100,000 is 1.52, 1.36, 1.25 and 1.11 times what their pooled
    MAD says (1.50 for 5).
    """
    factor = 1.0 + SMALL_GROUP / max(size, 1)
    return [1.0 + (ratio - 1.0) * factor for ratio in ratios]
