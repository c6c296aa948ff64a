"""What must hold for every report of the other tool: less evidence is never better, and who comes first is nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from checks.facts.builtin import builtin
from checks.judge.verdict import decide
from checks.model import Level, Verdict
from checks.seed_report.read import read
from checks.value_types import DecodeError
from tasks.gate_file.references import read_policy
from tasks.reports.read import POLICY
from tests.second_opinion import Document, at, diagnosed, healthy, put, raw_outputs, spoilt, table_of, without

RULES, FACTS = read_policy(POLICY), builtin()
EXTENDED = "nodes.node_1.dcgm.diagnostics.extended"
PINGPONG = "nodes.node_1.network.efa_communication_test"
FAILED = table_of("Pass - GPUs: 0, 2, 3, 4, 5, 6, 7", "Fail - GPU: 1")
SPOILT = {
    "healthy": healthy(),
    "a failed GPU": spoilt(diagnosed(1, FAILED)),
    "a failed GPU that stdout alone shows": spoilt(put(f"{EXTENDED}.stdout", FAILED)),
    "a failed GPU in a cut table": spoilt(put(f"{EXTENDED}.raw_output", FAILED[:-60])),
    "dcgmi's error": spoilt(put(f"{EXTENDED}.raw_output", "Error: Unable to run diagnostic.")),
    "a WARN": spoilt(put("nodes.node_0.gpu.gpu_0.temperature_c", 90)),
    "a pingpong that failed": spoilt(
        put(f"{PINGPONG}.raw_output", "no route"), spoilt(put(f"{PINGPONG}.success", False))
    ),
}
# What the tool says of itself, or says twice: nothing is decided in anybody's favour by it.
NO_EVIDENCE = (
    "test_results", "performance_summary", "recommendations", "issues", "parsed_output", "stdout", "stderr",
    "cluster_info", "nccl_tests_available", "dcgm_available", "test_type", "peak_bandwidth_gbps", "path", "test_role",
    "rank", "local_rank", "host_count", "gpus_per_host", "used_percent", "usage_percent", "hostname", "current_host",
)  # fmt: skip


def verdict_of(document: Document) -> Verdict | None:
    """By the shipped policy, of two declared p5; None for what declares nothing."""
    try:
        opinion = read(document, FACTS, "p5.48xlarge", 2)
    except DecodeError:
        return None
    return decide(opinion.report, RULES, opinion.facts)


def level_of(document: Document) -> Level:
    """FAIL for what cannot be read."""
    verdict = verdict_of(document)
    return verdict.level if verdict else Level.FAIL


@pytest.mark.parametrize("name", SPOILT)
def test_deleting_a_raw_output_never_improves_the_level(name: str) -> None:
    """Each alone, and all of them; without any the answer is never a go."""
    before, paths = level_of(SPOILT[name]), raw_outputs(SPOILT[name])
    left = SPOILT[name]

    assert 6 == len(paths)
    for path in paths:
        assert level_of(spoilt(without(path), SPOILT[name])).rank >= max(before.rank, Level.FAIL.rank), path
        left = spoilt(without(path), left)
    assert Level.FAIL is level_of(left)


def leaves(document: Document, path: str = "") -> Iterator[str]:
    """The dotted paths of a table's keys, all the way down."""
    for key, value in document.items():
        if key not in NO_EVIDENCE:
            yield f"{path}.{key}"
            if isinstance(value, dict):
                yield from leaves(value, f"{path}.{key}")


@pytest.mark.parametrize("wrong", [None, "x"])
def test_evidence_that_is_gone_is_no_pass(wrong: object) -> None:
    """Whatever a check reads of a node: without it, or with something else in its place, nobody can tell."""
    paths = list(leaves(healthy()["nodes"]["node_1"], "nodes.node_1"))
    passed = [path for path in paths if level_of(spoilt(put(path, wrong))) is Level.PASS]

    assert len(paths) > 100
    assert not passed


def test_a_failure_stays_one_whatever_is_deleted() -> None:
    """No key beside it, if it were gone, turns the failure into less."""
    failed = spoilt(diagnosed(1, FAILED))
    paths = list(leaves(failed["nodes"]["node_1"], "nodes.node_1"))

    assert not [path for path in paths if level_of(spoilt(without(path), failed)) is not Level.FAIL]


def _all_reduce(document: Document, node: int) -> Document:
    return at(document, f"nodes.node_{node}.nccl.communication_tests.distributed_all_reduce")


def test_of_two_runs_of_one_size_the_slow_one_counts() -> None:
    """A fast first row once hid a slow second one."""

    def again(document: Document) -> None:
        for node in (0, 1):
            runs = _all_reduce(document, node)["results"]
            runs.append({**runs[-1], "bandwidth_gbps": 7.65, "latency_ms": 17.55})

    assert Level.FAIL is level_of(spoilt(again))


