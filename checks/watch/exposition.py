"""The watch's metrics. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from checks.documents.open_findings import Closer, OpenFinding, OpenFindings
from checks.model import Cause, Level, Observation, Outcome, Value
from checks.probes.kernel.xid_decision import COUNTED
from checks.version import ENGINE
from checks.watch import families
from checks.watch.families import Family, Sample, cut, text_of
from checks.watch.rounds import RoundResult

# One scrape of a node stays small, whatever was found there.
MOST_FINDINGS = 200
EFA_COUNTERS = ("rx_drops", "error_events", "retransmitted_packets")
# A family, the check and the metric that it shows, the metric's labels, and the labels of the family after the first.
Source = tuple[Family, str, str, str, tuple[str, ...]]
AS_MEASURED: tuple[Source, ...] = (
    (families.RECOVERY_ACTION, "gpu.recovery_action", "recovery_action", "gpus", ()),
    (families.REMAP_PENDING, "gpu.row_remap", "remap_pending", "gpus", ()),
    (families.REMAP_FAILED, "gpu.row_remap", "remap_failed", "gpus", ()),
    *((families.XIDS, "kernel.xid", need.value, "gpus", (need.value,)) for need in COUNTED),
)
# What grew from round to round, since this watch began: Prometheus recognises a restart.
GROWN: tuple[Source, ...] = (
    (families.NVLINK_RECOVERIES, "gpu.nvlink", "link_recoveries", "gpus", ()),
    *((families.EFA_ERRORS, "efa.counters", name, "devices", (name,)) for name in EFA_COUNTERS),
)


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
    totals: Counter[tuple[Family, tuple[str, ...]]] = field(default_factory=Counter)


def exposition(numbers: WatchNumbers) -> str:
    """The text of one scrape, with every family of the watch that has a sample."""
    return text_of(_samples(numbers))


def _samples(numbers: WatchNumbers) -> Iterator[Sample]:
    yield families.BUILD_INFO, (ENGINE,), 1
    yield families.DECLARED_GPUS, (numbers.instance_type,), numbers.declared_gpus
    yield families.INTERVAL, (), numbers.interval_s
    yield families.REQUIRED, (), numbers.required
    yield families.ROUNDS, ("complete",), numbers.in_time
    yield families.ROUNDS, ("deadline",), numbers.late
    yield from _findings(numbers.findings)
    for (family, labels), count in numbers.totals.items():
        yield family, labels, count
    if numbers.last is not None:
        yield from _round(numbers.last)


def _findings(findings: OpenFindings) -> Iterator[Sample]:
    by_gravity = sorted(findings.open, key=lambda finding: (-finding.level.rank, finding.opened_at))
    # Two findings whose long names are cut alike are one series; the other one is counted as omitted.
    listed = dict.fromkeys(tuple(map(cut, _labels(finding))) for finding in by_gravity[:MOST_FINDINGS])
    for labels in listed:
        yield families.OPEN, labels, 1
    counted = Counter((finding.level, finding.key.cause) for finding in findings.open)
    for level in (Level.WARN, Level.FAIL):
        for cause in Cause:
            yield families.OPEN_COUNT, (level.value, cause.value), counted[level, cause]
    yield families.OMITTED, (), findings.omitted + len(findings.open) - len(listed)
    yield families.OPENED, (), findings.opened_total
    for closer in Closer:
        yield families.CLOSED, (closer.value,), findings.closed_total.get(closer.value, 0)


def _round(last: RoundResult) -> Iterator[Sample]:
    yield families.LAST_ROUND, (), last.ended_at
    yield families.ROUND_DURATION, (), last.ended_at - last.began_at
    counted = Counter(observation.outcome for observation in last.observations)
    for outcome in Outcome:
        yield families.OBSERVATIONS, (outcome.value,), counted[outcome]
    for observation in last.observations:
        yield families.CHECK_DURATION, (observation.check,), observation.seconds
    gpus = _measured(last.observations).get("gpu.inventory", {}).get("gpus_found")
    if isinstance(gpus, int):
        yield families.FOUND_GPUS, (), gpus
    yield from read(AS_MEASURED, last.observations)


def read(sources: Sequence[Source], observations: Sequence[Observation]) -> Iterator[Sample]:
    """The families as one round measured them: a sample for each label that has a number."""
    measured = _measured(observations)
    for family, check, metric, by, more in sources:
        metrics = measured.get(check, {})
        names, numbers = metrics.get(by), metrics.get(metric)
        if isinstance(names, tuple) and isinstance(numbers, tuple) and len(names) == len(numbers):
            for name, number in zip(names, numbers, strict=True):
                if isinstance(number, (int, float)):
                    yield family, (str(name), *more), float(number)


def _measured(entries: Sequence[Observation]) -> dict[str, Mapping[str, Value]]:
    return {entry.check: entry.metrics for entry in entries if entry.outcome is Outcome.MEASURED}


def _labels(opened: OpenFinding) -> tuple[str, ...]:
    return (opened.key.check, opened.key.part, opened.key.metric, opened.level.value, opened.key.cause.value)
