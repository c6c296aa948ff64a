"""What a trend says: numbers of one comparison, and what is missing where nobody can tell."""

from __future__ import annotations

import re
from typing import Any

import pytest

from checks.judge.baseline.samples import Side
from checks.judge.trend.degradation import Motion
from checks.judge.trend.time_series import Course, Point
from tasks.render.trend_text import course_text

# What one machine measures, and what its change is when it is compared with peers that changed as well.
COURSES = {
    "its peers fell as well": ([102.2] * 12 + [69.61] * 4, -0.15, Motion.WORSE),
    "its peers rose": ([100.0] * 12 + [95.0] * 4, -0.2, Motion.WORSE),
    "its newest value is no longer bad": ([100.0] * 12 + [70.0, 70.0, 100.0], -0.3, Motion.WORSE),
    "its first value was bad": ([50.0] + [100.0] * 11 + [80.0] * 4, -0.2, Motion.WORSE),
    "a latency without peers": ([10.0] * 12 + [15.0] * 4, 0.5, Motion.MOVED),
}


def course(values: list[float], change: float, motion: Motion, **more: Any) -> Course:
    """One value per day."""
    points = tuple(Point(float(day), value) for day, value in enumerate(values))
    own: Any = {"check": "compute.gemm", "what": "gflops", "group": "", "bad": Side.EITHER, **more}
    return Course(motion, change, 1e-8, points=points, **own)


@pytest.mark.parametrize("name", COURSES)
def test_both_values_and_their_percentage_are_of_one_comparison(name: str) -> None:
    """The percentage is that between the two values that stand beside it."""
    said = course_text(course(*COURSES[name]))
    found = re.match(r"([0-9.]+) where ([0-9.]+) is expected, ([0-9]+)% (up|down) in ", said)

    assert found, said
    now, expected, percent = (float(one) for one in found.groups()[:3])
    assert abs(abs(now / expected - 1.0) - percent / 100) < 0.006


def test_a_machine_that_flaps_has_no_two_values() -> None:
    """How deep its bad gates are, and how many there were."""
    said = course_text(course([100.0, 85.0] * 16, -0.15, Motion.WORSE, bad_gates=(16, 32)))

    assert "15% down in 16 of its newest 32 gates (p = 1e-08)" == said
