"""Bus bandwidth by message size as it was measured, beside what the declared machines should reach, with sources (pure).

Sizes are bytes, bandwidths 10^9 bytes/s by the formulas of nccl-tests. Nothing here judges a ratio: the verdict alone decides whether
a bandwidth is good enough.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from checks.documents.columns import Rows, by_check
from checks.facts.instances import Facts
from checks.judge.rules.expected_questions import taking_part
from checks.judge.rules.expected_values import expected_busbw, transport_of
from checks.model import Outcome, Report, Value
from tasks.render.views.table import Table, table
from tasks.text.inert import one_line

FAMILIES = ("collective.", "nccl.")
SIZES = 256
HEAD = (
    "Check",
    "Size",
    "Slowest rank, GB/s",
    "Median",
    "Fastest",
    "Ranks",
    "Expected",
    "Slowest of expected",
)
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
    """One collective by size, the smallest first; of very many sizes some are left out."""

    check: str
    samples: tuple[Sample, ...]


@dataclass(frozen=True)
class ExpectedAt:
    """At one size: most likely `value`, at least `low`, in 10^9 bytes/s."""

    size_bytes: float
    value: float
    low: float


@dataclass(frozen=True)
class ExpectedCurve:
    """One check's expectation at the sizes that were measured; `source` says who measured what on which machines."""

    check: str
    points: tuple[ExpectedAt, ...]
    source: str


@dataclass(frozen=True)
class Expectations:
    """`unknown` says of which collectives nothing is expected, and why: no expectation must not look like one that is met."""

    curves: tuple[ExpectedCurve, ...] = ()
    unknown: tuple[str, ...] = ()

    def curve(self, check: str) -> ExpectedCurve | None:
        """The check's expectation."""
        return next((curve for curve in self.curves if curve.check == check), None)

    def at(self, check: str, size_bytes: float) -> ExpectedAt | None:
        """The expected value of the check at this size; None if none is known."""
        curve = self.curve(check)
        return next((p for p in curve.points if p.size_bytes == size_bytes), None) if curve else None


NOTHING_EXPECTED = Expectations(
    unknown=("No table of expected rates was given, so the measured rates are compared with nothing here.",)
)


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


def _sweep(check: str, by_size: Mapping[float, list[float]]) -> Sweep:
    # From the largest downwards: the one that shows the peak is never the one that is left out.
    sizes = sorted(by_size)[:: -math.ceil(len(by_size) / SIZES)][::-1]
    rates = ((size, by_size[size]) for size in sizes)
    return Sweep(
        check, tuple(Sample(size, min(all_), median(all_), max(all_), len(all_)) for size, all_ in rates)
    )


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


def expectations(report: Report, facts: Facts | None) -> Expectations:
    """For every collective that was measured by size. `facts` are those that the report was judged by."""
    if facts is None:
        return NOTHING_EXPECTED
    found = [_curve(sweep, report, facts) for sweep in sweeps(report)]
    return Expectations(
        tuple(one for one in found if isinstance(one, ExpectedCurve)),
        tuple(dict.fromkeys(one for one in found if isinstance(one, str))),
    )


def _curve(sweep: Sweep, report: Report, facts: Facts) -> ExpectedCurve | str:
    declared, facts = report.declared, facts.of(report.declared)
    kind, group = declared.instance_type, taking_part(sweep.check, declared)
    instance = facts.instances.get(kind)
    named = f"{group.collective} over {group.ranks} ranks of {group.nodes} x {kind}"
    if instance is None:
        return f"Nothing is known of {kind}, so nothing is expected of {named}."
    transport = transport_of(instance, group.nodes)
    points, source = [], ""
    for size in (sample.size_bytes for sample in sweep.samples):
        known = expected_busbw(facts, kind, group.nodes, group.ranks, group.collective, size, transport)
        if known is not None and known.value > 0:
            points.append(ExpectedAt(size, known.value, known.low))
            source = str(known.provenance)
    if not points:
        return f"Nothing is known of {named}{f' ({transport})' if transport else ''}: nothing is expected of it here."
    return ExpectedCurve(sweep.check, tuple(points), source)


def bandwidth_rows(measured: Sequence[Sweep], expected: Expectations) -> tuple[Row, ...]:
    """All sizes of all collectives."""
    return tuple(
        Row(sweep.check, sample, expected.at(sweep.check, sample.size_bytes))
        for sweep in measured
        for sample in sweep.samples
    )


def telling(rows: Sequence[Row]) -> tuple[Row, ...]:
    """The largest size of each collective, where a message shows bandwidth instead of latency, and the row furthest below what is
    expected of it.
    """
    largest = {row.check: row for row in sorted(rows, key=lambda row: row.sample.size_bytes)}
    found = [largest[check] for check in dict.fromkeys(row.check for row in rows)]
    below = furthest_below(rows)
    return tuple(dict.fromkeys([*found, below] if below is not None else found))


def furthest_below(rows: Sequence[Row]) -> Row | None:
    """The row with the smallest share of what is expected; None where nothing is."""
    known = [(row.of_expected, row) for row in rows if row.of_expected is not None]
    return min(known, key=lambda pair: pair[0])[1] if known else None


def bandwidth_table(rows: Sequence[Row]) -> Table:
    """The rows as text."""
    return table(HEAD, map(_cells, rows))


def _cells(row: Row) -> tuple[str, ...]:
    s, share = row.sample, row.of_expected
    return (
        one_line(row.check, 120), s.size, f"{s.least:.3g}", f"{s.middle:.3g}", f"{s.most:.3g}", str(s.ranks),
        "not known" if row.expected is None else f"{row.expected.value:.4g}", "" if share is None else f"{share:.2f}",
    )  # fmt: skip


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
