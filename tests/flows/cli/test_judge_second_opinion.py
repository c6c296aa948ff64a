"""`prelaunch judge` on the report of another tool: what its PASS hides is found, and said beside it."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from flows.cli.main import main
from tests.second_opinion import (
    P5,
    RECORDINGS,
    Document,
    at,
    diagnosed,
    four_nodes,
    healthy,
    put,
    spoilt,
    table_of,
    without,
)

ALL_REDUCE = "nccl.communication_tests.distributed_all_reduce"
EXTENDED = "nodes.node_1.dcgm.diagnostics.extended"
NO_GPU = {"success": True, "test_type": "no-gpu", "message": "No GPUs available"}
CPU_ONLY = {
    "gpu": {},
    "nccl": {"nccl_tests_available": True, "communication_tests": {"no_gpu": NO_GPU}},
    "dcgm": {"dcgm_available": False, "diagnostics": {"no_gpu": NO_GPU}},
}
TCP_ONLY = {
    "aws_ofi_nccl_plugin": {"installed": True, "path": "/opt/amazon/libnccl-net.so"},
    "efa_available": True,
    "efa_providers": [],
    "efa_provider_count": 0,
    "efa_communication_test": {"success": True, "message": "communication testing skipped"},
}


@dataclass(frozen=True)
class Ended:
    """What one run of the command left."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        """The one JSON document on stdout."""
        return json.loads(self.out)

    @property
    def findings(self) -> list[tuple[str, str, str, str]]:
        """(level, check, subject, message) of each."""
        return [(f["level"], f["check"], f["subject"], f["message"]) for f in self.document["findings"]]


Run = Callable[..., Ended]


@pytest.fixture
def run(capfdbinary: pytest.CaptureFixture[bytes], tmp_path: Path) -> Iterator[Run]:
    """`judge` of a document in this process."""
    before = signal.getsignal(signal.SIGTERM)

    def runner(report: Document | str, *words: str, form: str = "json", verb: str = "judge") -> Ended:
        file = tmp_path / "health_check_metrics.json"
        file.write_text(report if isinstance(report, str) else json.dumps(report, indent=2))
        code = main([verb, str(file), "--format", form, *words])
        out, err = capfdbinary.readouterr()
        return Ended(code, out.decode(), err.decode())

    yield runner
    signal.signal(signal.SIGTERM, before)


def slow(algbw_gbps: float) -> Callable[[Document], object]:
    """A change: the 128 MiB all_reduce of both nodes ran at this rate."""

    def change(document: Document) -> None:
        for node in document["nodes"].values():
            test = at(node, ALL_REDUCE)
            latency_ms = round((128 << 20) / algbw_gbps / 1e6, 2)
            test["results"] = [
                {"size_bytes": 128 << 20, "bandwidth_gbps": algbw_gbps, "latency_ms": latency_ms}
            ]
            test["peak_bandwidth_gbps"] = algbw_gbps

    return change


def test_a_healthy_and_complete_report_is_a_go(run: Run) -> None:
    """Exit 0, a PASS, with every node, GPU and rank counted."""
    ended = run(healthy(), *P5)

    assert (0, "PASS", []) == (ended.code, ended.document["level"], ended.document["findings"])
    assert {"observed": 16, "declared": 16} == ended.document["coverage"]["gpus"]


def test_the_failure_that_a_published_sample_hides_is_found(run: Run) -> None:
    """Two g5.12xlarge: the first one's GPU 1 failed Targeted Power on a row without a name, and the tool says PASS."""
    document = json.loads((RECORDINGS / "second_opinion" / "g5_hidden_failure.json").read_text())
    ended = run(document, "--instance-type", "ml.g5.12xlarge", "--nodes", "2")
    worst = ended.document["findings"][0]

    assert (1, "PASS") == (ended.code, document["cluster_summary"]["overall_status"])
    assert ("FAIL", "HARDWARE", "node_0") == (worst["level"], worst["cause"], worst["subject"])
    assert worst["message"].startswith("fails DCGM's diagnostic: GPU 1: targeted_power")
    assert "| Fail - GPU: 1" in worst["evidence"]
    assert ["node_0"] == ended.document["condemned"]


