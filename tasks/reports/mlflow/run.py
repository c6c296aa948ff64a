"""What MLflow gets of one gate: the names of sagemaker-training-jobs-cluster-health-check, and ours beside them. Pure.

That tool logs a temperature that could not be read as 0. Here what was not measured is not logged.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from checks.documents.columns import CheckTable, by_check
from checks.judge.trend.numbers import gate_numbers, seconds
from checks.model import Level, Outcome, Report, Verdict
from checks.policy import Policy
from tasks.render.seed_report import with_seed_tables

EXPERIMENT = "sagemaker-health-checks"
ARTIFACT = "health_check_metrics.json"
# https://mlflow.org/docs/latest/rest-api.html: the longest key, and the longest value of a parameter.
KEY, PARAM_VALUE = 250, 6000
# Values of each GPU: check, metric, and the name that the tool has for it.
GPU_VALUES = (
    ("gpu.memory", "memory_used_mib", "memory_used_mb"),
    ("gpu.thermal", "temperature_c", "temperature_c"),
    ("gpu.utilisation", "utilisation_percent", "utilization_percent"),
)
_OTHER = re.compile(r"[^A-Za-z0-9_\-. /]")


@dataclass(frozen=True)
class MlflowRun:
    """One run of an experiment: times in Unix milliseconds, and the report as its artifact. No metric is NaN."""

    gate_id: str
    name: str
    measured_ms: int
    params: Mapping[str, str]
    metrics: Mapping[str, float]
    artifact: bytes


def run_of(report: Report, verdict: Verdict, policy: Policy, gate_id: str) -> MlflowRun:
    """The run of a gate. `policy` is the one whose rules say which numbers are compared."""
    artifact = with_seed_tables(report, verdict)
    tables = json.loads(artifact)
    checks = by_check(report.observations)
    at = seconds(report.measured_at) or 0.0
    declared = report.declared
    params = {
        "total_nodes": declared.nodes,
        "gpus_per_node": declared.gpus_per_node,
        "expected_total_gpus": declared.nodes * declared.gpus_per_node,
        "overall_status": verdict.level.value,
        "prelaunch_gate_id": gate_id,
        "prelaunch_answer": verdict.answer.value,
        "prelaunch_profile": report.profile.value,
        "prelaunch_instance_type": declared.instance_type,
        "prelaunch_policy_digest": verdict.digests.policy,
        "prelaunch_facts_digest": verdict.digests.facts,
        "prelaunch_version": verdict.digests.engine,
    }
    metrics = dict([*_theirs(tables, report, checks), *_ours(report, verdict, policy)])
    return MlflowRun(
        gate_id,
        datetime.fromtimestamp(at, UTC).strftime("health-check-%Y-%m-%d-%H-%M"),
        int(at * 1000),
        {name: str(value)[:PARAM_VALUE] for name, value in params.items()},
        {_key(name): value for name, value in metrics.items()},
        artifact,
    )


def _theirs(
    tables: Mapping[str, Any], report: Report, checks: Mapping[str, CheckTable]
) -> Iterator[tuple[str, float]]:
    """As that tool names them: `node_0_gpu_0_temperature_c`."""
    for test, passed in tables["cluster_summary"]["test_results"].items():
        yield f"test_{test}", float(passed)
    if "nccl.all_reduce" in checks:
        columns = [cell for cell in checks["nccl.all_reduce"].column("algbw_gbps") if isinstance(cell, tuple)]
        best = [rate for column in columns for rate in column if isinstance(rate, (int, float))]
        if best:
            yield "distributed_all_reduce_bandwidth_gbps", float(max(best))
    for node in report.nodes:
        for check, metric, their_name in GPU_VALUES:
            for gpu, value in enumerate(_of_node(checks, check, metric, node.name)):
                if isinstance(value, (int, float)) and not isinstance(value, bool):
                    yield f"node_{node.rank}_gpu_{gpu}_{their_name}", float(value)


def _ours(report: Report, verdict: Verdict, policy: Policy) -> Iterator[tuple[str, float]]:
    """How much was observed and found, and each compared number's worst and median node."""
    coverage = verdict.coverage
    yield "prelaunch_checks_observed", float(coverage.checks.observed)
    yield "prelaunch_checks_required", float(coverage.checks.required)
    yield "prelaunch_nodes_observed", float(coverage.nodes.observed)
    yield "prelaunch_nodes_condemned", float(len(verdict.condemned))
    for level in (Level.WARN, Level.FAIL):
        count = sum(finding.level is level for finding in verdict.findings)
        yield f"prelaunch_findings_{level.value.lower()}", float(count)
    numbers = gate_numbers(report, verdict.digests.report, policy)
    for index, number in enumerate(numbers.numbers):
        name = f"prelaunch/{number.check}/{number.title}"
        values = [node.values[index] for node in numbers.nodes]
        measured = [value for value in (*values, numbers.together[index]) if value is not None]
        if measured:
            yield f"{name}/worst", max(measured) if number.bad.value == "high" else min(measured)
        middle = numbers.medians[index]
        if middle is not None:
            yield f"{name}/median", middle


def _of_node(checks: Mapping[str, CheckTable], check: str, metric: str, node: str) -> tuple[object, ...]:
    for result in checks.get(check, ()):
        if result.subject == node and result.outcome is Outcome.MEASURED:
            value = result.metrics.get(metric, ())
            return value if isinstance(value, tuple) else (value,)
    return ()


def _key(name: str) -> str:
    """A key that MLflow takes."""
    return _OTHER.sub("_", name)[:KEY]
