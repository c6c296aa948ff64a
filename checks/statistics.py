"""Robust statistics of small samples (pure)."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median


def median_of(values: Sequence[float]) -> float:
    """The median. Raises ValueError for no values."""
    if not values:
        raise ValueError("the median of nothing")
    return float(median(values))