HIDDEN = {
    "a row without a name": (
        diagnosed(1, table_of("Pass - GPUs: 0, 2, 3, 4, 5, 6, 7", "Fail - GPU: 1"), exit_code_zero=False),
        ("node_1", "dcgm.extended", "GPU 1"),
    ),
    "the same, without the exit code": (
        diagnosed(1, table_of("Pass - GPUs: 0, 2, 3, 4, 5, 6, 7", "Fail - GPU: 1")),
        ("node_1", "dcgm.extended", "GPU 1"),
    ),
    "a GPU of eight is gone": (
        without("nodes.node_1.gpu.gpu_3"),
        ("node_1", "gpu.inventory", "lacks 1 GPU"),
    ),
    "no GPU at all: CPU-only": (
        lambda d: d["nodes"]["node_1"].update(CPU_ONLY),
        ("node_1", "gpu.inventory", "lacks 8 GPUs"),
    ),
    "an all_reduce that raised": (
        put(
            f"nodes.node_1.{ALL_REDUCE}",
            {"success": False, "error": "NCCL error 6", "test_type": "distributed"},
        ),
        ("node_1", "nccl.all_reduce", "NCCL error 6"),
    ),
    "0.6 GB/s between two p5": (
        slow(0.6),
        ("node_0", "nccl.inter_node", "bandwidth that NCCL's log proves is 4.8 Gbit/s"),
    ),
    "60 GB/s between two p5": (slow(60.0), ("cluster", "nccl.all_reduce", "reaches ")),
    "fi_info lists tcp alone": (
        put("nodes.node_1.network", TCP_ONLY),
        ("node_1", "efa.devices", "endpoints is 0"),
    ),
    "31 of 32 EFA devices": (
        put("nodes.node_1.network.efa_provider_count", 93),
        ("node_1", "efa.devices", "devices is 31"),
    ),
    "another GPU model": (
        put("nodes.node_1.gpu.gpu_7.name", "NVIDIA H200"),
        ("node_1", "gpu.inventory", "GPU 7"),
    ),
    "a GPU with less memory": (
        put("nodes.node_0.gpu.gpu_2.memory_total_mb", 40000),
        ("node_0", "gpu.memory", "GPU 2"),
    ),
}


@pytest.mark.parametrize("case", HIDDEN)
def test_a_hidden_failure_is_no_go_and_named(run: Run, case: str) -> None:
    """Exit 1, with node and part; the tool's own PASS stands beside it."""
    change, (node, check, words) = HIDDEN[case]
    ended = run(spoilt(change), *P5)

    assert 1 == ended.code
    assert any(("FAIL", check, node) == f[:3] and words in f[3] for f in ended.findings), ended.findings
    assert {"overall": "PASS", "nodes": {"node_0": "PASS", "node_1": "PASS"}} == ended.document["own_verdict"]


UNKNOWN = {
    "a raw output is missing": without(f"{EXTENDED}.raw_output"),
    "a raw output is empty": put(f"{EXTENDED}.raw_output", ""),
    "the exit code is not 0, and nothing failed": put(f"{EXTENDED}.exit_code_zero", False),
    "the tool says failed, and nothing did": put(f"{EXTENDED}.success", False),
    "raw output and stdout differ": put(f"{EXTENDED}.stdout", table_of("Fail - All")),
    "a table is cut after its last test": diagnosed(1, table_of("Pass - All")[:-100]),
    "a diagnostic was switched off": put(EXTENDED, {"success": True, "skipped": True, "message": "disabled"}),
    "a test was skipped": diagnosed(1, table_of("Skip - All")),
    "a node is missing": without("nodes.node_1"),
    "a node out of order": lambda d: d["nodes"].update({"node_2": d["nodes"].pop("node_1")}),
    "a node twice under two names": lambda d: d["nodes"].update({"node_1": d["nodes"]["node_0"]}),
    "one host twice": lambda d: at(d, "nodes.node_1.node_info").update(
        hostname=d["nodes"]["node_0"]["node_info"]["hostname"]
    ),
    "something among the nodes that is none": put("nodes.summary", {}),
    "a string for a number": put("nodes.node_1.gpu.gpu_0.memory_total_mb", "81559"),
    "a truth for a number": put("nodes.node_1.gpu.gpu_0.memory_total_mb", True),
    "a number that is none": put("nodes.node_1.gpu.gpu_0.temperature_c", None),
    "the section of the GPUs is empty": put("nodes.node_1.gpu", {}),
    "a section is missing": without("nodes.node_1.network"),
    "a section is a list": put("nodes.node_1.nccl", []),
    "no collective ran": put(
        f"nodes.node_1.{ALL_REDUCE.rpartition('.')[0]}", {"single_gpu": {"success": True}}
    ),
    "the MPI variant, which tests no collective": lambda d: [n.pop("nccl") for n in d["nodes"].values()],
    "a node that calls itself another": put("nodes.node_1.node_info.host_rank", 0),
    "a cluster of 15 processes": lambda d: [
        (at(n, ALL_REDUCE).update(processes_tested=15), n["node_info"].update(world_size=15))
        for n in d["nodes"].values()
    ],
    "seven of eight ranks took part": put(f"nodes.node_1.{ALL_REDUCE}.processes_tested", 15),
    "rate and time contradict each other": put(
        f"nodes.node_1.{ALL_REDUCE}.results",
        [{"size_bytes": 128 << 20, "bandwidth_gbps": 153.39, "latency_ms": 74.35}],
    ),
    "faster than the part can be: it was mistimed": slow(5000.0),
    "data that is not complete": put("cluster_info.data_completeness", "partial"),
    "the tool says FAIL of a node": put("nodes.node_1.summary.overall_status", "FAIL"),
    "the tool says FAIL of the cluster": put("cluster_summary.overall_status", "FAIL"),
    "the tool has another word": put("nodes.node_1.summary.overall_status", "OK"),
    "fi_pingpong's output is missing": without("nodes.node_1.network.efa_communication_test.raw_output"),
    "an unknown test that failed": put("nodes.node_1.dcgm.diagnostics.memtest", {"success": False}),
}


