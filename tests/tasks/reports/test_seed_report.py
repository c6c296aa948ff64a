"""The report of another tool: what its PASS hides in a raw output is found, and what it does not show is "cannot tell"."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from checks.explain.reading import OutputKind, ReadOptions
from checks.model import Answer, Cause, Level, Verdict
from tasks.reports.explained_input import explain_text
from tests.corpus.case import declared
from tests.second_opinion import (
    Document,
    at,
    diagnosed,
    four_nodes,
    healthy,
    put,
    raw_outputs,
    recorded,
    spoilt,
    table_of,
    without,
)

ALL_REDUCE = "nccl.communication_tests.distributed_all_reduce"
EXTENDED = "nodes.node_1.dcgm.diagnostics.extended"
PINGPONG = "nodes.node_1.network.efa_communication_test"
NO_GPU = {"success": True, "test_type": "no-gpu", "message": "No GPUs available"}
CPU_ONLY = {"gpu": {}, "nccl": {}, "network": {}, "dcgm": {"diagnostics": {"no_gpu": NO_GPU}}}
P5 = ReadOptions(declared("p5.48xlarge", 2))


def explained(report: Document | str, asked: ReadOptions = P5) -> Verdict:
    """The verdict of `prelaunch explain`, which has to recognise the report."""
    text = report if isinstance(report, str) else json.dumps(report, indent=2)
    found = explain_text("-", "input", text.encode(), None, None, asked)
    assert found.tool is OutputKind.REPORT
    return found.verdict


@pytest.mark.parametrize("asked", [P5, ReadOptions()])
def test_a_healthy_and_complete_report_is_a_go(asked: ReadOptions) -> None:
    """With the declaration, or without one."""
    verdict = explained(healthy(), asked)

    assert (Answer.GO, ()) == (verdict.answer, tuple(f for f in verdict.findings if f.level is Level.FAIL))


def test_the_failure_that_a_published_sample_hides_is_found() -> None:
    """The first node's GPU 1 failed Targeted Power on a row without a name, and the tool says PASS."""
    document = recorded("g5_hidden_failure.json")
    verdict = explained(document, ReadOptions())
    worst = verdict.findings[0]

    assert (Answer.NO_GO, "PASS") == (verdict.answer, document["cluster_summary"]["overall_status"])
    assert (Level.FAIL, Cause.HARDWARE) == (worst.level, worst.cause)
    assert worst.message.startswith("fails DCGM's diagnostic: GPU 1: targeted_power")
    assert "nodes.node_0.dcgm.diagnostics.extended" in worst.evidence and "| Fail - GPU: 1" in worst.evidence


@pytest.mark.parametrize("more", [{}, {"exit_code_zero": False}])
def test_a_row_without_a_name_is_no_go(more: dict[str, object]) -> None:
    """With the exit code and without it; the finding names the node."""
    table = table_of("Pass - GPUs: 0, 2, 3, 4, 5, 6, 7", "Fail - GPU: 1")
    verdict = explained(spoilt(diagnosed(1, table, **more)))

    assert Answer.NO_GO is verdict.answer
    assert "node_1" in verdict.findings[0].evidence


