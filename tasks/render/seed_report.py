"""The merged report with the additional tables that readers of sagemaker-training-jobs-cluster-health-check expect (pure).

`cluster_info`, `cluster_summary` and, of `nodes.node_N`, `node_info` and `summary` have the keys and types of that tool. Nothing is
called true that was not measured. All numbers are in our complete report, under `prelaunch_report`, where `prelaunch judge` finds it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from checks import model
from checks.documents.columns import CheckTable, by_check
from checks.documents.report import WRAPPED, dump
from tasks.text.tables import few

MOST_SENTENCES = 50
READY = "Cluster is ready for distributed training"
DIAGNOSTIC = {model.Profile.QUICK: ("dcgm_basic",)}
DEEPER = ("dcgm_basic", "dcgm_extended")


@dataclass(frozen=True)
class _View:
    """Access to one report and its verdict."""

    report: model.Report
    verdict: model.Verdict
    tables: Mapping[str, CheckTable]


def with_seed_tables(report: model.Report, verdict: model.Verdict) -> bytes:
    """The report as JSON that readers of either format understand."""
    view = _View(report, verdict, by_check(report.observations))
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
            view, verdict.findings, verdict.level, [node.name for node in report.nodes]
        ),
        "nodes": {f"node_{rank}": _node(view, node) for rank, node in sorted(reported.items())},
    }
    head = json.dumps(document, separators=(",", ":"), allow_nan=False).encode()
    return b"%s,%s:%s}" % (head[:-1], json.dumps(WRAPPED).encode(), dump(report))


def _node(view: _View, node: model.Node) -> dict[str, object]:
    declared = view.report.declared
    findings = [f for f in view.verdict.findings if model.node_of(f.subject) == node.name]
    return {
        "timestamp": node.measured_at or view.report.measured_at,
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
        "summary": _summary(
            view, findings, model.worst([finding.level for finding in findings]), [node.name]
        ),
    }


def _summary(
    view: _View, findings: Sequence[model.Finding], level: model.Level, nodes: Sequence[str]
) -> dict[str, object]:
    """The summary. The tool has no "cannot tell", so whatever is not known to be healthy is FAIL there."""
    faults = [finding for finding in findings if finding.level is not model.Level.PASS]
    remedies = list(dict.fromkeys(finding.remedy for finding in faults if finding.remedy))
    ready = not remedies and view.verdict.answer is model.Answer.GO
    return {
        "overall_status": level.value,
        "test_results": _results(view, nodes),
        "issues": few(
            [f"{finding.subject}: {finding.check}: {finding.message}" for finding in faults], MOST_SENTENCES
        ),
        "recommendations": [READY] if ready else few(remedies, MOST_SENTENCES),
    }


def _results(view: _View, nodes: Sequence[str]) -> dict[str, bool]:
    """Which tests succeeded; a test that does not apply to the declared machines has no key."""
    checks = {planned.check for planned in view.report.plan if planned.skip is None}
    of_test = {
        "gpu_detection": {"gpu.inventory"},
        "efa_network": {name for name in checks if name.startswith("efa.")},
        "nccl_communication": {name for name in checks if name.startswith(("nccl.", "collective."))},
        **{test: {"dcgm.diag"} for test in DIAGNOSTIC.get(view.report.profile, DEEPER)},
    }
    return {
        test: _succeeded(view, names & checks, nodes) for test, names in of_test.items() if names & checks
    }


def _succeeded(view: _View, checks: Iterable[str], nodes: Sequence[str]) -> bool:
    """Whether every check was measured on every node, and no finding about them is a FAIL."""
    names = {*checks}
    failed = any(
        finding.level is model.Level.FAIL
        and finding.check in names
        and model.node_of(finding.subject) in (*nodes, model.CLUSTER)
        for finding in view.verdict.findings
    )
    return not failed and bool(nodes) and all(_measured(view, name, nodes) for name in names)


def _measured(view: _View, check: str, nodes: Sequence[str]) -> bool:
    values = [item for item in view.tables.get(check, ()) if model.node_of(item.subject) in nodes]
    measured = model.Count(len({model.node_of(item.subject) for item in values}), len({*nodes}))
    return measured.observed == measured.required and all(
        item.outcome is model.Outcome.MEASURED for item in values
    )
