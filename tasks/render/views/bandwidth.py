"""Bus bandwidth by message size as it was measured, beside what was expected, as numbers and as coordinates of a plot (pure).

There is one panel per collective, with its expected values in the same panel. Sizes are bytes on a logarithmic axis, bandwidths
10^9 bytes/s by the formulas of nccl-tests on a linear axis that starts at 0. Nothing here judges a ratio.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from checks.documents.columns import Rows, by_check
from checks.model import Outcome, Report, Value
from tasks.render.views.expectations import Expectations, ExpectedAt, ExpectedCurve, Floor

FAMILIES = ("collective.", "nccl.")
SIZES = 256
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")
_SANE = 1e18
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 480.0, 260.0, 52.0, 16.0, 16.0, 48.0
TICKS = 5
# A threshold that would lie on the axis is not drawn, only written.
LEAST_SHARE = 0.02


@dataclass(frozen=True)
class Sample:
    """One message size over all ranks: the slowest, the median and the fastest."""

    size_bytes: float
    least: float
    middle: float
    most: float
    ranks: int

    @property
    def size(self) -> str:
        """Such as "64 KiB"."""
        return size_text(self.size_bytes)


@dataclass(frozen=True)
class Sweep:
    """One collective by size, the smallest first; `hidden` sizes were thinned out."""

    check: str
    samples: tuple[Sample, ...]
    hidden: int = 0


@dataclass(frozen=True)
class Row:
    """One size of one collective beside the expected value, None if none is known."""

    check: str
    sample: Sample
    expected: ExpectedAt | None

    @property
    def of_expected(self) -> float | None:
        """The slowest rank's share of what is expected."""
        return None if self.expected is None else self.sample.least / self.expected.value


def sweeps(report: Report) -> tuple[Sweep, ...]:
    """Every collective that was measured at one size or more, by name."""
    found: dict[str, dict[float, list[float]]] = defaultdict(lambda: defaultdict(list))
    for check, rows in by_check(report.observations).items():
        for size, busbw in _pairs(rows) if check.startswith(FAMILIES) else ():
            found[check][size].append(busbw)
    return tuple(_sweep(check, by_size) for check, by_size in sorted(found.items()))


def bandwidth_rows(measured: Sequence[Sweep], expectations: Expectations) -> tuple[Row, ...]:
    """All sizes of all collectives."""
    return tuple(
        Row(sweep.check, sample, expectations.at(sweep.check, sample.size_bytes))
        for sweep in measured
        for sample in sweep.samples
    )


def largest(rows: Sequence[Row]) -> tuple[Row, ...]:
    """The largest size of each collective, where a message shows bandwidth instead of latency."""
    found: dict[str, Row] = {}
    for row in rows:
        held = found.get(row.check)
        if held is None or row.sample.size_bytes > held.sample.size_bytes:
            found[row.check] = row
    return tuple(found.values())


def said_of(row: Row) -> str:
    """Such as "at 1 GiB: slowest rank 310 GB/s, median 312 of 16 ranks; expected 480, so 0.65 of it"."""
    s = row.sample
    said = f"at {s.size}: slowest rank {s.least:.3g} GB/s, median {s.middle:.3g} of {s.ranks} ranks"
    if row.expected is None or row.of_expected is None:
        return f"{said}; no expectation is known"
    return f"{said}; expected {row.expected.value:.4g}, so {row.of_expected:.2f} of it"


def size_text(size_bytes: float) -> str:
    """Bytes in the largest binary unit that leaves at least 1: 65536 -> "64 KiB"."""
    power = min(len(_UNITS) - 1, int(math.log(max(size_bytes, 1), 1024) + 1e-9))
    return f"{size_bytes / 1024**power:.4g} {_UNITS[power]}"


def _sweep(check: str, by_size: Mapping[float, list[float]]) -> Sweep:
    every = math.ceil(len(by_size) / SIZES)
    # From the largest downwards: the one that shows the peak is never the one that is left out.
    shown = sorted(by_size)[::-every][::-1]
    samples = (
        Sample(size, min(by_size[size]), median(by_size[size]), max(by_size[size]), len(by_size[size]))
        for size in shown
    )
    return Sweep(check, tuple(samples), len(by_size) - len(shown))


def _pairs(rows: Rows) -> Iterator[tuple[float, float]]:
    """Each size above 0 with a speed that was measured at it."""
    columns = rows.column("sizes_bytes"), rows.column("busbw_gbps")
    if not any(name in rows.columns.metrics for name in ("sizes_bytes", "busbw_gbps")):
        return
    known: dict[object, list[float | None]] = {}
    for sizes, speeds, outcome in zip(*columns, rows.columns.outcomes, strict=True):
        if outcome is Outcome.MEASURED:
            if sizes not in known:  # thousands of ranks are measured at the same sizes
                known[sizes] = _numbers(sizes)
            for size, busbw in zip(known[sizes], _numbers(speeds), strict=False):
                if size is not None and busbw is not None and size > 0:
                    yield size, busbw


def _numbers(value: Value | None) -> list[float | None]:
    """The values that can be drawn; None for any other."""
    items = value if isinstance(value, tuple) else ()
    return [float(item) if isinstance(item, (int, float)) and 0 <= item <= _SANE else None for item in items]


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
    """A threshold of the policy, at its height; `y` is None if it would not be visible."""

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
    """One panel for every collective that was measured at two sizes or more."""
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
