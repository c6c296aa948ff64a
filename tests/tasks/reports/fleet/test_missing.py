"""Missing evidence of a node: one line for each gate, which says CANNOT TELL, and nothing that gets worse."""

from __future__ import annotations

from dataclasses import replace

from checks.model import Cause, Level
from tasks.reports.fleet.page import fleet_page, node_page
from tasks.reports.fleet.states import HOUR_S
from tasks.reports.fleet.text import LEGEND, fleet_text, node_document, node_text, open_words
from tasks.store.node_rows import Standing
from tasks.store.records import KeptFinding
from tests.tasks.reports.fleet.test_states import DAY_S, GEMM, fleet, gate, node, only

LOST = tuple(
    KeptFinding(Level.FAIL, Cause.EVIDENCE, check, f"a/rank-{rank}", "not measured: it hung")
    for check in ("collective.all_gather", "collective.all_reduce", "compute.gemm")
    for rank in (2, 3)
)
FOUND = fleet(
    gate(2 * HOUR_S, node("a")), gate(HOUR_S, node("a", Standing.CANNOT_TELL, LOST), checks=("system.clock",))
)


def test_what_one_gate_could_not_measure_of_a_node_is_one_line() -> None:
    """How much is missing, and the first of it; JSON has every row."""
    (line,) = open_words(only(FOUND))

    assert line.startswith(
        "CANNOT TELL 3 checks (6 results), first collective.all_gather: node a, rank 2: not measured: it hung (since "
    )
    assert 6 == len(LOST) == len(node_document(only(FOUND))["open"])  # type: ignore[arg-type]


def test_every_page_says_it_alike() -> None:
    """The table of the fleet, its page, the text and the page of a node; none calls it a failure."""
    table, text = fleet_text(FOUND), node_text(only(FOUND), FOUND)
    pages = [fleet_page(FOUND, lambda _: ""), node_page("a", FOUND)]

    assert "CANNOT TELL 3 checks" in table and 1 == text.count("CANNOT TELL 3 checks (6 results)")
    assert all(1 == page.count("CANNOT TELL 3 checks (6 results)") for page in pages)
    assert not any("FAIL" in said for said in (table, text, *pages))
    assert "worse" not in table.replace("get worse by chance", "")


def test_a_failure_is_named_before_missing_evidence() -> None:
    """And one result that is missing is said with its check."""
    rows = [replace(LOST[0], subject="a/rank-1"), GEMM]
    found = fleet(gate(HOUR_S, node("a", Standing.CONDEMNED, rows)))

    assert "FAIL compute.gemm and 1 more" in fleet_text(found)
    assert ["CANNOT TELL collective.all_gather", "FAIL HARDWARE compute.gemm"] == [
        line.partition(":")[0] for line in open_words(only(found))
    ]


def test_missing_evidence_of_two_gates_is_two_lines() -> None:
    """The rest of an older gate is said of that gate."""
    older = node("a", Standing.CANNOT_TELL, LOST[:4])
    found = fleet(
        gate(DAY_S, older, checks=("system.clock",)),
        gate(HOUR_S, node("a", Standing.CANNOT_TELL, LOST[4:]), checks=()),
    )

    assert ["CANNOT TELL 2 checks (4 results)", "CANNOT TELL 1 check (2 results)"] == [
        line.partition(",")[0] for line in open_words(only(found))
    ]


def test_the_marks_of_a_node_have_their_legend() -> None:
    """As the table of the fleet."""
    assert node_text(only(FOUND), FOUND).endswith(f"\n{LEGEND}\n")
