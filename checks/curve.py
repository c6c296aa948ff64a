"""Bandwidth by message size, from a few known points (pure).

time = latency + size / bandwidth, on each stretch between two points: exact at a point, rising with the size, and the
same whatever the units are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

# Below the smallest known size by more than this factor nothing is expected: the latency is not known.
REACH = 4.0


@dataclass(frozen=True)
class Estimate:
    """A bandwidth in the points' own unit: between `low` and `high`, most likely `value`; `points` are the sizes used."""

    value: float
    low: float
    high: float
    points: tuple[float, ...]


def estimate(points: Sequence[Sequence[float]], size: float, most: float = float("inf")) -> Estimate | None:
    """The bandwidth of a message of this size; None more than `REACH` times below the smallest point. At most `most`.

    `points` are (size, bandwidth), both rising. Between two of them the truth lies between their bandwidths; beyond
    the last its own stretch goes on.
    """
    if not points or size < points[0][0] / REACH:
        return None
    made = _raw(points, size)
    return Estimate(min(made.value, most), min(made.low, most), min(made.high, most), made.points)


def _raw(points: Sequence[Sequence[float]], size: float) -> Estimate:
    for known, gbps in points:
        if known == size:
            return Estimate(gbps, gbps, gbps, (known,))
    first, last = points[0], points[-1]
    if size < first[0]:
        return _below(points, size)
    if len(points) == 1:
        return Estimate(first[1], first[1], _endless(first, size), (first[0],))
    if size > last[0]:
        value = _through(points[-2], last, size)
        return Estimate(value, last[1], _endless(last, size), (points[-2][0], last[0]))
    at = next(index for index, point in enumerate(points) if point[0] > size)
    left, right = points[at - 1], points[at]
    return Estimate(_through(left, right, size), left[1], right[1], (left[0], right[0]))


def _below(points: Sequence[Sequence[float]], size: float) -> Estimate:
    """Between a message that takes as long as the smallest known one, and one that has its bandwidth."""
    first = points[0]
    slowest, fastest = first[1] * size / first[0], first[1]
    value = _through(first, points[1], size) if len(points) > 1 else slowest
    return Estimate(value, slowest, fastest, tuple(point[0] for point in points[:2]))


def _through(left: Sequence[float], right: Sequence[float], size: float) -> float:
    """On the line of time over size through both points."""
    took, next_took = left[0] / left[1], right[0] / right[1]
    pace = (next_took - took) / (right[0] - left[0])
    return size / (took + pace * (size - left[0]))


def _endless(last: Sequence[float], size: float) -> float:
    """The most that a larger message can have, if the last point was all latency but for nothing: size over its time."""
    return last[1] * size / last[0]
