"""Robust statistics of small samples (pure)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations
from statistics import median

# The median absolute deviation of a normal distribution is 0.6745 of its standard deviation.
MAD_SCALE = 1.4826


def median_of(values: Sequence[float]) -> float:
    """The median. Raises ValueError if there are no values."""
    if not values:
        raise ValueError("the median of nothing")
    return float(median(values))


def scaled_mad(values: Sequence[float]) -> float:
    """The median absolute deviation in units of a standard deviation; 0 if more than half of the values are equal."""
    middle = median_of(values)
    return MAD_SCALE * median_of([abs(value - middle) for value in values])


# How many median absolute deviations away a value has no weight (Mosteller and Tukey, Data Analysis and Regression, 1977).
BIWEIGHT = 9.0


def biweight(values: Sequence[float]) -> float:
    """The standard deviation as Tukey's biweight estimates it: as precise as from 0.87 times as many normal values, and outliers have
    no weight (Lax, JASA 80, 1985). 0 if more than half of the values are equal.
    """
    middle = median_of(values)
    reach = BIWEIGHT * median_of([abs(value - middle) for value in values])
    if reach <= 0:
        return 0.0
    over = under = 0.0
    for value in values:
        left = 1.0 - ((value - middle) / reach) ** 2
        if left > 0:
            over += (1.0 - left) * left**4
            under += left * (5.0 * left - 4.0)
    return reach * float((len(values) * over) ** 0.5 / abs(under))


# The factors by which Qn estimates a standard deviation without bias: for 2 to 9 values, and beyond (Rousseeuw and Croux, JASA 88,
# 1993, with the table of Croux and Rousseeuw, COMPSTAT 1992).
QN_SCALE = 2.2219
QN_FACTORS = (0.399, 0.994, 0.512, 0.844, 0.611, 0.857, 0.669, 0.872)


def qn(values: Sequence[float]) -> float:
    """Rousseeuw and Croux's Qn in units of a standard deviation: a quantile of the differences of all pairs of values.

    Up to half of the values may be outliers. The time grows with the square of their number. Raises ValueError for fewer than two.
    """
    many = len(values)
    if many < 2:
        raise ValueError("the spread of fewer than two values")
    half = many // 2 + 1
    ordered = sorted(abs(first - other) for first, other in combinations(values, 2))
    excess = 1.4 if many % 2 else 3.8
    factor = QN_FACTORS[many - 2] if many <= 9 else many / (many + excess)
    return factor * QN_SCALE * ordered[half * (half - 1) // 2 - 1]


# From so many degrees of freedom on, Student's distribution is the normal one for every probability that is used here.
NORMAL_FROM = 200


def upper_tail(value: float, freedom: int) -> float:
    """The probability of more than `value` under Student's t with so many degrees of freedom (Abramowitz and Stegun, 26.7.3 and
    26.7.4). Raises ValueError for fewer than one.
    """
    if freedom < 1:
        raise ValueError("a distribution without degrees of freedom")
    if freedom >= NORMAL_FROM:
        return 0.5 * math.erfc(value / math.sqrt(2.0))
    angle = math.atan(value / math.sqrt(freedom))
    cosine, term, total = math.cos(angle), 1.0, 0.0
    if freedom % 2:
        for step in range(1, freedom - 1, 2):
            term = cosine if step == 1 else term * cosine**2 * (step - 1) / step
            total += term
        inside = 2.0 / math.pi * (angle + math.sin(angle) * total)
    else:
        for step in range(0, freedom - 1, 2):
            term = 1.0 if step == 0 else term * cosine**2 * (step - 1) / step
            total += term
        inside = math.sin(angle) * total
    return max(0.0, 0.5 * (1.0 - inside))
