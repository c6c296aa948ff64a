"""Bus bandwidth by message size as the coordinates of a plot (pure).

There is one panel per collective, with its expected values in the same panel. Sizes are on a logarithmic axis, bandwidths on a linear
axis that starts at 0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tasks.render.views.expectations import (
    Expectations,
    Row,
    Sweep,
    bandwidth_rows,
    furthest_below,
    said_of,
    size_text,
)

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 480.0, 260.0, 52.0, 16.0, 16.0, 48.0
TICKS = 5


@dataclass(frozen=True)
class Panel:
    """One collective. `line`, `band`, `expected` and `low` are SVG path data, "" for what is not there; dots are (x, y), ticks are
    (place, label). `said` is the panel in words, for those who do not see it.
    """

    check: str
    dots: tuple[tuple[float, float], ...]
    line: str
    band: str
    expected: str
    low: str
    x_ticks: tuple[tuple[float, str], ...]
    y_ticks: tuple[tuple[float, str], ...]
    said: str
    source: str


def panels(measured: Sequence[Sweep], expected: Expectations) -> tuple[Panel, ...]:
    """One panel for every collective that was measured at two sizes or more."""
    return tuple(_panel(sweep, expected) for sweep in measured if len(sweep.samples) > 1)


def scale(most: float, steps: int = 6) -> tuple[float, float]:
    """An axis' end and the step between its marks: 1, 2 or 5 times a power of ten, at most `steps` of them."""
    if most < 1e-9:
        return 1.0, 0.25
    power = 10.0 ** math.floor(math.log10(most / steps))
    step = next(power * f for f in (1, 2, 5, 10, 20) if most / (power * f) <= steps)
    return step * math.ceil(most / step - 1e-9), step


def _panel(sweep: Sweep, expected: Expectations) -> Panel:
    curve, samples = expected.curve(sweep.check), sweep.samples
    points = curve.points if curve else ()
    top, step = scale(max([*(sample.most for sample in samples), *(point.value for point in points)]))
    least, most = math.log(samples[0].size_bytes), math.log(samples[-1].size_bytes)

    def at(size: float, value: float = 0.0) -> tuple[float, float]:
        along = (math.log(size) - least) / max(most - least, 1e-9)
        return (
            LEFT + (WIDTH - LEFT - RIGHT) * along,
            HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * min(value / top, 1.0),
        )

    dots = tuple(at(s.size_bytes, s.middle) for s in samples)
    above = [at(s.size_bytes, s.most) for s in samples]
    below = [at(s.size_bytes, s.least) for s in reversed(samples)]
    has_low = any(point.low < point.value for point in points)
    every = max(1, math.ceil(len(samples) / TICKS))
    return Panel(
        check=sweep.check,
        dots=dots,
        line=_path(dots),
        band=_path([*above, *below]) + "Z",
        expected=_path([at(p.size_bytes, p.value) for p in points]),
        low=_path([at(p.size_bytes, p.low) for p in points]) if has_low else "",
        x_ticks=tuple((at(s.size_bytes)[0], size_text(s.size_bytes)) for s in samples[::-every][::-1]),
        y_ticks=tuple((at(1.0, step * i)[1], f"{step * i:.4g}") for i in range(round(top / step) + 1)),
        said=_said(bandwidth_rows((sweep,), expected)),
        source=curve.source if curve else "",
    )


def _said(rows: Sequence[Row]) -> str:
    """The largest size, and the size that falls furthest short of what is expected of it."""
    short = furthest_below(rows)
    if short is None or short is rows[-1]:
        return said_of(rows[-1])
    below = f"{short.of_expected:.2f} of it at {short.sample.size}"
    return f"{said_of(rows[-1])}; furthest below what is expected: {below}"


def _path(places: Sequence[tuple[float, float]]) -> str:
    if not places:
        return ""
    # One place alone is drawn as a dash, so that it is seen.
    ends = places if len(places) > 1 else [*places, (places[0][0] - 12.0, places[0][1])]
    return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in ends)