UNKNOWN: dict[str, Callable[[Document], object]] = {
    "a raw output is empty": lambda d: at(d, EXTENDED).update(raw_output="", stdout=""),
    "a raw output is of nobody": put(f"{PINGPONG}.raw_output", "fi_eq_sread: Connection refused"),
    "a raw output is a number": put(f"{PINGPONG}.raw_output", 7),
    "the exit code is not 0, and nothing failed": put(f"{EXTENDED}.exit_code_zero", False),
    "the tool says failed, and nothing did": put(f"{EXTENDED}.success", False),
    "the tool reads its table as Fail": put(
        f"{EXTENDED}.parsed_output.test_results.stress.EUD Test", "Fail - All"
    ),
    "a table is cut after its last test": diagnosed(1, table_of("Pass - All")[:-100]),
    "a table of a megabyte": diagnosed(1, table_of("Pass - All", *["Pass - GPUs: 1,2,3,4,5,6,7"] * 15_000)),
    "a diagnostic was switched off": put(EXTENDED, {"success": True, "skipped": True, "message": "disabled"}),
    "an unknown test that failed": put("nodes.node_1.dcgm.diagnostics.memtest", {"success": False}),
    "an all_reduce that raised": put(
        f"nodes.node_1.{ALL_REDUCE}", {"success": False, "error": "NCCL error 6"}
    ),
    "no GPU at all: CPU-only": lambda d: d["nodes"]["node_1"].update(CPU_ONLY),
    "no node has a GPU": lambda d: [node.update(CPU_ONLY) for node in d["nodes"].values()],
    "a node is missing": without("nodes.node_1"),
    "a node is no table": put("nodes.node_1", "gone"),
    "a node twice under two names": lambda d: d["nodes"].update({"node_1": d["nodes"]["node_0"]}),
    "one host twice": lambda d: at(d, "nodes.node_1.node_info").update(
        hostname=d["nodes"]["node_0"]["node_info"]["hostname"]
    ),
    "a section is missing": without("nodes.node_1.network"),
    "data that is not complete": put("cluster_info.data_completeness", "partial"),
    "the tool says FAIL of a node": put("nodes.node_1.summary.overall_status", "FAIL"),
    "the tool says FAIL of the cluster": put("cluster_summary.overall_status", "FAIL"),
    "the tool lists an issue": put("cluster_summary.issues", ["node_1: EFA is slow"]),
}


@pytest.mark.parametrize("case", UNKNOWN)
def test_seed_report_that_lacks_values_cannot_tell(case: str) -> None:
    """Nothing says that a part is broken, and nothing that it is whole."""
    assert Answer.CANNOT_TELL is explained(spoilt(UNKNOWN[case])).answer


@pytest.mark.parametrize("path", raw_outputs(healthy()))
def test_no_raw_output_may_be_missing(path: str) -> None:
    """Whichever it is; the sentence names its place."""
    place = path.rpartition(".")[0]
    verdict = explained(spoilt(lambda d: (at(d, place).pop("stdout", None), without(path)(d))))

    assert Answer.CANNOT_TELL is verdict.answer
    assert any(place in finding.message for finding in verdict.findings)


def test_raw_output_and_stdout_that_differ_are_both_read() -> None:
    """The worse one counts."""
    assert Answer.NO_GO is explained(spoilt(put(f"{EXTENDED}.stdout", table_of("Fail - All")))).answer


def test_fewer_nodes_than_declared_is_cannot_tell() -> None:
    """What the operator declares is what must be there, whatever cluster_info says."""
    assert Answer.CANNOT_TELL is explained(healthy(), ReadOptions(declared("p5.48xlarge", 3))).answer
    assert Answer.CANNOT_TELL is explained(four_nodes(), ReadOptions(declared("p5.48xlarge", 4))).answer


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(spoilt(put("nodes.node_0.gpu.gpu_0.power_draw_w", float("nan")))),
        json.dumps(healthy()).replace('"node_1"', '"node_0"'),
        json.dumps(healthy(), indent=2)[:-2000],
        json.dumps(spoilt(put("nodes.node_0.gpu", 0))).replace(
            '"gpu": 0', '"gpu": ' + '{"a":' * 2000 + "0" + "}" * 2000
        ),
        '{"cluster_info": {}, "cluster_summary": {}, "nodes": {}}',
        '{"cluster_info": {}, "cluster_summary": {}, "nodes": {"node_0": []}}',
    ],
    ids=["NaN", "a key twice", "truncated", "deep", "no nodes", "no table"],
)
def test_a_hostile_report_is_cannot_tell(text: str) -> None:
    """Nothing in it makes the reader fail."""
    assert Answer.CANNOT_TELL is explained(text).answer
