"""The merged report with the additional tables that readers of sagemaker-training-jobs-cluster-health-check expect (pure).

`cluster_info`, `cluster_summary` and `nodes.node_N` have the keys, types and units of that tool (scripts/train.py:
`*_gb` are 2^30 bytes, `*_mb` MiB, `*_gbps` 10^9 bytes/s). A number that was not measured has no key, and nothing is called true
that was not measured. Our complete report is under `prelaunch_report`, where `prelaunch judge` finds it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from checks.documents.columns import Rows, by_check
from checks.documents.report import WRAPPED, dump
from checks.model import (
    CLUSTER,
    Answer,
    Count,
    Finding,
    Level,
    Node,
    Outcome,
    Profile,
    Report,
    Value,
    Verdict,
    node_of,
    rank_subject,
    worst,
)

GIB, MIB = 1 << 30, 1 << 20
MOST_SENTENCES = 50
READY = "Cluster is ready for distributed training"
DIAGNOSTIC = {Profile.QUICK: ("dcgm_basic",)}
DEEPER = ("dcgm_basic", "dcgm_extended")


@dataclass(frozen=True)
class _Of:
    """Access to one report and its verdict."""

    report: Report
    verdict: Verdict
    rows: Mapping[str, Rows]

    def metrics(self, check: str, subject: str) -> Mapping[str, Value]:
        """What the check measured of the subject; empty where it did not."""
        for row in self.rows.get(check, ()):
            if row.subject == subject and row.outcome is Outcome.MEASURED:
                return row.metrics
        return {}


def with_seed_tables(report: Report, verdict: Verdict) -> bytes:
    """The report as JSON that readers of either format understand."""
    of = _Of(report, verdict, by_check(report.observations))
    declared, reported = report.declared, {node.rank: node for node in report.nodes}
    whole = len(reported) == declared.nodes
    document = {
        "timestamp": report.measured_at,
        "cluster_info": {
            "data_completeness": "complete" if whole else "partial",
            "note": f"Data from {len(reported)} of {declared.nodes} nodes",
            "expected_total_gpus": declared.nodes * declared.gpus_per_node,
            "cluster_topology": {
                "total_nodes": declared.nodes,
                "gpus_per_node": declared.gpus_per_node,
                "processes_per_node": declared.ranks_per_node,
            },
        },
        "cluster_summary": _summary(
            of, verdict.findings, verdict.level, [node.name for node in report.nodes]
        ),
        "nodes": {f"node_{rank}": _node(of, node) for rank, node in sorted(reported.items())},
    }
    head = json.dumps(document, separators=(",", ":"), allow_nan=False).encode()
    return b"%s,%s:%s}" % (head[:-1], json.dumps(WRAPPED).encode(), dump(report))


def _node(of: _Of, node: Node) -> dict[str, object]:
    declared = of.report.declared
    findings = [f for f in of.verdict.findings if node_of(f.subject) == node.name]
    level = worst([finding.level for finding in findings])
    made: dict[str, object] = {
        "timestamp": node.measured_at or of.report.measured_at,
        "node_info": {
            "world_size": declared.ranks,
            "rank": node.rank * declared.ranks_per_node,
            "local_rank": 0,
            "hostname": node.identity.get("host", node.name),
            "current_host": node.name,
            "host_rank": node.rank,
            "host_count": declared.nodes,
            "gpus_per_host": declared.gpus_per_node,
        },
        "summary": _summary(of, findings, level, [node.name]),
    }
    sections = {"gpu": _gpus, "system": _system, "network": _network, "nccl": _nccl, "dcgm": _dcgm}
    made.update({name: found for name, section in sections.items() if (found := section(of, node))})
    return made


def _summary(of: _Of, findings: Sequence[Finding], level: Level, nodes: Sequence[str]) -> dict[str, object]:
    """The summary. The tool has no "cannot tell", so whatever is not known to be healthy is FAIL there."""
    told = [finding for finding in findings if finding.level is not Level.PASS]
    remedies = list(dict.fromkeys(finding.remedy for finding in told if finding.remedy))
    ready = not remedies and of.verdict.answer is Answer.GO
    return {
        "overall_status": level.value,
        "test_results": _results(of, nodes),
        "issues": _few([f"{finding.subject}: {finding.check}: {finding.message}" for finding in told]),
        "recommendations": [READY] if ready else _few(remedies),
    }


def _few(sentences: Sequence[str]) -> list[str]:
    left = len(sentences) - MOST_SENTENCES
    return [*sentences[:MOST_SENTENCES], *([f"and {left} more"] if left > 0 else [])]


def _results(of: _Of, nodes: Sequence[str]) -> dict[str, bool]:
    """Which tests succeeded; a test that does not apply to the declared machines has no key."""
    checks = {planned.check for planned in of.report.plan if planned.skip is None}
    of_test = {
        "gpu_detection": {"gpu.inventory"},
        "efa_network": {name for name in checks if name.startswith("efa.")},
        "nccl_communication": {name for name in checks if name.startswith(("nccl.", "collective."))},
        **{test: {"dcgm.diag"} for test in DIAGNOSTIC.get(of.report.profile, DEEPER)},
    }
    return {test: _succeeded(of, names & checks, nodes) for test, names in of_test.items() if names & checks}


def _succeeded(of: _Of, checks: Iterable[str], nodes: Sequence[str]) -> bool:
    """Whether every check was measured on every node, and no finding about them is a FAIL."""
    names = {*checks}
    failed = any(
        finding.level is Level.FAIL
        and finding.check in names
        and node_of(finding.subject) in (*nodes, CLUSTER)
        for finding in of.verdict.findings
    )
    return not failed and bool(nodes) and all(_measured(of, name, nodes) for name in names)


def _measured(of: _Of, check: str, nodes: Sequence[str]) -> bool:
    found = [row for row in of.rows.get(check, ()) if node_of(row.subject) in nodes]
    seen = Count(len({node_of(row.subject) for row in found}), len({*nodes}))
    return seen.observed == seen.required and all(row.outcome is Outcome.MEASURED for row in found)


def _gpus(of: _Of, node: Node) -> dict[str, object]:
    found, memory = of.metrics("gpu.inventory", node.name), of.metrics("gpu.memory", node.name)
    models, drivers = found.get("models"), found.get("driver")
    total, used = memory.get("memory_total_mib"), memory.get("memory_used_mib")
    driver = drivers[0] if isinstance(drivers, tuple) and len(drivers) == 1 else None
    if not all(isinstance(column, tuple) for column in (models, total, used)) or not isinstance(driver, str):
        return {}
    rows = zip(models, total, used, strict=False)  # type: ignore[arg-type]
    return {
        f"gpu_{place}": {
            "name": str(model),
            "driver_version": driver,
            "memory_total_mb": int(all_),
            "memory_used_mb": int(taken),
            "memory_free_mb": max(0, int(all_) - int(taken)),
        }
        for place, (model, all_, taken) in enumerate(rows)
        if isinstance(all_, (int, float)) and isinstance(taken, (int, float))
    }


def _system(of: _Of, node: Node) -> dict[str, object]:
    found = of.metrics("system.resources", node.name)
    numbers = [
        found.get(name)
        for name in (
            "memory_limit_bytes",
            "memory_available_bytes",
            "disk_free_bytes",
            "disk_free_fraction",
            "cpus",
        )
    ]
    if not all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in numbers):
        return {}
    total, available, free, fraction, cpus = (float(value) for value in numbers)  # type: ignore[arg-type]
    return {
        "memory": {
            "total_gb": round(total / GIB, 2),
            "available_gb": round(available / GIB, 2),
            "used_percent": round(max(0.0, 100 * (1 - available / total)), 2) if total else 0.0,
        },
        "disk": {
            "total_gb": round(free / fraction / GIB, 2) if fraction else 0.0,
            "free_gb": round(free / GIB, 2),
            "used_percent": round(max(0.0, 100 * (1 - fraction)), 2),
        },
        "cpu": {"count": int(cpus)},
    }


def _network(of: _Of, node: Node) -> dict[str, object]:
    found = of.metrics("efa.devices", node.name)
    provider, domains = found.get("provider"), found.get("rdm_domains")
    if not isinstance(provider, str) or type(domains) is not int:
        return {}
    return {"efa_available": provider == "efa" and domains > 0, "efa_provider_count": domains}


def _nccl(of: _Of, node: Node) -> dict[str, object]:
    """The all_reduce over all ranks, as the node's first rank saw it; `bandwidth_gbps` is bytes over time."""
    declared = of.report.declared
    found = of.metrics("nccl.all_reduce", rank_subject(node.name, node.rank * declared.ranks_per_node))
    sizes, rates = found.get("sizes_bytes"), found.get("algbw_gbps")
    if not (isinstance(sizes, tuple) and isinstance(rates, tuple)):
        return {}
    results = [
        {"size_bytes": int(size), "bandwidth_gbps": round(rate, 2), "latency_ms": round(size / rate / 1e6, 4)}
        for size, rate in zip(sizes, rates, strict=False)
        if isinstance(size, (int, float)) and isinstance(rate, (int, float)) and size > 0 < rate
    ]
    test = {
        "success": _succeeded(of, {"nccl.all_reduce"}, [node.name]),
        "test_type": "distributed" if declared.nodes > 1 else "multi_gpu",
        "processes_tested": declared.ranks,
        "results": results,
        "peak_bandwidth_gbps": max((row["bandwidth_gbps"] for row in results), default=0.0),
    }
    return {"communication_tests": {"distributed_all_reduce": test}}


def _dcgm(of: _Of, node: Node) -> dict[str, object]:
    if not of.metrics("dcgm.diag", node.name):
        return {}
    fine = _succeeded(of, {"dcgm.diag"}, [node.name])
    names = [test.removeprefix("dcgm_") for test in DIAGNOSTIC.get(of.report.profile, DEEPER)]
    return {"dcgm_available": True, "diagnostics": {name: {"success": fine} for name in names}}
