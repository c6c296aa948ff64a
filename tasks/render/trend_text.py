"""What the numbers of machines do over time, as lines of text: in the pages of a gate, of the fleet and of one node (pure)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from checks.judge.rules.wording import figure
from checks.judge.trend.degradation import LEAST_PROOFS, Lack, Motion
from checks.judge.trend.numbers import LEAST_PEERS
from checks.judge.trend.time_series import CounterGrowth, Course, Point, Trend, TrendMachine
from tasks.text.inert import one_line
from tasks.text.tables import counted, few

BARS = "▁▂▃▄▅▆▇█"
MOST_BARS = 32
# So many lines about what gets worse stand on the page of a gate.
MOST_WORSE = 12
# Smaller probabilities are those of a model, and of nothing that happens.
LEAST_SHOWN = 1e-9


def worse_lines(trend: Trend) -> tuple[str, ...]:
    """What gets worse of all machines, each with its name; "all together" is the cluster, and its page says which."""
    names = (
        (machine, machine.name.partition(" (")[0] if machine.known_by == "its group" else machine.name)
        for machine in trend.machines
    )
    return tuple(
        few(
            [f"{one_line(name, 80)}: {line}" for machine, name in names for line in worse_words(machine)],
            MOST_WORSE,
        )
    )


def too_few(reports: int) -> str:
    """The sentence about a history that is too short for a trend; "" if it is long enough."""
    if reports >= LEAST_PROOFS:
        return ""
    return (
        f"{counted(reports, 'report')} could be compared: a trend needs {LEAST_PROOFS} of the same machines."
    )


def moved_text(trend: Trend) -> str:
    """One line about the numbers that moved on all machines, "" if there are none."""
    if not trend.fleet:
        return ""
    first, more = trend.fleet[0], len(trend.fleet) - 1
    verb = "fell" if first.change < 0 else "rose"
    rest = f", and {counted(more, 'more number')}" if more else ""
    return (
        f"The fleet moved: {first.check} {first.what} {verb} by {abs(first.change):.1%} on {first.machines} machines together{rest}. "
        "No machine is named for that."
    )


def worse_words(machine: TrendMachine) -> list[str]:
    """What gets worse of one machine, with its sparkline."""
    return [*map(course_line, machine.degrading), *map(growth_line, machine.growing)]


def course_line(course: Course) -> str:
    """The number with its sparkline and what it does."""
    return f"{course.check} {course.what} {spark(course.points)} {course_text(course)}"


def growth_line(growth: CounterGrowth) -> str:
    """Such as "gpu.ecc total ▁█ grew by 12, from 0 to 12"."""
    first, last = growth.points[0].value, growth.points[-1].value
    return f"{growth.check} {growth.metric} {spark(growth.points)} grew by {growth.grown:g}, from {first:g} to {last:g}"


def course_text(course: Course) -> str:
    """ "30.2 where 42.1 is expected, 28% down in 4 days (p = 1e-08)"; for a number without points only what it does."""
    if not course.points:
        return "no trend"
    first, last = course.points[0], course.points[-1]
    ends = f"{figure(first.value)} to {figure(last.value)} in {_span(last.day - first.day)}"
    if is_constant(course):
        ends = f"{figure(last.value)} for {_span(last.day - first.day)}"
    if course.motion is Motion.UNKNOWN:
        return ends
    if course.change is None or course.chance is None:
        return f"{ends}, no trend"
    chance = f"p = {course.chance:.2g}" if course.chance > LEAST_SHOWN else f"p < {LEAST_SHOWN:g}"
    moved = f"{abs(course.change):.0%} {'down' if course.change < 0 else 'up'}"
    if course.bad_gates:
        moved += " in {} of its newest {} gates".format(*course.bad_gates)
    else:
        moved = f"{figure(course.now)} where {figure(course.expected)} is expected, {moved} in {_span(last.day - first.day)}"
    moved += f" ({chance})"
    if course.motion is Motion.WORSE:
        return moved
    return f"{moved}; a gate of fewer than {LEAST_PEERS} nodes does not show whether the machine or its software changed"


def unknown_lines(machine: TrendMachine) -> list[str]:
    """How many numbers no trend can be told of, one line for each reason."""
    lacking = [course for course in machine.courses if course.motion is Motion.UNKNOWN and course.lack]
    since = machine.changes[-1].day if machine.changes else -math.inf
    counts = [sum(point.day >= since for point in c.points) for c in lacking if c.lack is Lack.PROOFS]
    needed = f"{LEAST_PROOFS} gates since the node last changed are needed, and there are at most {max(counts, default=0)}"
    reasons = {lack: needed if lack is Lack.PROOFS else lack.value for lack in Lack}
    by_lack = Counter(course.lack for course in lacking)
    return [
        f"No trend can be told of {counted(by_lack[lack], 'number')}: {reason}."
        for lack, reason in reasons.items()
        if by_lack[lack]
    ]


def is_constant(course: Course) -> bool:
    """Whether it had one value all the time: such a number says nothing while too few gates measured it."""
    return len({point.value for point in course.points}) == 1


def still(courses: Sequence[Course]) -> list[Course]:
    """The result holds the courses that do not move, and have something to show."""
    return [
        course
        for course in courses
        if course.points
        and not course.moves
        and (course.motion is not Motion.UNKNOWN or not is_constant(course))
    ]


def spark(points: Sequence[Point]) -> str:
    """One bar per value, the smallest value lowest. Of many values some are picked evenly, always with the last."""
    values = [point.value for point in points]
    every = -(-len(values) // MOST_BARS)
    values = values[::-every][::-1]
    low, high = min(values), max(values)
    if high == low:
        return BARS[3] * len(values)
    return "".join(BARS[round((value - low) / (high - low) * (len(BARS) - 1))] for value in values)


def _span(days: float) -> str:
    """A duration in the largest unit in which it is at least 1."""
    for noun, each in (("day", 1.0), ("hour", 24.0), ("minute", 1440.0)):
        count = f"{days * each:.3g}"
        if days * each >= 1:
            return f"{count} {noun}{'' if count == '1' else 's'}"
    return "less than a minute"
