"""The report at the path of the health check that this gate replaces: that one's readers read it, and so do we."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from checks.documents.report import dump, load
from checks.facts.builtin import builtin
from checks.judge.verdict import decide
from checks.model import CLUSTER, Level, Observation, Outcome, Report, Skip, Verdict
from checks.seed_report import detect, read
from checks.seed_report.shape import Communication, Gpu, NodeInfo, Summary, System, taken
from tasks.gate_file.references import default_policy
from tasks.render.seed_report import READY, with_seed_tables
from tests.catalogue_reports import catalogue_report, expected_report
from tests.sample_reports import POLICY, healthy, verdict_of, with_metric, without_node

P5 = "p5.48xlarge"


def tables(report: Report, verdict: Verdict) -> dict[str, Any]:
    """The document, as any reader of JSON has it."""
    made = json.loads(with_seed_tables(report, verdict))
    assert isinstance(made, dict)
    return made


def p5(kind: str = P5) -> tuple[Report, Verdict]:
    """Every check of a type, constructed, and what the shipped policy says of it."""
    report = expected_report(kind, 2) if kind == P5 else catalogue_report(kind, 2)
    rows = [
        replace(row, metrics={**row.metrics, "algbw_gbps": (2.0, 180.0, 230.0)})
        if row.check == "nccl.all_reduce"
        else row
        for row in report.observations
    ]
    report = replace(report, observations=tuple(rows))
    return report, decide(report, default_policy(kind)[1], builtin())


def test_our_own_report_is_read_from_it_unchanged() -> None:
    """`prelaunch judge` takes the file as it takes the report."""
    report = healthy()
    data = with_seed_tables(report, verdict_of(report))

    assert dump(report) == dump(load(data))
    assert not detect.recognised(json.loads(data))


def test_the_seeds_readers_find_their_tables() -> None:
    """Each key has that tool's name, type and unit; no key is one that the tool does not write."""
    found = tables(*p5())
    tools = {key: value for key, value in found.items() if key != detect.OURS}
    unknown: list[tuple[str, object]] = []
    node = found["nodes"]["node_1"]

    assert detect.recognised(tools)
    assert (8, 16) == (taken(NodeInfo, node["node_info"], "", unknown).rank, node["node_info"]["world_size"])
    assert 8 == len([taken(Gpu, gpu, "", unknown) for gpu in node["gpu"].values()])
    assert taken(System, node["system"], "", unknown).cpu.count
    test = node["nccl"]["communication_tests"]["distributed_all_reduce"]
    communication = taken(Communication, test, "", unknown)
    assert (16, 230.0) == (communication.processes_tested, communication.peak_bandwidth_gbps)
    assert taken(Summary, found["cluster_summary"], "", unknown).overall_status == p5()[1].level.value
    assert taken(Summary, node["summary"], "", unknown).overall_status in ("PASS", "WARN")
    assert [] == unknown
    assert 2 == len(read.read(tools, builtin(), P5, 2).report.nodes)


def test_a_go_says_that_the_cluster_is_ready() -> None:
    """In that tool's words."""
    report = healthy()
    summary = tables(report, verdict_of(report))["cluster_summary"]

    assert ("PASS", [], [READY]) == tuple(
        summary[key] for key in ("overall_status", "issues", "recommendations")
    )


def test_a_fault_is_that_nodes_and_the_clusters() -> None:
    """With what to do; the other node is fine."""
    report = with_metric(healthy(2, 2, 4), "gpu.inventory", "node-1", "gpus_missing", 1)
    found = tables(report, verdict_of(report))

    assert (
        "FAIL"
        == found["cluster_summary"]["overall_status"]
        == found["nodes"]["node_1"]["summary"]["overall_status"]
    )
    assert "PASS" == found["nodes"]["node_0"]["summary"]["overall_status"]
    assert (False, True) == tuple(
        found["nodes"][f"node_{n}"]["summary"]["test_results"]["gpu_detection"] for n in (1, 0)
    )
    assert any("lacks 1 GPU" in said for said in found["cluster_summary"]["issues"])


@pytest.mark.parametrize("outcome", [Outcome.ERRORED, Outcome.SKIPPED])
def test_what_was_not_measured_is_never_true(outcome: Outcome) -> None:
    """Nor has it a number."""
    report = healthy(2, 2, 4)
    lost = Observation(
        "gpu.inventory",
        "node-1",
        outcome,
        0.0,
        {},
        Skip.TOOL_MISSING if outcome is Outcome.SKIPPED else None,
        "lost",
    )
    rows = tuple(
        lost if (row.check, row.subject) == ("gpu.inventory", "node-1") else row
        for row in report.observations
    )
    report = replace(report, observations=rows)
    found = tables(report, verdict_of(report))

    assert not found["nodes"]["node_1"]["summary"]["test_results"]["gpu_detection"]
    assert not found["cluster_summary"]["test_results"]["gpu_detection"]
    assert "gpu" not in found["nodes"]["node_1"]


def test_a_node_without_a_report_leaves_the_data_partial() -> None:
    """And the cluster is FAIL: the tool has no word for "cannot tell"."""
    report = without_node(healthy(), "node-1")
    found = tables(report, verdict_of(report))

    assert "partial" == found["cluster_info"]["data_completeness"]
    assert ["node_0"] == list(found["nodes"])
    assert "FAIL" == found["cluster_summary"]["overall_status"]


@pytest.mark.parametrize("kind", ["cpu", "trn1.32xlarge", "g5.xlarge"])
def test_what_does_not_apply_has_no_key(kind: str) -> None:
    """A machine without EFA has no EFA test that failed."""
    report, verdict = p5(kind)
    results = tables(report, verdict)["cluster_summary"]["test_results"]

    planned = {line.check for line in report.plan if line.skip is None}
    assert ("gpu_detection" in results) is ("gpu.inventory" in planned)
    assert ("efa_network" in results) is any(name.startswith("efa.") for name in planned)


def test_the_word_is_never_better_than_the_verdict() -> None:
    """Of whatever was lost."""
    report = healthy(2, 2, 4)
    for check in {row.check for row in report.observations}:
        spoilt = replace(report, observations=tuple(row for row in report.observations if row.check != check))
        verdict = verdict_of(spoilt, POLICY)
        word = tables(spoilt, verdict)["cluster_summary"]["overall_status"]
        assert Level(word) is verdict.level is not Level.PASS
        assert CLUSTER not in tables(spoilt, verdict)["nodes"]
