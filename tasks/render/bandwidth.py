"""Bus bandwidth by message size as it was measured, and beside it what was expected there (pure).

Sizes are bytes, bandwidths 10^9 bytes/s by the formulas of nccl-tests. Nothing here judges: a ratio is a ratio.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from checks.columns import by_check
from checks.model import Observation, Outcome, Report, Value
from tasks.render.expectations import Expectations, ExpectedAt

FAMILIES = ("collective.", "nccl.")
SIZES = 256
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")
_SANE = 1e18


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
    """One size of one collective beside its expectation, None where nothing is known of it."""

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
        for row in rows if check.startswith(FAMILIES) else ():
            for size, busbw in _pairs(row) if row.outcome is Outcome.MEASURED else ():
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
    """Of each collective its largest size: where a message shows bandwidth and no latency."""
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


def _pairs(row: Observation) -> list[tuple[float, float]]:
    sizes, speeds = (_numbers(row.metrics.get(name)) for name in ("sizes_bytes", "busbw_gbps"))
    return [(s, b) for s, b in zip(sizes, speeds, strict=False) if s is not None and b is not None and s > 0]


def _numbers(value: Value | None) -> list[float | None]:
    """What can be drawn; None for everything else."""
    items = value if isinstance(value, tuple) else ()
    return [float(item) if isinstance(item, (int, float)) and 0 <= item <= _SANE else None for item in items]
