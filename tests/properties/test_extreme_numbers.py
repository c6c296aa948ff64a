"""A number at the edge of what a float can be never crashes the judge, and one that nobody can measure is never health."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from checks.catalog import CATALOG
from checks.documents.columns import by_check
from checks.documents.report import load
from checks.facts.builtin import builtin
from checks.facts.plausibility import COUNTED, range_of
from checks.judge.culprits.from_report import CHECKS
from checks.judge.evidence import weigh
from checks.judge.verdict import decide
from checks.model import Answer, Cause, Level, Observation, Profile, Report, Value
from tasks.gate_file.references import default_policy
from tests.catalogue_reports import catalogue_report, policy_of
from tests.checks.culprit.rows import tournament
from tests.checks.judge.culprits.test_findings import _policy as pairs_policy

EXTREMES = (5e-324, 1e-320, 2.3e-308, 1e299, -1e299, -0.0)


def at_the_edge(row: Observation, number: float, place: int) -> Observation:
    """One float of each metric replaced: the one at this place."""

    def changed(value: Value) -> Value:
        if isinstance(value, tuple) and any(type(item) is float for item in value):
            at = place % len(value)
            return tuple(number if index == at else item for index, item in enumerate(value))  # type: ignore[return-value]
        return number if type(value) is float else value

    return replace(row, metrics={name: changed(value) for name, value in row.metrics.items()})


@cache
def _report(kind: str) -> Report:
    return catalogue_report(kind, 1 if kind.startswith("trn1") else 2)


@pytest.mark.parametrize("number", EXTREMES)
@pytest.mark.parametrize("kind", ["cpu", "p5.48xlarge", "trn1.32xlarge"])
def test_no_number_crashes_the_judge(kind: str, number: float) -> None:
    """Of every check, by the rules of the table without and with what is expected."""
    report = _report(kind)
    rows = tuple(at_the_edge(row, number, index) for index, row in enumerate(report.observations))

    for policy in (policy_of(kind), default_policy(kind)[1]):
        assert decide(replace(report, observations=rows), policy, builtin()).level in Level


def with_latency(report: Report, number: float) -> Report:
    """One test's latency, which the test itself calls ok."""
    first, *others = report.observations
    column = first.metrics["latency_us"]
    assert isinstance(column, tuple)
    metrics: dict[str, Value] = {**first.metrics, "latency_us": (number, *column[1:])}
    return replace(report, observations=(replace(first, metrics=metrics), *others))


@pytest.mark.parametrize("name", CHECKS)
@pytest.mark.parametrize("number", [5e-324, 1e-320, 1e-9, 0.0, 1e299])
def test_a_latency_that_nobody_can_measure_is_missing_evidence(name: str, number: float) -> None:
    """Light takes a nanosecond for 0.3 m."""
    report = tournament(4, 2, name=name)
    policy = pairs_policy(name, floor_gbps=0.1, floor_inside_gbps=0.1)
    verdict = decide(with_latency(report, number), policy, builtin())
    said = [finding for finding in verdict.findings if finding.check == name]

    assert Answer.GO is not verdict.answer
    assert any("latency" in finding.message for finding in said)


RECORDED = sorted((Path(__file__).parents[1] / "recordings").rglob("health_check_metrics.json"))
IMPOSSIBLE = (
    ("nccl.pairs", "bandwidth_gbps", 1e9), ("network.pairs", "bandwidth_gbps", 1e9), ("network.pairs", "latency_us", -5.0),
    ("network.pairs", "latency_us", 9e8), ("network.pairs", "bandwidth_gbps", 3000.0), ("gpu.clocks", "clock_ratio", 840.0),
    ("gpu.power", "limit_ratio", 1000), ("gpu.power", "draw_w", -1.0), ("compute.gemm", "of_peak", 773.0),
    ("compute.gemm", "sustained_tflops", 1e8), ("gpu.thermal", "temperature_c", 4000.0), ("gpu.thermal", "margin_c", -273.0),
    ("gpu.utilisation", "utilisation_percent", 101), ("system.resources", "disk_free_fraction", 1.5),
    ("gpu.memory", "memory_used_mib", -1),
    ("nccl.all_reduce", "busbw_gbps", 9e3), ("nccl.all_reduce", "latency_us", -0.1), ("compute.overlap", "of_sequential", 1e4),
    ("training.step", "tokens_per_s", 1e12), ("gpu.ecc", "dram_corrected_volatile", -1),
)  # fmt: skip

