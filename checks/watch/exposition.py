"""The watch's metrics. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from checks.documents.open_findings import Closer, OpenFinding, OpenFindings
from checks.model import Cause, Level, Outcome, Value
from checks.version import ENGINE
from checks.watch import families
from checks.watch.counters import Totals, side_by_side
from checks.watch.families import Family, Row, cut, text_of
from checks.watch.rounds import RoundResult

# One scrape of a node stays small, whatever was found there.
MOST_FINDINGS = 200


@dataclass
class WatchNumbers:
    """What a watch knows about itself. `last` is the last round, None before the first one has ended."""

    instance_type: str
    declared_gpus: int
    interval_s: float
    required: int
    findings: OpenFindings = field(default_factory=OpenFindings)
    last: RoundResult | None = None
    in_time: int = 0
    late: int = 0
    totals: Totals = field(default_factory=Totals)


def exposition(numbers: WatchNumbers) -> str:
    """The text of one scrape, with every family of the watch that has a sample."""
    return text_of(_samples(numbers))


def _samples(numbers: WatchNumbers) -> Iterator[Row]:
    yield families.BUILD_INFO, (ENGINE,), 1
    yield families.DECLARED_GPUS, (numbers.instance_type,), numbers.declared_gpus
    yield families.INTERVAL, (), numbers.interval_s
    yield families.REQUIRED, (), numbers.required
    yield families.ROUNDS, ("complete",), numbers.in_time
    yield families.ROUNDS, ("deadline",), numbers.late
    yield from _findings(numbers.findings)
    for (gpu, code, need), count in numbers.totals.xids.items():
        yield families.XIDS, (gpu, code, need), count
    for gpu, count in numbers.totals.nvlink_recoveries.items():
        yield families.NVLINK_RECOVERIES, (gpu,), count
    for (device, counter), count in numbers.totals.efa_errors.items():
        yield families.EFA_ERRORS, (device, counter), count
    if numbers.last is not None:
        yield from _round(numbers.last)


def _findings(known: OpenFindings) -> Iterator[Row]:
    by_gravity = sorted(known.open, key=lambda one: (-one.level.rank, one.opened_at))
    # Two findings whose long names are cut alike are one series; the other one is counted as omitted.
    listed = dict.fromkeys(tuple(map(cut, _labels(one))) for one in by_gravity[:MOST_FINDINGS])
    for labels in listed:
        yield families.OPEN, labels, 1
    counted = Counter((one.level, one.key.cause) for one in known.open)
    for level in (Level.WARN, Level.FAIL):
        for cause in Cause:
            yield families.OPEN_COUNT, (level.value, cause.value), counted[level, cause]
    yield families.OMITTED, (), known.omitted + len(known.open) - len(listed)
    yield families.OPENED, (), known.opened_total
    for closer in Closer:
        yield families.CLOSED, (closer.value,), known.closed_total.get(closer.value, 0)


def _round(last: RoundResult) -> Iterator[Row]:
    yield families.LAST_ROUND, (), last.ended_at
    yield families.ROUND_DURATION, (), last.ended_at - last.began_at
    counted = Counter(row.outcome for row in last.rows)
    for outcome in Outcome:
        yield families.OBSERVATIONS, (outcome.value,), counted[outcome]
    for row in last.rows:
        yield families.CHECK_DURATION, (row.check,), row.seconds
    measured = {row.check: row.metrics for row in last.rows if row.outcome is Outcome.MEASURED}
    found = measured.get("gpu.inventory", {}).get("gpus_found")
    if isinstance(found, int):
        yield families.FOUND_GPUS, (), found
    for family, check, metric in (
        (families.RECOVERY_ACTION, "gpu.recovery_action", "recovery_action"),
        (families.REMAP_PENDING, "gpu.row_remap", "remap_pending"),
        (families.REMAP_FAILED, "gpu.row_remap", "remap_failed"),
    ):
        yield from _by_gpu(family, measured.get(check, {}), metric)


def _by_gpu(family: Family, metrics: Mapping[str, Value], metric: str) -> Iterator[Row]:
    for gpu, value in side_by_side(metrics, "gpus", metric):
        yield family, (gpu,), value


def _labels(one: OpenFinding) -> tuple[str, ...]:
    return (one.key.check, one.key.part, one.key.metric, one.level.value, one.key.cause.value)
