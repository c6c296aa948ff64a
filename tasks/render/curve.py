"""Bus bandwidth by message size, as coordinates for a chart (pure).

Sizes are bytes on a logarithmic axis, bandwidths 10^9 bytes/s on a linear one that starts at 0.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from checks.columns import by_check
from checks.model import Observation, Outcome, Report, Value

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 640.0, 320.0, 64.0, 16.0, 16.0, 56.0
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")
_SANE = 1e18
SIZES = 256


@dataclass(frozen=True)
class Point:
    """One message size over all ranks; x, y, y_least and y_most are places in the chart."""

    size_bytes: float
    least: float
    middle: float
    most: float
    ranks: int
    x: float
    y: float
    y_least: float
    y_most: float

    @property
    def size(self) -> str:
        """Such as "64 KiB"."""
        return size_text(self.size_bytes)


@dataclass(frozen=True)
class Curve:
    """One collective. `line` and `band` are SVG path data: the median, and slowest to fastest rank."""

    check: str
    points: tuple[Point, ...]
    line: str
    band: str


@dataclass(frozen=True)
class Tick:
    """A mark on an axis."""

    at: float
    label: str


@dataclass(frozen=True)
class Chart:
    """All collectives on one pair of axes."""

    curves: tuple[Curve, ...]
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]


def chart(report: Report) -> Chart | None:
    """The bandwidth curves of the report's collectives; None without two sizes to join."""
    samples: dict[str, dict[float, list[float]]] = defaultdict(lambda: defaultdict(list))
    for check, rows in by_check(report.observations).items():
        drawn_from = rows if check.startswith(("collective.", "nccl.")) else ()
        for row in drawn_from:
            for size, busbw in _pairs(row) if row.outcome is Outcome.MEASURED else ():
                samples[check][size].append(busbw)
    drawn = {check: _thinned(by_size) for check, by_size in sorted(samples.items()) if len(by_size) > 1}
    if not drawn:
        return None
    sizes = sorted({size for by_size in drawn.values() for size in by_size})
    top, step = _scale(
        max(value for by_size in drawn.values() for values in by_size.values() for value in values)
    )
    curves = tuple(_curve(check, by_size, sizes, top) for check, by_size in drawn.items())
    y_ticks = tuple(Tick(_y(step * i, top), f"{step * i:.4g}") for i in range(round(top / step) + 1))
    return Chart(curves, _size_ticks(sizes), y_ticks)


def size_text(size_bytes: float) -> str:
    """Bytes in the largest binary unit that leaves at least 1: 65536 -> "64 KiB"."""
    power = min(len(_UNITS) - 1, int(math.log(max(size_bytes, 1), 1024) + 1e-9))
    return f"{size_bytes / 1024**power:.4g} {_UNITS[power]}"


def _thinned(by_size: dict[float, list[float]]) -> dict[float, list[float]]:
    every = math.ceil(len(by_size) / SIZES)
    return {size: by_size[size] for size in sorted(by_size)[::every]}


def _curve(check: str, by_size: dict[float, list[float]], sizes: Sequence[float], top: float) -> Curve:
    points = []
    for size, values in sorted(by_size.items()):
        low, middle, high = min(values), median(values), max(values)
        y, y_least, y_most = (_y(value, top) for value in (middle, low, high))
        points.append(Point(size, low, middle, high, len(values), _x(size, sizes), y, y_least, y_most))
    line = _path([(p.x, p.y) for p in points])
    back = [(p.x, p.y_least) for p in reversed(points)]
    return Curve(check, tuple(points), line, _path([*((p.x, p.y_most) for p in points), *back]) + "Z")


def _path(places: Sequence[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in places)


def _x(size: float, sizes: Sequence[float]) -> float:
    least, most = math.log(sizes[0]), math.log(sizes[-1])
    return LEFT + (WIDTH - LEFT - RIGHT) * (math.log(size) - least) / max(most - least, 1e-9)


def _y(value: float, top: float) -> float:
    return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * value / top


def _scale(most: float) -> tuple[float, float]:
    """The axis' end and the step between its marks: 1, 2 or 5 times a power of ten, four to eight of them."""
    if most < 1e-9:
        return 1.0, 0.25
    power = 10.0 ** math.floor(math.log10(most / 4))
    step = next(power * f for f in (1, 2, 5, 10) if most / (power * f) <= 8)
    return step * math.ceil(most / step - 1e-9), step


def _size_ticks(sizes: Sequence[float]) -> tuple[Tick, ...]:
    every = max(1, math.ceil(len(sizes) / 7))
    return tuple(Tick(_x(size, sizes), size_text(size)) for size in sizes[::every])


def _pairs(row: Observation) -> list[tuple[float, float]]:
    sizes, speeds = (_numbers(row.metrics.get(name)) for name in ("sizes_bytes", "busbw_gbps"))
    return [(s, b) for s, b in zip(sizes, speeds, strict=False) if s is not None and b is not None and s > 0]


def _numbers(value: Value | None) -> list[float | None]:
    """What can be drawn; None for everything else."""
    items = value if isinstance(value, tuple) else ()
    return [float(item) if isinstance(item, (int, float)) and 0 <= item <= _SANE else None for item in items]
