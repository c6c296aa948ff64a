"""A number at the edge of what a float can be never crashes the judge, and a time that nobody can measure is never health."""

from __future__ import annotations

from dataclasses import replace

import pytest

from checks.facts.builtin import builtin
from checks.judge.culprits.from_report import CHECKS
from checks.judge.verdict import decide
from checks.model import Answer, Level, Observation, Report, Value
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


@pytest.mark.parametrize("number", EXTREMES)
@pytest.mark.parametrize("kind", ["cpu", "p5.48xlarge", "trn1.32xlarge"])
def test_no_number_crashes_the_judge(kind: str, number: float) -> None:
    """Of every check, by the rules of the table without and with what is expected."""
    report = catalogue_report(kind, 2)
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
