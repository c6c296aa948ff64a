"""The few numbers of a cluster's trend that a page draws: what gets worse first (pure)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from checks.judge.trend.degradation import LEAST_PROOFS
from checks.judge.trend.model import Course, Growth, Machine, Point, Trend
from tasks.render.context import PastNumber
from tasks.render.trend_text import course_text, growth_text, spark, still
from tasks.text.inert import one_line

NUMBERS, MACHINE_NUMBERS, DOTS = 6, 12, 32
WIDTH, HEIGHT, EDGE = 240.0, 48.0, 5.0


def numbers_of(trend: Trend) -> tuple[PastNumber, ...]:
    """What gets worse first, then the numbers that all machines share, then others: few, and drawn."""
    worse = [(machine, course) for machine in trend.machines for course in _one_a_check(machine.degrading)]
    grown = [_grown(growth, _named(machine)) for machine in trend.machines for growth in machine.growing]
    steady = [
        (machine, course)
        for machine in trend.machines
        for course in _telling(_one_a_check(still(machine.courses)))
    ]
    first, rest = ([_drawn(course, _named(machine)) for machine, course in some] for some in (worse, steady))
    return tuple((first[:NUMBERS] + grown + rest)[:NUMBERS])


def numbers_of_machine(machine: Machine) -> tuple[PastNumber, ...]:
    """The first numbers of one machine: what gets worse, counters that grow, then others."""
    first, rest = (map(_drawn, some) for some in (machine.degrading, still(machine.courses)))
    return tuple([*first, *map(_grown, machine.growing), *rest][:MACHINE_NUMBERS])


def too_few(reports: int) -> str:
    """The sentence about a history that is too short for a trend; "" if it is long enough."""
    if reports >= LEAST_PROOFS:
        return ""
    several = "report" if reports == 1 else "reports"
    return f"{reports} {several} could be compared: a trend needs {LEAST_PROOFS} of the same machines."


def _one_a_check(courses: Iterable[Course]) -> list[Course]:
    """Of a check's sizes and metrics the one with the greatest value: a collective's largest size."""
    found: dict[str, Course] = {}
    for course in courses:
        held = found.get(course.check)
        if held is None or course.points[-1].value > held.points[-1].value:
            found[course.check] = course
    return list(found.values())


def _telling(courses: Iterable[Course]) -> list[Course]:
    """Peaks and rates before latencies and single sizes."""
    return sorted(
        (course for course in courses if len(course.points) > 1),
        key=lambda course: ("peak" not in course.what, "flops" not in course.what, "gbps" not in course.what),
    )


def _named(machine: Machine) -> str:
    """Which machine; "all together" is the cluster, and its page says which."""
    name = machine.name.partition(" (")[0] if machine.known_by == "its group" else machine.name
    return f"{one_line(name, 80)}: "


def _drawn(course: Course, whose: str = "") -> PastNumber:
    return _figure(f"{whose}{course.check} {course.what}", course_text(course), course.moves, course.points)


def _grown(growth: Growth, whose: str = "") -> PastNumber:
    return _figure(f"{whose}{growth.check} {growth.metric}", growth_text(growth), True, growth.points)


def _figure(title: str, said: str, worse: bool, points: Sequence[Point]) -> PastNumber:
    shown = points[-DOTS:]
    low, high = min(p.value for p in shown), max(p.value for p in shown)
    first, last = shown[0].day, shown[-1].day
    room = max(0.0, 0.1 * max(abs(low), abs(high)) - (high - low)) / 2
    dots = tuple(
        (
            f"{_at(p.day, first, last, WIDTH):.1f}",
            f"{HEIGHT - _at(p.value, low - room, high + room, HEIGHT):.1f}",
        )
        for p in shown
    )
    line = "M" + "L".join(f"{x} {y}" for x, y in dots)
    return PastNumber(one_line(title, 160), one_line(said, 200), worse, spark(shown), line, dots)


def _at(value: float, least: float, most: float, length: float) -> float:
    share = (value - least) / (most - least) if most > least else 0.5
    return EDGE + (length - 2 * EDGE) * share