@pytest.mark.parametrize("case", UNKNOWN)
def test_what_the_report_does_not_show_cannot_tell(run: Run, case: str) -> None:
    """Exit 3: nothing says that a part is broken, and nothing that it is whole."""
    ended = run(spoilt(UNKNOWN[case]), *P5)

    assert (3, "cannot_tell", []) == (ended.code, ended.document["answer"], ended.document["condemned"])


HOSTILE = {
    "NaN": json.dumps(spoilt(put("nodes.node_0.gpu.gpu_0.power_draw_w", float("nan")))),
    "a node's key twice": json.dumps(healthy()).replace('"node_1"', '"node_0"'),
    "a table of a megabyte": json.dumps(
        spoilt(diagnosed(1, table_of("Pass - All", *["Fail - GPUs: 1,2,3,4,5,6,7"] * 15_000)))
    ),
    "deep": json.dumps(spoilt(put("nodes.node_0.gpu", 0))).replace(
        '"gpu": 0', '"gpu": ' + '{"a":' * 60 + "0" + "}" * 60
    ),
    "truncated": json.dumps(healthy(), indent=2)[:-2000],
    "cluster_info declares nothing": json.dumps(spoilt(put("cluster_info", {"note": "x"}))),
    "a million nodes": json.dumps(spoilt(put("cluster_info.cluster_topology.total_nodes", 10**6))),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_a_hostile_report_cannot_tell(run: Run, case: str) -> None:
    """Refused as a whole, in one sentence."""
    ended = run(HOSTILE[case])

    assert (3, "cannot_tell") == (ended.code, ended.document["answer"])


def test_markup_and_control_characters_are_inert(run: Run, tmp_path: Path) -> None:
    """What a node writes reaches neither a terminal nor a page as more than text."""
    change = put(
        f"nodes.node_1.{ALL_REDUCE}", {"success": False, "error": "\x1b[2J<script>alert(1)</script>"}
    )

    page = tmp_path / "page.html"
    named = put("cluster_summary.overall_status", "\x1b[2JPASS<script>")
    ended = run(spoilt(named, spoilt(change)), *P5, "--html", str(page), form="text")

    assert 1 == ended.code
    assert "\x1b[2J" not in ended.out
    assert "<script>alert" not in page.read_text() and "PASS<script>" not in page.read_text()


FOUR = ("--instance-type", "p5.48xlarge", "--nodes", "4")


def test_a_third_node_whose_pingpong_the_tool_cannot_run_is_a_warning(run: Run) -> None:
    """Its server takes one client by design: that says nothing against the others, and is said."""
    ended = run(four_nodes(), *FOUR)
    warned = {
        subject for level, check, subject, _ in ended.findings if ("WARN", "efa.pingpong") == (level, check)
    }

    assert (0, {"node_2", "node_3"}) == (ended.code, warned)


def test_a_server_that_no_client_reached_is_no_go(run: Run) -> None:
    """Then the fabric carried nothing at all."""
    change = put(
        "efa_communication_test", {"success": False, "raw_output": "timed out", "test_role": "server"}
    )
    ended = run(spoilt(lambda d: change(d["nodes"]["node_0"]["network"]), four_nodes()), *FOUR)

    assert 1 == ended.code
    assert any(("FAIL", "efa.pingpong", "node_0") == finding[:3] for finding in ended.findings)


def test_fewer_nodes_than_declared_cannot_tell(run: Run) -> None:
    """What the operator declares is what must be there, whatever cluster_info says."""
    ended = run(healthy(), "--instance-type", "p5.48xlarge", "--nodes", "3")

    assert 3 == ended.code
    assert any("node_2" == subject for _, _, subject, _ in ended.findings)


@pytest.mark.parametrize("words", [(), P5[:2], P5[2:]])
def test_what_nobody_declared_is_self_declared(run: Run, words: tuple[str, ...]) -> None:
    """A WARN that says so, and still a go."""
    ended = run(healthy(), *words)

    assert (0, "WARN") == (ended.code, ended.document["level"])
    assert any("counts is self-declared" in message for *_, message in ended.findings)


def test_a_cluster_that_declares_no_gpu_itself_cannot_tell(run: Run) -> None:
    """The tool's CPU-only PASS: without --instance-type nobody knows what should be there."""

    def change(document: Document) -> None:
        document["cluster_info"]["cluster_topology"].update(gpus_per_node=0, processes_per_node=0)
        for node in document["nodes"].values():
            node.update(CPU_ONLY)

    assert 3 == run(spoilt(change)).code
    assert 1 == run(spoilt(change), *P5).code


def test_the_own_word_stands_beside_ours(run: Run) -> None:
    """In the headline, and of each node below it; in text and in Markdown."""
    change = diagnosed(1, table_of("Pass - GPUs: 0, 2, 3, 4, 5, 6, 7", "Fail - GPU: 1"))
    text = run(spoilt(change), *P5, form="text").out
    page = run(spoilt(change), *P5, form="markdown").out

    assert text.startswith(
        "NO-GO health_check_metrics.json, which says PASS: node_1 fails DCGM's diagnostic: "
    )
    assert "\nthe tool's own result: PASS; every node PASS\n" in text
    assert "which says PASS" in page and "the tool's own result: PASS" in page


def test_unknown_keys_are_named_as_not_judged(run: Run) -> None:
    """A later version may write more: it is not refused, and not passed over in silence."""
    change = put("nodes.node_1.gpu.gpu_0.xid_errors", 3)
    ended = run(spoilt(change), *P5)

    assert (0, ["nodes.node_*.gpu.gpu_*.xid_errors"]) == (ended.code, ended.document["not_judged"])


def test_pages_show_it(run: Run, tmp_path: Path) -> None:
    """The same words, on the page."""
    page = tmp_path / "page.html"
    ended = run(healthy(), *P5, "--html", str(page), verb="render", form="markdown")

    assert 0 == ended.code
    assert "which says PASS" in ended.out
    assert "which says PASS" in page.read_text()


def test_explain_knows_it_as_well(run: Run) -> None:
    """The same verdict, from the verb that is given whatever somebody has."""
    change = diagnosed(1, table_of("Pass - GPUs: 0, 2, 3, 4, 5, 6, 7", "Fail - GPU: 1"))
    ended = run(spoilt(change), *P5, verb="explain")

    assert (1, "report") == (ended.code, ended.document["kind"])
    assert 0 == run(healthy(), *P5, verb="explain").code


def test_a_report_of_ours_takes_no_declaration(run: Run) -> None:
    """It declares itself: another one beside it would be ignored, or would lie."""
    from checks.documents.report import dump
    from tests.sample_reports import healthy as ours

    ended = run(dump(ours()).decode(), *P5)

    assert 2 == ended.code
    assert "already names its machines" in ended.document["error"]["message"]


@pytest.mark.parametrize(
    ("words", "said"),
    [(("--instance-type", "p5.48xlrge"), "p5.48xlarge"), (("--nodes", "0"), "is not between")],
)
def test_a_declaration_that_cannot_be_is_refused(run: Run, words: tuple[str, ...], said: str) -> None:
    """Before anything is judged, with the nearest type."""
    ended = run(healthy(), *words)

    assert 2 == ended.code
    assert said in ended.out


def test_a_report_of_neither_tool_is_refused_as_before(run: Run) -> None:
    """What has neither shape is no report."""
    ended = run('{"cluster_info": {}, "nodes": {}}', *P5)

    assert (3, "cannot_tell") == (ended.code, ended.document["answer"])
    assert "schema version" in ended.findings[0][3]