@pytest.mark.parametrize("path", ["overall_status", "test_results.hardware.Diagnostic"])
def test_the_tools_own_reading_of_a_failure_is_a_doubt(path: str) -> None:
    """In any case, and of any test: its table says otherwise, so that nobody can tell."""
    own = f"nodes.node_1.dcgm.diagnostics.extended.parsed_output.{path}"

    assert Level.FAIL is level_of(spoilt(put(own, "FAIL - GPU: 1")))


@pytest.mark.parametrize("name", ["node_{}", "stranger_{}"])
def test_tens_of_thousands_of_strangers_are_counted(name: str) -> None:
    """They were read one by one, for minutes."""
    many = spoilt(lambda document: document["nodes"].update({name.format(n): {} for n in range(2, 50_000)}))
    verdict = verdict_of(many)

    assert verdict is not None and Level.FAIL is verdict.level and len(verdict.findings) < 3000
    assert any("more" in f.message and f.subject == "cluster" for f in verdict.findings)


def test_the_order_of_nodes_and_gpus_changes_nothing() -> None:
    """JSON tables have none."""

    def turned(value: object) -> object:
        if isinstance(value, dict):
            return {key: turned(value[key]) for key in reversed(value)}
        return [turned(item) for item in value] if isinstance(value, list) else value

    failed = spoilt(diagnosed(1, FAILED))
    other = turned(failed)
    assert isinstance(other, dict)

    assert json.dumps(failed) != json.dumps(other)
    assert verdict_of(failed) == verdict_of(other)


def test_judging_twice_is_identical() -> None:
    """The same findings in the same order."""
    assert verdict_of(healthy()) == verdict_of(healthy())


def test_the_policy_has_a_line_for_all_that_the_report_can_carry() -> None:
    """And none for anything else; each rule looks at something that is read, restates what it applies to, and says what to do."""
    opinion = read(healthy(), FACTS, "p5.48xlarge", 2)
    measured = {row.check: set(row.metrics) for row in opinion.report.observations}
    rules = [(name, rule) for name, line in RULES.checks.items() for rule in line.rules]

    assert {planned.check for planned in opinion.report.plan} == set(RULES.checks)
    assert not [(name, rule.metric) for name, rule in rules if rule.metric not in measured[name]]
    assert not [(name, rule.metric) for name, rule in rules if not rule.remedy]


@pytest.mark.parametrize(
    ("instance_type", "nodes"),
    [("g5.xlarge", 1), ("g5.12xlarge", 1), ("g4dn.12xlarge", 2), ("p4d.24xlarge", 4)],
)
def test_the_plan_leaves_out_what_the_policy_allows(instance_type: str, nodes: int) -> None:
    """One node, one rank, no EFA: the reason in the plan is one that the policy's line gives as well."""
    opinion = read(healthy(), FACTS, instance_type, nodes)
    verdict = decide(opinion.report, RULES, opinion.facts)

    assert not [f for f in verdict.findings if "against what is declared" in f.message]


def test_one_node_with_one_gpu_is_a_go() -> None:
    """The smallest cluster that the tool knows: there is nothing to communicate with."""
    node = at(healthy(), "nodes.node_0")
    raw = str(at(node, "dcgm.diagnostics.extended")["raw_output"])
    one = raw.replace(",".join(["2330"] * 8), "2237")
    basic = str(at(node, "dcgm.diagnostics.basic")["raw_output"]).replace(",".join(["2330"] * 8), "2237")
    node["node_info"].update(world_size=1, host_count=1, gpus_per_host=1)
    node["gpu"] = {"gpu_0": {**node["gpu"]["gpu_0"], "name": "NVIDIA A10G", "memory_total_mb": 23028}}
    node["system"] = {
        **node["system"],
        "memory": {"total_gb": 15.4, "available_gb": 13.0},
        "cpu": {"count": 4},
    }
    node["network"] = {
        "aws_ofi_nccl_plugin": {"installed": False},
        "efa_available": False,
        "efa_error": "-61",
    }
    node["nccl"] = {"communication_tests": {"single_gpu": {"success": True, "test_type": "single-gpu"}}}
    at(node, "dcgm.diagnostics.extended").update(raw_output=one, stdout=one)
    at(node, "dcgm.diagnostics.basic").update(raw_output=basic)
    document = {**healthy(), "nodes": {"node_0": node}}
    opinion = read(document, FACTS, "g5.xlarge", 1)
    verdict = decide(opinion.report, RULES, opinion.facts)

    assert (Level.PASS, ()) == (verdict.level, verdict.findings)
