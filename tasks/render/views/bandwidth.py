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

from checks.documents.columns import CheckTable, by_check
from checks.facts.instances import Facts
from checks.judge.rules.expected_questions import taking_part
from checks.judge.rules.expected_values import expected_busbw, transport_of
from checks.model import Declared, Outcome, Report, Value
from checks.value_types import byte_size
from tasks.text.inert import one_line
from tasks.text.tables import Table, table

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
NO_TABLE = "No table of expected rates was given, so the measured rates are compared with nothing here."
_SANE = 1e18


@dataclass(frozen=True)
class CollectiveRate:
    """One message size of a collective over all ranks: slowest, median and fastest. `expected` is None if it is not known."""

    check: str
    size_bytes: float
    least: float
    middle: float
    most: float
    ranks: int
    expected: float | None = None

    @property
    def share(self) -> float | None:
        """The slowest rank's share of what is expected."""
        return None if self.expected is None else self.least / self.expected


@dataclass(frozen=True)
class Bandwidth:
    """All collectives that were measured, by name and size; of very many sizes some are left out. `sources` say who measured what is
    expected. `unknown` says of which collectives nothing is expected, and why: that must not look like an expectation that is met.
    """

    rates: tuple[CollectiveRate, ...]
    sources: tuple[str, ...]
    unknown: tuple[str, ...]


def bandwidth(report: Report, facts: Facts | None) -> Bandwidth:
    """What the report measured. `facts` are those that it was judged by."""
    rates: list[CollectiveRate] = []
    sources, unknown = dict[str, None](), dict[str, None]()
    for check, by_size in sorted(_measured(report).items()):
        # From the largest downwards: the one that shows the peak is never the one that is left out.
        sizes = sorted(by_size)[:: -math.ceil(len(by_size) / SIZES)][::-1]
        values, note = _expected(check, sizes, report.declared, facts)
        (sources if values else unknown)[note] = None
        for size in sizes:
            speeds = by_size[size]
            ends = min(speeds), median(speeds), max(speeds)
            rates.append(CollectiveRate(check, size, *ends, len(speeds), values.get(size)))
    return Bandwidth(tuple(rates), tuple(sources), tuple(unknown))


def _measured(report: Report) -> Mapping[str, Mapping[float, list[float]]]:
    speeds: dict[str, dict[float, list[float]]] = defaultdict(lambda: defaultdict(list))
    for check, check_table in by_check(report.observations).items():
        for size, busbw in _pairs(check_table) if check.startswith(FAMILIES) else ():
            speeds[check][size].append(busbw)
    return speeds


def _pairs(check_table: CheckTable) -> Iterator[tuple[float, float]]:
    """Each size above 0 with a speed that was measured at it."""
    columns = check_table.column("sizes_bytes"), check_table.column("busbw_gbps")
    if not any(name in check_table.columns.metrics for name in ("sizes_bytes", "busbw_gbps")):
        return
    numbers: dict[object, list[float | None]] = {}
    for sizes, speeds, outcome in zip(*columns, check_table.columns.outcomes, strict=True):
        if outcome is Outcome.MEASURED:
            if sizes not in numbers:  # thousands of ranks are measured at the same sizes
                numbers[sizes] = _numbers(sizes)
            for size, busbw in zip(numbers[sizes], _numbers(speeds), strict=False):
                if size is not None and busbw is not None and size > 0:
                    yield size, busbw


def _numbers(value: Value | None) -> list[float | None]:
    """The values that can be compared; None for any other."""
    items = value if isinstance(value, tuple) else ()
    return [float(item) if isinstance(item, (int, float)) and 0 <= item <= _SANE else None for item in items]


def _expected(
    check: str, sizes: Sequence[float], declared: Declared, facts: Facts | None
) -> tuple[dict[float, float], str]:
    """What is expected at each size, and whose numbers these are; or nothing, and why."""
    if facts is None:
        return {}, NO_TABLE
    facts = facts.merged(declared)
    name, group = declared.instance_type, taking_part(check, declared)
    instance = facts.instances.get(name)
    subject = f"{group.collective} over {group.ranks} ranks of {group.nodes} x {name}"
    if instance is None:
        return {}, f"Nothing is known of {name}, so nothing is expected of {subject}."
    transport = transport_of(instance, group.nodes)
    values, source = dict[float, float](), ""
    for size in sizes:
        rate = expected_busbw(facts, name, group.nodes, group.ranks, group.collective, size, transport)
        if rate is not None and rate.value > 0:
            values[size], source = rate.value, str(rate.provenance)
    if values:
        return values, f"Expected of {check}: {source}"
    where = f" ({transport})" if transport else ""
    return {}, f"Nothing is known of {subject}{where}: nothing is expected of it here."


def bandwidth_table(rates: Sequence[CollectiveRate]) -> Table:
    """The rates as text."""
    return table(HEAD, map(_cells, rates))


def _cells(rate: CollectiveRate) -> tuple[str, ...]:
    return (
        one_line(rate.check, 120), byte_size(rate.size_bytes), f"{rate.least:.3g}", f"{rate.middle:.3g}", f"{rate.most:.3g}",
        str(rate.ranks), "not known" if rate.expected is None else f"{rate.expected:.4g}",
        "" if rate.share is None else f"{rate.share:.2f}",
    )  # fmt: skip
