"""Machines over time as text or a document of plain values (pure)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import cast

from checks.documents.report import plain
from checks.judge.rules.wording import figure
from checks.judge.trend.degradation import FALSE_NAMES_A_MONTH, LEAST_PROOFS, Motion
from checks.judge.trend.model import Course, Growth, Machine, Point, Trend
from checks.judge.trend.numbers import LEAST_PEERS
from tasks.text.inert import one_line
from tasks.text.tables import counted, few, listed

BARS = "▁▂▃▄▅▆▇█"
MOST_BARS = 32
# Smaller probabilities are those of a model, and of nothing that happens.
LEAST_SHOWN = 1e-9


def trend_text(trend: Trend) -> str:
    """The machines that get worse, one line a number, then those of which nobody can tell, then the others."""
    return "".join(f"{line}\n" for line in _lines(trend))


def trend_document(trend: Trend) -> dict[str, object]:
    """The trend as a JSON document; no key is ever absent."""
    return {
        "said": trend_headline(trend),
        "fleet_said": moved_text(trend),
        "fleet": moved_document(trend),
        "series": trend.series,
        "gates_a_month": round(trend.gates_a_month, 3),
        "false_names_a_month": FALSE_NAMES_A_MONTH,
        "reports": trend.reports,
        "first": trend.first,
        "last": trend.last,
        "machines": [
            {
                "name": machine.name,
                "known_by": machine.known_by,
                "reports": machine.reports,
                "first": machine.first,
                "last": machine.last,
                "told": machine.told,
                "numbers": len(machine.courses),
                "unknown": machine.unknown,
                "degrading": plain(machine.degrading),
                "growing": plain(machine.growing),
                "gone": list(machine.gone),
            }
            for machine in trend.machines
        ],
        "left_out": list(trend.left_out),
    }


def moved_document(trend: Trend) -> list[dict[str, object]]:
    """What moved on all machines, as JSON."""
    return [cast(dict[str, object], plain(one)) | {"worse": one.worse} for one in trend.fleet]


def trend_headline(trend: Trend) -> str:
    """One line: what there is to look at."""
    worse = sum(machine.worse for machine in trend.machines)
    untold = sum(not machine.told for machine in trend.machines)
    span = (
        f"{counted(trend.reports, 'report')}, {trend.first} to {trend.last}" if trend.reports else "no report"
    )
    all_of_them = "1 machine" if len(trend.machines) == 1 else f"{len(trend.machines)} machines and groups"
    few = f"; cannot tell of {untold}: too few reports or nodes" if untold else ""
    if worse:
        return f"{worse} of {all_of_them} get{'s' if worse == 1 else ''} worse ({span}){few}"
    if any(one.worse for one in trend.fleet):
        return f"no machine gets worse than the others, but all moved together: {all_of_them} ({span}){few}"
    if untold or not trend.machines:
        return f"cannot tell: too few reports or nodes for {untold} of {all_of_them} ({span})"
    return f"nothing degrades: {all_of_them} ({span})"


def moved_text(trend: Trend) -> str:
    """One line about the numbers that moved on all machines, "" if there are none."""
    if not trend.fleet:
        return ""
    first, more = trend.fleet[0], len(trend.fleet) - 1
    word = "fell" if first.change < 0 else "rose"
    rest = f", and {counted(more, 'more number')}" if more else ""
    return (
        f"The fleet moved: {first.check} {first.what} {word} by {abs(first.change):.1%} on {first.machines} machines together{rest}. "
        "No machine is named for that."
    )


def budget_text(trend: Trend) -> str:
    """How many healthy machines the rule is expected to name."""
    return (
        f"At most {FALSE_NAMES_A_MONTH:g} healthy machine a month is expected to be named by chance "
        f"({counted(trend.series, 'number')} of machines, {trend.gates_a_month:.0f} gates a month)."
    )


def worse_words(machine: Machine) -> list[str]:
    """What gets worse of one machine, with its sparkline."""
    return [
        *(f"{c.check} {c.what} {spark(c.points)} {course_text(c)}" for c in machine.degrading),
        *(f"{g.check} {g.metric} {spark(g.points)} {growth_text(g)}" for g in machine.growing),
        *machine.gone,
    ]


def course_text(course: Course) -> str:
    """ "30.2 where 42.1 is expected, 28% down in 4 days (p = 1e-08)"; for a number without points only what it does."""
    if not course.points:
        return "no trend" if course.motion is Motion.STEADY else _unknown(course)
    first, last = course.points[0], course.points[-1]
    ends = f"{figure(first.value)} to {figure(last.value)} in {_span(last.day - first.day)}"
    if is_constant(course):
        ends = f"{figure(last.value)} for {_span(last.day - first.day)}"
    if course.motion is Motion.UNKNOWN:
        return f"{ends}; {_unknown(course)}"
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
    return f"{moved}; with fewer than {LEAST_PEERS} nodes in a gate nobody can tell the machine from its software"


def is_constant(course: Course) -> bool:
    """Whether it had one value all the time: such a number says nothing while too few gates measured it."""
    return len({point.value for point in course.points}) == 1


def still(courses: Sequence[Course]) -> list[Course]:
    """Those that do not move, and have something to draw."""
    return [
        one
        for one in courses
        if one.points and not one.moves and not (one.motion is Motion.UNKNOWN and is_constant(one))
    ]


def _unknown(course: Course) -> str:
    return f"cannot tell: {course.lack.value if course.lack else 'no reason is known'}"


def growth_text(growth: Growth) -> str:
    """ "grew by 12, from 0 to 12"."""
    first, last = growth.points[0].value, growth.points[-1].value
    return f"grew by {growth.grown:g}, from {first:g} to {last:g}"


def spark(points: Sequence[Point]) -> str:
    """One bar per value, the smallest value lowest. Of many values some are picked evenly, always with the last."""
    values = [point.value for point in points]
    every = -(-len(values) // MOST_BARS)
    values = values[::-every][::-1]
    low, high = min(values), max(values)
    if high == low:
        return BARS[3] * len(values)
    return "".join(BARS[round((value - low) / (high - low) * (len(BARS) - 1))] for value in values)


def _lines(trend: Trend) -> Iterator[str]:
    yield one_line(trend_headline(trend))
    if trend.fleet:
        yield one_line(moved_text(trend))
    worse = [machine for machine in trend.machines if machine.worse]
    for machine in worse:
        yield ""
        yield one_line(f"{machine.name} ({machine.reports} reports, known by {machine.known_by})")
        yield from (f"  {one_line(line)}" for line in few(worse_words(machine)))
    rest = list(_too_few(trend))
    steady = [machine for machine in trend.machines if machine.told and not machine.worse]
    if steady:
        numbers = sum(len(machine.courses) for machine in steady)
        rest.append(f"No trend: {_names(steady)}; {counted(numbers, 'number')}")
    if trend.series:
        rest.append(budget_text(trend))
    rest += [f"Not used: {one}" for one in few(trend.left_out)]
    if rest:
        yield ""
        yield from (one_line(line, 1000) for line in rest)


def _too_few(trend: Trend) -> Iterator[str]:
    untold = [machine for machine in trend.machines if not machine.told]
    if untold and len(trend.machines) < LEAST_PEERS:
        yield (
            f"Cannot tell: {_names(untold)}; a machine is compared with at least {LEAST_PEERS} nodes of the same report, and here are "
            f"{len(trend.machines)}: more reports do not change that"
        )
    elif untold:
        yield (
            f"Cannot tell: {_names(untold)}; a trend needs {LEAST_PROOFS} reports of different times since the machine's last change, "
            f"and {LEAST_PEERS} nodes in each"
        )


def _span(days: float) -> str:
    """A duration in the largest unit in which it is at least 1."""
    for noun, each in (("day", 1.0), ("hour", 24.0), ("minute", 1440.0)):
        count = f"{days * each:.3g}"
        if days * each >= 1:
            return f"{count} {noun}{'' if count == '1' else 's'}"
    return "less than a minute"


def _names(machines: Sequence[Machine]) -> str:
    return listed([f"{machine.name} ({counted(machine.reports, 'report')})" for machine in machines])
