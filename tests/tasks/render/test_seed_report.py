"""The report at the path of the health check that this gate replaces: that one's readers read it, and so do we."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pytest

from checks.documents.report import dump, load
from checks.facts.builtin import builtin
from checks.judge.verdict import decide
from checks.model import CLUSTER, Level, Observation, Outcome, Report, Skip, Verdict
from tasks.gate_file.references import default_policy
from tasks.render.seed_report import with_seed_tables
from tasks.reports.seed_report import OURS, detect
from tests.catalogue_reports import catalogue_report, expected_report
from tests.sample_reports import POLICY, healthy, verdict_of, with_metric, with_row, without_node
from tests.second_opinion import recorded

P5 = "p5.48xlarge"
# The tool writes these as well; the recorded cluster has nothing to list in them.
LISTS = {(".cluster_summary.issues[]", str), (".nodes.node_N.summary.issues[]", str)}


def tables(report: Report, verdict: Verdict) -> dict[str, Any]:
    """The document, as any reader of JSON has it."""
    made = json.loads(with_seed_tables(report, verdict))
    assert isinstance(made, dict)
    return made


def p5(kind: str = P5) -> tuple[Report, Verdict]:
    """Every check of a type, constructed, and what the shipped policy says of it."""
    report = expected_report(kind, 2) if kind == P5 else catalogue_report(kind, 2)
    return report, decide(report, default_policy(kind)[1], builtin())


def test_our_own_report_is_read_from_it_unchanged() -> None:
    """`prelaunch judge` takes the file as it takes the report."""
    report = healthy()
    data = with_seed_tables(report, verdict_of(report))

    assert dump(report) == dump(load(data))
    assert not detect(data.decode())


def shape(value: object, path: str = "") -> dict[str, type]:
    """The type of each value by its path, with one path for all nodes and GPUs; a whole number is a number."""
    if isinstance(value, dict):
        return {k: v for key, item in value.items() for k, v in shape(item, f"{path}.{key}").items()}
    path = re.sub(r"\b(node|gpu)_\d+\b", r"\1_N", path)
    if isinstance(value, list):
        return {path: list} | {k: v for item in value for k, v in shape(item, f"{path}[]").items()}
    return {path: float if type(value) is int else type(value)}


def test_the_seeds_readers_find_their_tables() -> None:
    """Each key has that tool's name and type; no key is one that the tool does not write."""
    found = tables(*p5())
    del found[OURS]
    node = found["nodes"]["node_1"]

    assert set(shape(found).items() - shape(recorded("p5_two_nodes.json")).items()) <= LISTS
    assert (8, 16) == (node["node_info"]["rank"], node["node_info"]["world_size"])
    assert found["cluster_summary"]["overall_status"] == p5()[1].level.value
    assert node["summary"]["overall_status"] in ("PASS", "WARN")


def test_a_fault_is_that_nodes_and_the_clusters() -> None:
    """With what to do; the other node is fine."""
    report = with_metric(healthy(2, 2, 4), "gpu.inventory", "node-1", "gpus_missing", 1)
    found = tables(report, verdict_of(report))
    cluster = found["cluster_summary"]
    well, bad = (found["nodes"][f"node_{n}"]["summary"] for n in (0, 1))

    assert ("FAIL", "PASS") == (cluster["overall_status"], well["overall_status"])
    assert "FAIL" == bad["overall_status"]
    assert (True, False) == tuple(one["test_results"]["gpu_detection"] for one in (well, bad))
    assert any("lacks 1 GPU" in said for said in cluster["issues"])


@pytest.mark.parametrize("outcome", [Outcome.ERRORED, Outcome.SKIPPED])
def test_seed_report_marks_an_unmeasured_test_as_not_passed(outcome: Outcome) -> None:
    """Neither of the node nor of the cluster."""
    skip = Skip.TOOL_MISSING if outcome is Outcome.SKIPPED else None
    lost = Observation("gpu.inventory", "node-1", outcome, 0.0, {}, skip, "lost")
    report = with_row(healthy(2, 2, 4), lost.check, lost.subject, lambda row: lost)
    found = tables(report, verdict_of(report))

    assert not found["nodes"]["node_1"]["summary"]["test_results"]["gpu_detection"]
    assert not found["cluster_summary"]["test_results"]["gpu_detection"]


def test_a_node_without_a_report_leaves_the_data_partial() -> None:
    """And the cluster is FAIL: the tool has no word for "cannot tell"."""
    report = without_node(healthy(), "node-1")
    found = tables(report, verdict_of(report))

    assert "partial" == found["cluster_info"]["data_completeness"]
    assert ["node_0"] == list(found["nodes"])
    assert "FAIL" == found["cluster_summary"]["overall_status"]


@pytest.mark.parametrize("kind", ["cpu", "trn1.32xlarge", "g5.xlarge"])
def test_seed_report_has_no_key_for_a_test_that_does_not_apply(kind: str) -> None:
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
