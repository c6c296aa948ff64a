"""Compares a report's numbers with those that the site's own machines reached before. Pure. `checks.judge.baseline.learn` learns the
bands.

A baseline only adds findings: machines that were slow when it was learned do not become acceptable because of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from checks.documents.columns import CheckTable
from checks.documents.report import clip
from checks.judge.baseline.bands import Band, Baseline
from checks.judge.baseline.samples import ComparisonGroup, Key, Samples, Side, gather, group_of, label_text
from checks.judge.rules.expected_questions import LEAST_BYTES
from checks.judge.rules.wording import figure
from checks.model import CLUSTER, Cause, Finding, FindingKind, Level, Node, Report, node_of
from checks.policy import Over, Policy
from checks.value_types import listed_names

FEW = 4
# Judgement: a band that includes half of the usual speed does not say how fast a part must be.
TELLS = 0.5
AGAIN = "Learn the baseline again from reports of this cluster: prelaunch fleet baseline learn REPORT... --out FILE."
COMPARE_REMEDY = "Compare this node with its peers. If its hardware is healthy, learn the baseline again."
CHANGED = "Find out what changed since then: image, driver, settings, placement. If the change is intended, learn the baseline again."


def without_answered(
    findings: Iterable[Finding],
    report: Report,
    records: Mapping[str, CheckTable],
    policy: Policy,
    baseline: Baseline,
    report_digest: str = "",
) -> Iterator[Finding]:
    """The findings without the "no baseline" findings of checks whose expected metrics all have bands, at every label.

    What was learned from this report alone (the report with this digest) does not count.
    """
    bands = _bands(report, policy, baseline)
    if is_own := (baseline.reports == (report_digest,)):
        message = "the baseline was learned from this report only, so comparing the two proves nothing"
        yield Finding(Level.WARN, Cause.EVIDENCE, "baseline", CLUSTER, message, "", AGAIN)
    for finding in findings:
        answerable = finding.kind is FindingKind.NO_BASELINE and finding.level is Level.WARN
        if is_own or not answerable or not _covers(finding.check, records, policy, bands):
            yield finding


def judge(
    report: Report, records: Mapping[str, CheckTable], policy: Policy, baseline: Baseline
) -> Iterator[Finding]:
    """WARNs for each sound value outside its band, for each band without a value, and for each value without a band."""
    bands, groups = _bands(report, policy, baseline), {learned.group for learned in baseline.groups}
    yield from _versions(report, records, policy, baseline)
    unknown: dict[ComparisonGroup, list[str]] = {}
    new: list[str] = []
    for check in dict.fromkeys([*(planned.check for planned in report.plan), *bands]):
        by_key = gather(_records_of(records, check), policy.checks.get(check))
        group = group_of(report, policy.checks.get(check))
        if by_key and group not in groups:
            unknown.setdefault(group, []).append(check)
            continue
        # The policy says which side is bad. What the band says may be from another policy, or invented.
        mine = {
            key: replace(band, bad=by_key[key].side) if key in by_key else band
            for key, band in bands.get(check, {}).items()
        }
        new += [
            f"{check} {label_text(*key)}" for key in sorted(by_key) if key not in mine and by_key[key].values
        ]
        yield from _compared(check, by_key, mine, _records_of(records, check))
    for group, checks in unknown.items():
        message = f"the baseline has no data for {group}: {listed_names(checks, FEW)} not compared"
        yield Finding(Level.WARN, Cause.EVIDENCE, "baseline", CLUSTER, message, _knows(baseline), AGAIN)
    if new and bands:
        message = f"the baseline has no band for {listed_names(new, FEW)}: not compared"
        text = clip("\n".join(new))[0] if len(new) > FEW else ""
        yield Finding(Level.WARN, Cause.EVIDENCE, "baseline", CLUSTER, message, text, AGAIN)
    if not unknown and not bands:
        message = "the baseline has no band for anything in this report: nothing was compared with it"
        yield Finding(Level.WARN, Cause.EVIDENCE, "baseline", CLUSTER, message, _knows(baseline), AGAIN)


def versions_of(nodes: Sequence[Node], records: Mapping[str, CheckTable]) -> dict[str, tuple[str, ...]]:
    """The versions of the software that the numbers depend on: driver, torch and NCCL."""
    versions: dict[str, set[object]] = {
        "driver": {node.identity.get("driver") for node in nodes},
        "torch": _texts(records, "system.identity", "torch"),
        "nccl": _texts(records, "nccl.transport", "nccl_version"),
    }
    return {
        name: tuple(sorted(str(item) for item in texts if isinstance(item, str) and item))
        for name, texts in versions.items()
    }


def _records_of(records: Mapping[str, CheckTable], check: str) -> CheckTable:
    return records.get(check) or CheckTable.collect(check, ())


def _texts(records: Mapping[str, CheckTable], check: str, metric: str) -> set[object]:
    return set(_records_of(records, check).column(metric))


def _bands(report: Report, policy: Policy, baseline: Baseline) -> dict[str, dict[Key, Band]]:
    """The bands by check. Bands of a check that needs no peers hold for clusters of any size."""
    bands: dict[str, dict[Key, Band]] = {}
    for learned in baseline.groups:
        for band in learned.bands:
            if learned.group == group_of(report, policy.checks.get(band.check)):
                bands.setdefault(band.check, {})[band.metric, band.label] = band
    return bands


def _covers(
    check: str, records: Mapping[str, CheckTable], policy: Policy, bands: Mapping[str, dict[Key, Band]]
) -> bool:
    line = policy.checks.get(check)
    rules = line.rules if line is not None else ()
    expected = {rule.metric for rule in rules if rule.over is Over.EXPECTED}
    mine = bands.get(check, {})
    measured = {
        key: each for key, each in gather(_records_of(records, check), line).items() if key[0] in expected
    }
    has_all = measured.keys() <= mine.keys()
    return has_all and bool(measured) and all(_tells(mine[key], each.side) for key, each in measured.items())


def _tells(band: Band, side: Side) -> bool:
    """Whether the band bounds that side tightly enough to judge a value. The time of a small message is latency."""
    if band.label.isdecimal() and int(band.label[:24]) < LEAST_BYTES:
        return True
    below = side is Side.HIGH or band.low >= TELLS * band.median > 0
    above = side is Side.LOW or 0 < band.high <= band.median / TELLS
    return below and above


def _compared(
    check: str, samples: dict[Key, Samples], bands: dict[Key, Band], records: CheckTable
) -> Iterator[Finding]:
    missing = sorted(key for key in bands if key not in samples or not samples[key].values)
    if missing:
        message = f"not measured, but the baseline has a band for it: {_labels_text(missing)}"
        yield Finding(Level.WARN, Cause.EVIDENCE, check, CLUSTER, message, "", AGAIN)
    measured = {key: samples[key] for key in bands if key not in missing}
    yield from _gaps(check, measured, records)
    for metric in sorted({metric for metric, _ in measured}):
        outside = [
            _Outside(bands[key], series)
            for key, series in sorted(measured.items())
            if key[0] == metric
            and not (bands[key].holds(min(series.values)) and bands[key].holds(max(series.values)))
        ]
        if outside:
            yield from _moved(check, outside)


def _gaps(check: str, samples: dict[Key, Samples], records: CheckTable) -> Iterator[Finding]:
    """The subjects that lack a number that has a band."""
    lacking: dict[str, list[Key]] = {}
    everybody = set(records.columns.subjects)
    for key, series in sorted(samples.items()):
        if series.subjects is records.columns.subjects:  # a whole column without a missing value
            continue
        absent = everybody.difference(series.subjects)
        for subject in sorted(absent.union(series.holes)):
            lacking.setdefault(subject, []).append(key)
    for subject, keys in lacking.items():
        message = f"not measured, but the baseline has a band for it: {_labels_text(keys)}"
        yield Finding(Level.WARN, Cause.EVIDENCE, check, subject, message, "", AGAIN)


class _Outside:
    """A band and the values of each subject that lie outside of it on its bad side."""

    def __init__(self, band: Band, series: Samples) -> None:
        self.band = band
        self.nodes = {node_of(subject) for subject in series.subjects}
        self.values: dict[str, list[float]] = {}
        for value, subject in zip(series.values, series.subjects, strict=True):
            if not band.holds(value):
                self.values.setdefault(subject, []).append(value)
        self.slow = {node_of(subject) for subject in self.values}

    @property
    def everywhere(self) -> bool:
        """Whether more than half of the nodes are outside: then it is something that they share, and not a part of one node."""
        return 2 * len(self.slow) > len(self.nodes)

    def worst(self, subject: str) -> float:
        """The value that is farthest from the band; of all subjects for "cluster"."""
        mine = self.values.get(subject) or [value for values in self.values.values() for value in values]
        return max(mine, key=lambda value: (abs(value - self.band.median), value))


def _moved(check: str, outside: Sequence[_Outside]) -> Iterator[Finding]:
    """The findings of one metric, over all its labels: one for the cluster if all values changed, and one for each subject that
    alone did.
    """
    shared = [breach for breach in outside if breach.everywhere]
    if shared:
        nodes = max((breach.nodes for breach in shared), key=len)
        slow = max(len(breach.slow) for breach in shared)
        subject = CLUSTER if len(nodes) > 1 else next(iter(nodes))
        where = f", on {slow} of {len(nodes)} nodes" if len(nodes) > 1 else ""
        text = f"{_deviation_text(shared, CLUSTER)}{where}: worse than in the reports that the band was learned from"
        metric = shared[0].band.metric
        yield Finding(Level.WARN, Cause.CONFIGURATION, check, subject, text, "", CHANGED, metric=metric)
    local = [breach for breach in outside if not breach.everywhere]
    for subject in dict.fromkeys(subject for breach in local for subject in breach.values):
        mine = [breach for breach in local if subject in breach.values]
        text = f"{_deviation_text(mine, subject)}, while most other nodes are within it"
        yield Finding(
            Level.WARN, Cause.HARDWARE, check, subject, text, "", COMPARE_REMEDY, metric=mine[0].band.metric
        )


def _deviation_text(outside: Sequence[_Outside], subject: str) -> str:
    """The band that is missed by most, and how many other values of the metric are outside their bands."""
    first = max(outside, key=lambda breach: (_far(breach.band, breach.worst(subject)), breach.band.label))
    band, value = first.band, first.worst(subject)
    side, edge = ("below", band.low) if value < band.low else ("above", band.high)
    more = f" (and {len(outside) - 1} more values are outside their bands)" if len(outside) > 1 else ""
    return (
        f"{label_text(band.metric, band.label)} is {figure(value)}, {side} the learned band, which ends at {figure(edge)}; "
        f"{_far(band, value):.0%} off the median of {figure(band.median)} ({band.values} values, {band.reports} reports){more}"
    )


def _far(band: Band, value: float) -> float:
    return abs(value - band.median) / abs(band.median) if band.median else 0.0


def _versions(
    report: Report, records: Mapping[str, CheckTable], policy: Policy, baseline: Baseline
) -> Iterator[Finding]:
    """A WARN where a number was learned with another version. It is compared all the same."""
    groups = {group_of(report, policy.checks.get(planned.check)) for planned in report.plan}
    for name, versions in versions_of(report.nodes, records).items():
        then = {
            item
            for learned in baseline.groups
            if learned.group in groups
            for item in learned.versions.get(name, ())
        }
        new = sorted(set(versions) - then)
        if then and not versions:
            message = f"{name} could not be read, but the baseline was learned with {listed_names(sorted(then), FEW)}"
            remedy = "Find out why it could not be read."
            yield Finding(Level.WARN, Cause.EVIDENCE, "baseline", CLUSTER, message, "", remedy)
        elif then and new:
            message = f"{name} is {listed_names(new, FEW)}, but the baseline was learned with {listed_names(sorted(then), FEW)}"
            yield Finding(Level.WARN, Cause.CONFIGURATION, "baseline", CLUSTER, message, "", AGAIN)


def _labels_text(keys: Sequence[Key]) -> str:
    return listed_names([label_text(*key) for key in keys], FEW)


def _knows(baseline: Baseline) -> str:
    lines = [f"{learned.group}: {len(learned.bands)} bands" for learned in baseline.groups]
    return "\n".join(["the baseline has:", *lines[:16]]) if lines else "the baseline is empty"