UNITS = frozenset((
    "ns", "us", "ms", "s", "h", "hz", "mhz", "ghz", "gbps", "mbps", "w", "kw", "c", "v", "percent", "ratio", "fraction", "share",
    "rate", "tflops", "gflops", "mib", "gib", "kib", "iops",
))  # fmt: skip


def with_number(value: Value, number: float) -> Value:
    """The last number replaced; a list stays a list."""
    if isinstance(value, tuple):
        return (*value[:-1], number)
    return number


def about(report: Report, check: str, metric: str, number: float) -> list[Level]:
    """The levels of what the judge says of missing evidence of this check, where the first subject has this number."""
    place = next(i for i, row in enumerate(report.observations) if row.check == check)
    row = report.observations[place]
    changed = replace(row, metrics={**row.metrics, metric: with_number(row.metrics[metric], number)})
    rows = (*report.observations[:place], changed, *report.observations[place + 1 :])
    found = weigh(replace(report, observations=rows), policy_of("p5.48xlarge"), builtin()).findings
    own = (check, row.subject, Cause.EVIDENCE)
    return [f.level for f in found if own == (f.check, f.subject, f.cause)]


@pytest.mark.parametrize(("check", "metric", "number"), IMPOSSIBLE)
def test_an_impossible_number_is_missing_evidence(check: str, metric: str, number: float) -> None:
    """However good it looks."""
    assert Level.FAIL in about(catalogue_report("p5.48xlarge", 2, Profile.DEEP), check, metric, number)


def test_every_metric_has_bounds() -> None:
    """Of the whole catalogue: no metric is any number at all, and only a margin and a distance may be below zero."""
    ranges = {
        (check.name, metric): range_of(check.name, metric) for check in CATALOG for metric in check.metrics
    }

    assert {metric for (_, metric), one in ranges.items() if one.most > 1e19} <= {
        "loss_first", "loss_last", "loss_ratio", "gradient_error", "gradient_error_last",
    }  # fmt: skip
    assert {metric for (_, metric), one in ranges.items() if one.least < 0} == {
        "offset_s", "gpus_missing", "margin_c", "temperature_c", "memory_temperature_c",
    }  # fmt: skip
    counts = {metric.rpartition("_")[2] for (_, metric), one in ranges.items() if one is COUNTED}
    assert not counts & UNITS, "a metric with a unit that RANGES does not know"


@pytest.mark.parametrize(("kind", "nodes"), [("cpu", 2), ("p5.48xlarge", 2), ("trn1.32xlarge", 1)])
def test_each_number_of_a_report_is_compared_with_its_bounds(kind: str, nodes: int) -> None:
    """The first row of each check, every number of it, on both sides."""
    report = catalogue_report(kind, nodes, Profile.DEEP)
    first = {row.check: row for row in reversed(report.observations)}
    for planned in (planned for planned in report.plan if planned.skip is None):
        row, alone = first[planned.check], replace(report, plan=(planned,))
        others = [one for one in report.observations if one.check == row.check and one is not row]
        for metric, value in row.metrics.items():
            if type(value[0] if isinstance(value, tuple) else value) in (int, float):
                bounds = range_of(row.check, metric)
                for number in (bounds.least - 1, bounds.most * 2):
                    changed = replace(row, metrics={**row.metrics, metric: with_number(value, number)})
                    found = weigh(replace(alone, observations=(changed, *others)), policy_of(kind), builtin())
                    subjects = found.records[row.check].columns.subjects
                    assert row.subject not in subjects, (row.check, metric, number)


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.parent.name)
def test_no_recorded_number_is_impossible(path: Path) -> None:
    """What machines measured, healthy and broken, is within the bounds."""
    for check, rows in by_check(load(path.read_bytes()).observations).items():
        for metric, column in rows.columns.metrics.items():
            bounds = range_of(check, metric)
            for value in column:
                for number in value if isinstance(value, tuple) else (value,):
                    if type(number) in (int, float):
                        assert bounds.least <= number <= bounds.most, (check, metric)  # type: ignore[operator]
