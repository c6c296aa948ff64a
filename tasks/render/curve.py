"""Bus bandwidth by message size as coordinates: a panel a collective, its expectation in the same panel (pure).

Sizes are bytes on a logarithmic axis, bandwidths 10^9 bytes/s on a linear one that starts at 0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tasks.render.bandwidth import Row, Sample, Sweep, bandwidth_rows, said_of, size_text
from tasks.render.expectations import Expectations, ExpectedCurve, Floor

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 480.0, 260.0, 52.0, 16.0, 16.0, 48.0
TICKS = 5
# A floor that would lie upon the axis is said in words alone.
LEAST_SHARE = 0.02


@dataclass(frozen=True)
class Dot:
    """One measured size; x, y, y_least and y_most are places in the panel."""

    sample: Sample
    x: float
    y: float
    y_least: float
    y_most: float


@dataclass(frozen=True)
class Tick:
    """A mark on an axis."""

    at: float
    label: str


@dataclass(frozen=True)
class FloorLine:
    """A line of the policy, at its height; `y` is None where it would not be seen."""

    floor: Floor
    y: float | None


@dataclass(frozen=True)
class Panel:
    """One collective. `line`, `band`, `expected` and `low` are SVG path data, "" for what is not there.

    `said` is the panel in words, for those who do not see it.
    """

    check: str
    dots: tuple[Dot, ...]
    line: str
    band: str
    expected: str
    low: str
    floors: tuple[FloorLine, ...]
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    said: str
    source: str


def panels(measured: Sequence[Sweep], expectations: Expectations) -> tuple[Panel, ...]:
    """A panel for every collective that was measured at two sizes or more."""
    return tuple(_panel(sweep, expectations) for sweep in measured if len(sweep.samples) > 1)


def scale(most: float, steps: int = 6) -> tuple[float, float]:
    """An axis' end and the step between its marks: 1, 2 or 5 times a power of ten, at most `steps` of them."""
    if most < 1e-9:
        return 1.0, 0.25
    power = 10.0 ** math.floor(math.log10(most / steps))
    step = next(power * f for f in (1, 2, 5, 10, 20) if most / (power * f) <= steps)
    return step * math.ceil(most / step - 1e-9), step


def _panel(sweep: Sweep, expectations: Expectations) -> Panel:
    curve = expectations.curve(sweep.check)
    tops = [sample.most for sample in sweep.samples]
    tops += [point.value for point in curve.points] if curve else []
    top, step = scale(max(tops))
    sizes = [sample.size_bytes for sample in sweep.samples]
    dots = tuple(
        Dot(s, _x(s.size_bytes, sizes), _y(s.middle, top), _y(s.least, top), _y(s.most, top))
        for s in sweep.samples
    )
    back = [(dot.x, dot.y_least) for dot in reversed(dots)]
    rows = bandwidth_rows((sweep,), expectations)
    return Panel(
        check=sweep.check,
        dots=dots,
        line=_path([(dot.x, dot.y) for dot in dots]),
        band=_path([*((dot.x, dot.y_most) for dot in dots), *back]) + "Z",
        expected=_expected(curve, sizes, top),
        low=_low(curve, sizes, top),
        floors=tuple(
            FloorLine(floor, _y(floor.gbps, top) if top >= floor.gbps >= LEAST_SHARE * top else None)
            for floor in expectations.floors
            if floor.check == sweep.check
        ),
        x_ticks=_size_ticks(sizes),
        y_ticks=tuple(Tick(_y(step * i, top), f"{step * i:.4g}") for i in range(round(top / step) + 1)),
        said=_said(rows),
        source=curve.source if curve else "",
    )


def _said(rows: Sequence[Row]) -> str:
    """The largest size, and the size that falls furthest short of what is expected of it."""
    said = [said_of(rows[-1])]
    known = [(row.of_expected, row) for row in rows if row.of_expected is not None]
    if known:
        short = min(known, key=lambda pair: pair[0])[1]
        if short is not rows[-1]:
            at = short.sample.size
            said.append(f"furthest below what is expected: {short.of_expected:.2f} of it at {at}")
    return "; ".join(said)


def _expected(curve: ExpectedCurve | None, sizes: Sequence[float], top: float) -> str:
    return _path([(_x(p.size_bytes, sizes), _y(p.value, top)) for p in curve.points]) if curve else ""


def _low(curve: ExpectedCurve | None, sizes: Sequence[float], top: float) -> str:
    if curve is None or all(point.low >= point.value for point in curve.points):
        return ""
    return _path([(_x(p.size_bytes, sizes), _y(p.low, top)) for p in curve.points])


def _path(places: Sequence[tuple[float, float]]) -> str:
    # One place alone is drawn as a dash, so that it is seen.
    ends = places if len(places) > 1 else [*places, (places[0][0] - 12.0, places[0][1])]
    return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in ends)


def _x(size: float, sizes: Sequence[float]) -> float:
    least, most = math.log(sizes[0]), math.log(sizes[-1])
    return LEFT + (WIDTH - LEFT - RIGHT) * (math.log(size) - least) / max(most - least, 1e-9)


def _y(value: float, top: float) -> float:
    return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * min(value / top, 1.0)


def _size_ticks(sizes: Sequence[float]) -> tuple[Tick, ...]:
    every = max(1, math.ceil(len(sizes) / TICKS))
    return tuple(Tick(_x(size, sizes), size_text(size)) for size in sizes[::-every][::-1])
