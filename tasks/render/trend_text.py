"""Machines over time as text, Markdown or a document of plain values (pure)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from checks.documents.report import plain
from checks.judge.rules.wording import figure
from checks.judge.trend.model import LEAST_REPORTS, Course, Growth, Machine, Point, Trend
from tasks.render.markdown import escape
from tasks.text.inert import one_line

NAMED = 20
BARS = "▁▂▃▄▅▆▇█"
MOST_BARS = 32


def trend_text(trend: Trend) -> str:
    """The machines that get worse, one line a number, then those of which nobody can tell, then the others."""
    return "".join(f"{line}\n" for line in _lines(trend))


def trend_markdown(trend: Trend) -> str:
    """The trend as Markdown, for a CI summary."""
    parts = [f"# {escape(trend_headline(trend))}"]
    rows = [(machine.name, what) for machine in trend.machines for what in said_of(machine)]
    if rows:
        table = ["| Machine | What gets worse |", "| --- | --- |"]
        parts.append(
            "\n".join([*table, *(f"| {escape(name)} | {escape(what)} |" for name, what in rows[:200])])
        )
    if len(rows) > 200:
        parts.append(f"{len(rows) - 200} more.")
    parts += [
        escape(line) for line in (*_too_few(trend), *(f"Not used: {one}" for one in trend.left_out[:NAMED]))
    ]
    return "\n\n".join(parts) + "\n"


def trend_document(trend: Trend) -> dict[str, object]:
    """The trend as a JSON document; no key is ever absent."""
    return {
        "said": trend_headline(trend),
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
                "degrading": plain(machine.degrading),
                "growing": plain(machine.growing),
                "gone": list(machine.gone),
            }
            for machine in trend.machines
        ],
        "left_out": list(trend.left_out),
    }


def trend_headline(trend: Trend) -> str:
    """One line: what there is to look at."""
    worse = sum(machine.worse for machine in trend.machines)
    untold = sum(not machine.told for machine in trend.machines)
    span = (
        f"{_many(trend.reports, 'report')}, {trend.first} to {trend.last}" if trend.reports else "no report"
    )
    all_of_them = "1 machine" if len(trend.machines) == 1 else f"{len(trend.machines)} machines and groups"
    few = f"; cannot tell of {untold}: too few reports" if untold else ""
    if worse:
        return f"{worse} of {all_of_them} get{'s' if worse == 1 else ''} worse ({span}){few}"
    if untold or not trend.machines:
        return f"cannot tell: too few reports of {untold} of {all_of_them} ({span})"
    return f"nothing degrades: {all_of_them} ({span})"


def said_of(machine: Machine) -> list[str]:
    """What gets worse of one machine, with its sparkline."""
    return [
        *(f"{c.check} {c.what} {spark(c.points)} {course_text(c)}" for c in machine.degrading),
        *(f"{g.check} {g.metric} {spark(g.points)} {growth_text(g)}" for g in machine.growing),
        *machine.gone,
    ]


def course_text(course: Course) -> str:
    """ "42.1 to 30.2, 28% down in 4 days (p = 0.008)"."""
    first, last = course.points[0], course.points[-1]
    days = last.day - first.day
    ends = f"{figure(first.value)} to {figure(last.value)} in {_span(days)}"
    if course.change is None or course.chance is None:
        return f"{ends}; {len(course.points)} of {LEAST_REPORTS} reports that are needed"
    if not course.change:
        return f"{ends}, no trend"
    word = "down" if course.change < 0 else "up"
    return f"{ends}, {abs(course.change):.0%} {word} (p = {course.chance:.2g})"


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
    worse = [machine for machine in trend.machines if machine.worse]
    for machine in worse:
        yield ""
        yield one_line(f"{machine.name} ({machine.reports} reports, known by {machine.known_by})")
        said = said_of(machine)
        yield from (f"  {one_line(line)}" for line in said[:NAMED])
        if len(said) > NAMED:
            yield f"  and {len(said) - NAMED} more"
    rest = list(_too_few(trend))
    steady = [machine for machine in trend.machines if machine.told and not machine.worse]
    if steady:
        numbers = sum(len(machine.courses) for machine in steady)
        rest.append(f"No trend: {_names(steady)}; {_many(numbers, 'number')}")
    rest += [f"Not used: {one}" for one in trend.left_out[:NAMED]]
    if len(trend.left_out) > NAMED:
        rest.append(f"Not used: {len(trend.left_out) - NAMED} more")
    if rest:
        yield ""
        yield from (one_line(line, 1000) for line in rest)


def _too_few(trend: Trend) -> Iterator[str]:
    untold = [machine for machine in trend.machines if not machine.told]
    if untold:
        yield f"Too few reports to tell: {_names(untold)}; a trend needs {LEAST_REPORTS} reports of different times with the number"


def _many(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _span(days: float) -> str:
    """A duration in the largest unit in which it is at least 1."""
    for noun, each in (("day", 1.0), ("hour", 24.0), ("minute", 1440.0)):
        count = f"{days * each:.3g}"
        if days * each >= 1:
            return f"{count} {noun}{'' if count == '1' else 's'}"
    return "less than a minute"


def _names(machines: Sequence[Machine]) -> str:
    named = ", ".join(f"{machine.name} ({_many(machine.reports, 'report')})" for machine in machines[:NAMED])
    return named + (f" and {len(machines) - NAMED} more" if len(machines) > NAMED else "")
