"""Machines over time as one HTML page: a small chart for each number, the worst machine first (pure)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from checks.judge.rules.wording import figure
from checks.judge.trend.degradation import LEAST_CHANGE
from checks.judge.trend.model import Course, Growth, Machine, Point, Trend
from checks.version import ENGINE
from tasks.render.html import page_template, security
from tasks.render.trend_text import budget_text, course_text, fleet_text, growth_text, still, trend_headline
from tasks.text.inert import one_line

HERE = Path(__file__).parent
MACHINES, PANELS, DOTS = 60, 12, 64
WIDTH, HEIGHT, EDGE = 240.0, 80.0, 8.0
STYLE = """
.panels { display: grid; grid-template-columns: repeat(auto-fill, minmax(15rem, 1fr)); gap: 1rem; }
.panels figure { border: 1px solid var(--rule); border-radius: .25rem; padding: .6rem .8rem; }
.panels figcaption { font-size: .875rem; }
.panels .ends { font-size: .8125rem; margin: 0; }
"""


@dataclass(frozen=True)
class Panel:
    """One number's course as SVG places: a line through all points, and the dots on it."""

    title: str
    text: str
    series: str
    line: str
    dots: tuple[tuple[str, str], ...]
    low: str
    high: str


@dataclass(frozen=True)
class Card:
    """One machine."""

    name: str
    word: str
    tone: str
    about: str
    gone: tuple[str, ...]
    panels: tuple[Panel, ...]
    hidden: int


def trend_page(trend: Trend) -> str:
    """The whole page; nothing in it comes from outside."""
    style = (HERE / "report.css").read_text(encoding="utf-8") + STYLE
    ordered = sorted(trend.machines, key=lambda machine: (not machine.worse, machine.told))
    word, tone = _word(
        any(m.worse for m in ordered) or any(one.worse for one in trend.fleet),
        bool(ordered) and all(machine.told for machine in ordered),
    )
    return page_template(HERE / "trend.html").render(
        style=style,
        policy=security(style),
        word=word,
        tone=tone,
        said=one_line(trend_headline(trend)),
        least=f"{LEAST_CHANGE:.0%}",
        fleet=one_line(fleet_text(trend), 400),
        budget=one_line(budget_text(trend), 400),
        cards=[_card(machine) for machine in ordered[:MACHINES]],
        hidden=max(0, len(ordered) - MACHINES),
        left_out=[one_line(line) for line in trend.left_out[:200]],
        engine=ENGINE,
        reports=trend.reports,
        first=one_line(trend.first, 60),
        last=one_line(trend.last, 60),
    )


def _word(worse: bool, told: bool) -> tuple[str, str]:
    if worse:
        return "Worse", "fail"
    return ("No trend", "pass") if told else ("Cannot tell", "unknown")


def _card(machine: Machine) -> Card:
    word, tone = _word(machine.worse, machine.told)
    steady = still(machine.courses)
    drawn = panels(machine.degrading, machine.growing, steady)
    several = "report" if machine.reports == 1 else "reports"
    about = f"{machine.reports} {several}, {machine.first} to {machine.last}, known by {machine.known_by}"
    whole = len(machine.degrading) + len(machine.growing) + len(steady)
    gone = tuple(one_line(line) for line in machine.gone[:PANELS])
    return Card(
        one_line(machine.name, 120), word, tone, one_line(about), gone, drawn,
        max(0, whole - PANELS),
    )  # fmt: skip


def panels(
    moving: Sequence[Course], growing: Sequence[Growth], steady: Sequence[Course]
) -> tuple[Panel, ...]:
    """The first numbers of a machine as drawings: what gets worse, counters that grow, then others."""
    drawn = [
        *(_panel(f"{c.check} {c.what}", course_text(c), "s1", c.points) for c in moving if c.points),
        *(_panel(f"{g.check} {g.metric}", growth_text(g), "s6", g.points) for g in growing),
        *(_panel(f"{c.check} {c.what}", course_text(c), "s0", c.points) for c in steady[:PANELS]),
    ]
    return tuple(drawn[:PANELS])


def _panel(title: str, text: str, series: str, points: Sequence[Point]) -> Panel:
    every = -(-len(points) // DOTS)
    shown = points[::-every][::-1]
    low, high = min(p.value for p in shown), max(p.value for p in shown)
    first, last = shown[0].day, shown[-1].day
    # A steady number is drawn as a steady line: the height is never less than two of the least changes that count.
    room = max(0.0, 2 * LEAST_CHANGE * max(abs(low), abs(high)) - (high - low)) / 2
    dots = [
        (
            _at(p.day, first, last, WIDTH),
            f"{HEIGHT - float(_at(p.value, low - room, high + room, HEIGHT)):.1f}",
        )
        for p in shown
    ]
    line = "M" + "L".join(f"{x} {y}" for x, y in dots)
    return Panel(
        one_line(title, 120), one_line(text, 160), series, line, tuple(dots), figure(low), figure(high)
    )


def _at(value: float, least: float, most: float, length: float) -> str:
    share = (value - least) / (most - least) if most > least else 0.5
    return f"{EDGE + (length - 2 * EDGE) * share:.1f}"
