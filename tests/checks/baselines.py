"""Reports whose GEMM is set, and baselines of them, for tests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from checks.judge.baseline.bands import Band, Baseline
from checks.judge.baseline.learn import ReportCase, learn
from checks.judge.verdict import decide
from checks.model import Finding, Report, Verdict
from checks.policy import Policy
from tests.sample_reports import FACTS, POLICY, healthy

GEMM = "compute.gemm"


def gemm(values: Sequence[float], gate: str = "g") -> Report:
    """One report whose ranks measured these; two ranks a node."""
    report = replace(healthy(len(values) // 2, 2), gate_id=gate)
    rows = iter(values)
    return replace(
        report,
        observations=tuple(
            replace(row, metrics={**row.metrics, "gflops": next(rows)}) if row.check == GEMM else row
            for row in report.observations
        ),
    )


def case(report: Report, policy: Policy = POLICY) -> ReportCase:
    """The report as it was judged."""
    return ReportCase(report, decide(report, policy, FACTS), policy)


def learned(*reports: Report) -> Baseline:
    """What the reports teach under the sample policy."""
    return learn([case(report) for report in reports])


def band_of(baseline: Baseline, check: str, metric: str, label: str = "") -> Band:
    """The one band of this name."""
    (found,) = [
        band
        for group in baseline.groups
        for band in group.bands
        if (band.check, band.metric, band.label) == (check, metric, label)
    ]
    return found


def judged(report: Report, baseline: Baseline | None, policy: Policy = POLICY) -> Verdict:
    """The verdict with a baseline."""
    return decide(report, policy, FACTS, baseline)


def about(verdict: Verdict, check: str) -> list[Finding]:
    """The verdict's findings about one check."""
    return [finding for finding in verdict.findings if finding.check == check]


def doctored(baseline: Baseline, factor: float) -> Baseline:
    """The baseline of machines that were so many times as fast in their GEMM."""
    groups = tuple(
        replace(
            group,
            bands=tuple(
                replace(b, median=b.median * factor, low=b.low * factor, high=b.high * factor)
                if b.check == GEMM
                else b
                for b in group.bands
            ),
        )
        for group in baseline.groups
    )
    return replace(baseline, groups=groups)


STEADY = [40.0, 40.4, 39.8, 40.2, 40.1, 39.9, 40.3, 39.7]
FOUR = learned(*(replace(gemm(STEADY), gate_id=f"g{i}") for i in range(3)), gemm([40.2, *STEADY[1:]]))
