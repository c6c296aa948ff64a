"""Learns a baseline from reports: a robust band for each number, and a list of every value that was left out. Pure."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from statistics import NormalDist

from checks.documents.columns import CheckTable, by_check
from checks.judge.baseline.bands import Band, Baseline, ExcludedInput, Learned, NotLearned, Outlier
from checks.judge.baseline.compare import versions_of
from checks.judge.baseline.samples import (
    ComparisonGroup,
    Samples,
    Side,
    gather,
    group_of,
    label_sort_key,
    label_text,
    measured,
)
from checks.judge.cpu_contention import RecordedLoads
from checks.judge.robust_statistics import MAD_SCALE
from checks.judge.rules.wording import figure
from checks.model import CLUSTER, SCHEMA_VERSION, Level, Report, Verdict, node_of
from checks.policy import Policy
from checks.version import ENGINE

# The MAD's small-sample factor is tabled to 9 values, and is n/(n - 0.8) above (Croux and Rousseeuw, COMPSTAT 1992, p. 411).
LEAST_VALUES = 8
# "Modified z-scores" above 3.5 are labelled outliers: Iglewicz and Hoaglin, How to Detect and Handle Outliers (ASQC, 1993).
DEVIATIONS = 3.5
# At most one in a hundred bands may exclude a healthy value, so the band is wider where a metric has many values.
CHANCE = 0.01
# SuperBench's own rules call 5 % off the baseline defective (its documentation, "Data Diagnosis": lambda x: x < -0.05);
# healthy GPUs of one B200 node differ by 3.1 % (published GEMM table, see checks/facts). A smaller difference is no finding.
LEAST_WIDTH = 0.05
# Judgement, as max_unfit_fraction of the shipped policies: a larger share are not outliers but another kind of machine.
MOST_OUTLIERS = 0.25
ROUNDS = 20

Name = tuple[str, str, str]


@dataclass(frozen=True)
class ReportCase:
    """A report and its verdict without a baseline. Nothing is learned from what failed."""

    report: Report
    verdict: Verdict
    policy: Policy


@dataclass(frozen=True)
class _Pool:
    """One number of a group, from all reports that have it: (the report's digest, its gate, its values)."""

    side: Side
    entries: list[tuple[str, str, Samples]]


def learn(cases: Sequence[ReportCase]) -> Baseline:
    """The baseline. It does not depend on the order of the cases, and a report that is given twice counts once."""
    ordered = sorted(cases, key=lambda case: case.verdict.digests.report)
    left_out: list[ExcludedInput] = []
    pools: dict[ComparisonGroup, dict[Name, _Pool]] = {}
    versions: dict[ComparisonGroup, dict[str, set[str]]] = {}
    by_digest: dict[str, ReportCase] = {}
    for case in ordered:
        if by_digest.setdefault(case.verdict.digests.report, case) is not case:
            left_out.append(
                ExcludedInput(case.report.gate_id, CLUSTER, "", "the same report was given twice")
            )
            continue
        records = by_check(case.report.observations)
        refused = [*_refused(case), *_busy(case, records)]
        left_out += refused
        _take(case, records, refused, pools, versions)
    groups = [_group(group, pools[group], versions[group]) for group in sorted(pools, key=str)]
    newest = max((case.report.measured_at for case in ordered), default="")
    return Baseline(SCHEMA_VERSION, ENGINE, newest, tuple(by_digest), tuple(groups), tuple(left_out))


def _refused(case: ReportCase) -> Iterator[ExcludedInput]:
    """What a FAIL was found about. A faulty node slows everything that it takes part in, so that this is left out as well."""
    failed = [f for f in case.verdict.findings if f.level is Level.FAIL]
    gate = case.report.gate_id
    whole = next((f for f in failed if f.check in ("policy", "facts")), None)
    if whole is not None:
        yield ExcludedInput(gate, CLUSTER, "", whole.message)
        return
    names = {node.name for node in case.report.nodes}
    shared = {
        p.check for p in case.report.plan if group_of(case.report, case.policy.checks.get(p.check)).nodes
    }
    general = {f.check: f for f in reversed(failed) if node_of(f.subject) not in names}
    for check in sorted(general.keys() - shared):
        yield ExcludedInput(gate, CLUSTER, check, general[check].message)
    for check in sorted(shared) if failed else ():
        reason = f"{failed[0].subject} took part, and it has a finding: {failed[0].message}"
        yield ExcludedInput(gate, CLUSTER, check, reason)
    first = {node_of(f.subject): f for f in reversed(failed)}
    for node in sorted(first.keys() & names):
        yield ExcludedInput(gate, node, "", f"{first[node].check}: {first[node].message}")


def _busy(case: ReportCase, records: Mapping[str, CheckTable]) -> Iterator[ExcludedInput]:
    """What was measured while other work used the CPUs of a node, also where no threshold was crossed: it is no usual value of the
    machine. Such a node slows everything that it takes part in.
    """
    gate = case.report.gate_id
    for check, mine in sorted(records.items()):
        loads = RecordedLoads(mine, {}).busy_nodes()
        if loads and group_of(case.report, case.policy.checks.get(check)).nodes:
            yield ExcludedInput(gate, CLUSTER, check, "; ".join(loads.values()))
            continue
        for node, text in loads.items():
            yield ExcludedInput(gate, node, check, text)


def _take(
    case: ReportCase,
    measurements: Mapping[str, CheckTable],
    refused: Sequence[ExcludedInput],
    pools: dict[ComparisonGroup, dict[Name, _Pool]],
    versions: dict[ComparisonGroup, dict[str, set[str]]],
) -> None:
    """Adds what may be learned from one report to its groups."""
    report = case.report
    bad_nodes = {item.subject for item in refused if not item.check}
    bad_checks = {item.check for item in refused if item.check and item.subject == CLUSTER}
    if CLUSTER in bad_nodes:
        return
    without = {
        check: bad_nodes | {item.subject for item in refused if item.check == check} for check in measurements
    }
    tables = {
        check: measured(mine, without[check])
        for check, mine in measurements.items()
        if check not in bad_checks
    }
    software = versions_of([node for node in report.nodes if node.name not in bad_nodes], tables)
    for check, mine in tables.items():
        line = case.policy.checks.get(check)
        group = group_of(report, line)
        for key, series in gather(mine, line).items():
            pool = pools.setdefault(group, {}).setdefault((check, *key), _Pool(series.side, []))
            pool.entries.append((case.verdict.digests.report, report.gate_id, series))
            by_name = versions.setdefault(group, {})
            for name, items in software.items():
                by_name.setdefault(name, set()).update(items)


def _group(group: ComparisonGroup, pools: Mapping[Name, _Pool], versions: Mapping[str, set[str]]) -> Learned:
    bands: list[Band] = []
    outliers: list[Outlier] = []
    not_learned: list[NotLearned] = []
    for name in sorted(pools, key=lambda name: (*name[:2], label_sort_key(name[2]))):
        band = _band(name, pools[name])
        if isinstance(band, NotLearned):
            not_learned.append(band)
            continue
        bands.append(band)
        outliers += _outliers(band, pools[name])
    plain = {name: tuple(sorted(items)) for name, items in sorted(versions.items()) if items}
    return Learned(group, plain, tuple(bands), tuple(outliers), tuple(not_learned))


def _band(name: Name, pool: _Pool) -> Band | NotLearned:
    """Median and MAD of the values that remain when no more values lie outside of the band made from them."""
    values = sorted(chain.from_iterable(series.values for _, _, series in pool.entries))
    many = len(values)
    if many < LEAST_VALUES:
        return NotLearned(*name, f"{many} values, {LEAST_VALUES} are needed")
    start, end = 0, many
    middle, mad, low, high = _robust(values)
    for _ in range(ROUNDS):
        first, last = bisect_left(values, low), bisect_right(values, high)
        if (first, last) == (start, end) or last - first < LEAST_VALUES:
            break
        start, end = first, last
        middle, mad, low, high = _robust(values[start:end])
    first, last = bisect_left(values, low), bisect_right(values, high)
    if many - (last - first) > MOST_OUTLIERS * many:
        message = f"{many - (last - first)} of {many} values are far from the others: two kinds of machines, or many faulty ones"
        return NotLearned(*name, message)
    if pool.side is not Side.HIGH and low <= 0:
        reason = "vary so much that no value would be below the band" if middle > 0 else "are not above 0"
        return NotLearned(*name, f"{many} values {reason}, the median is {figure(middle)}")
    inliers = [entry for entry in pool.entries if any(low <= value <= high for value in entry[2].values)]
    nodes = {
        node_of(subject) for subject in set(chain.from_iterable(series.subjects for _, _, series in inliers))
    }
    reports = {report for report, _, _ in inliers}
    return Band(*name, pool.side, middle, mad, low, high, last - first, len(nodes), len(reports))


def _robust(values: Sequence[float]) -> tuple[float, float, float, float]:
    """Median, scaled MAD, and the band's ends, of sorted values. Each end follows the scatter on its own side."""
    many = len(values)
    middle = _median(values)
    mad = _median(sorted([abs(value - middle) for value in values]))
    below = middle - _median(values[: (many + 1) // 2])
    above = _median(values[many // 2 :]) - middle
    scale = MAD_SCALE * many / (many - 0.8)
    wide = max(DEVIATIONS, NormalDist().inv_cdf(1 - CHANCE / many))
    least = LEAST_WIDTH * abs(middle)
    low = middle - max(wide * scale * max(mad, below), least)
    high = middle + max(wide * scale * max(mad, above), least)
    return middle, scale * mad, low, high


def _median(values: Sequence[float]) -> float:
    half = len(values) // 2
    return values[half] if len(values) % 2 else (values[half - 1] + values[half]) / 2


def _outliers(band: Band, pool: _Pool) -> Iterator[Outlier]:
    for _, gate, series in pool.entries:
        if (
            band.low <= min(series.values, default=band.low)
            and max(series.values, default=band.low) <= band.high
        ):
            continue
        for value, subject in zip(series.values, series.subjects, strict=True):
            if not band.low <= value <= band.high:
                side = f"below {figure(band.low)}" if value < band.low else f"above {figure(band.high)}"
                reason = f"{label_text(band.metric, band.label)} {side}, the median is {figure(band.median)}"
                yield Outlier(gate, subject, band.check, band.metric, band.label, value, reason)
