"""Why a finding about the configuration leaves a doubt about a node: said on every page that shows the doubt, from the cause."""

from __future__ import annotations

from dataclasses import replace

import pytest

from checks.model import Cause, Level
from tasks.render.html import html
from tasks.reports.fleet.fleet import NodeState
from tasks.reports.fleet.page import fleet_page, node_page
from tasks.reports.fleet.states import HOUR_S
from tasks.reports.fleet.text import advice_lines, fleet_text, node_document, node_text
from tasks.store.node_rows import Standing
from tests.sample_reports import healthy, verdict_of, with_metric, wrong_sums
from tests.tasks.reports.fleet.test_states import CLOCK, DAY_S, GEMM, fleet, gate, node, only

MEANS = "It concerns how nodes are set up, or what else ran on them. It says nothing about their hardware."
WHY = "doubtful (cause CONFIGURATION): set right what the finding names"


def test_doubt_is_shown_until_the_check_passes() -> None:
    """On the page of the node and on that of all nodes."""
    warned = gate(3 * HOUR_S, node("a", Standing.DOUBTFUL, [CLOCK]), node("b"))
    found, healed = fleet(warned), fleet(warned, gate(HOUR_S, node("a"), node("b")))
    bad = next(one for one in found.nodes if one.name == "a")

    assert (Cause.CONFIGURATION,) == bad.doubts and ["CONFIGURATION"] == node_document(bad)["doubts"]
    pages = fleet_text(found), fleet_page(found, str), node_text(bad, found), node_page("a", found)
    assert all(WHY in page and MEANS in page for page in pages) and f"What to do:\n  {WHY}" in pages[2]
    assert not any(one.doubts for one in healed.nodes)
    assert "CONFIGURATION" not in fleet_page(healed, str) + fleet_text(healed)


def test_a_failure_of_the_whole_cluster_is_a_reason_too() -> None:
    """It is open on no node, and every node of that gate is doubtful."""
    uneven = replace(CLOCK, level=Level.FAIL, check="system.uniform", subject="cluster")
    rows = (node("a", Standing.DOUBTFUL), node("b", Standing.DOUBTFUL))
    found = fleet(replace(gate(HOUR_S, *rows), cluster_findings=(uneven,)))

    assert WHY in fleet_text(found)


@pytest.mark.parametrize("cause", [Cause.HARDWARE, Cause.APPLICATION])
def test_a_doubt_of_another_cause_is_no_doubt_about_the_configuration(cause: Cause) -> None:
    """Nor is a condemned node one that is merely doubtful."""
    other = fleet(gate(HOUR_S, node("a", Standing.DOUBTFUL, [replace(CLOCK, cause=cause)])))
    condemned = fleet(gate(HOUR_S, node("a", Standing.CONDEMNED, [GEMM, CLOCK])))

    assert NodeState.DOUBTFUL is only(other).state and (cause,) == only(other).doubts
    assert () == only(condemned).doubts
    assert not any("cause CONFIGURATION" in fleet_text(found) for found in (other, condemned))


def test_each_state_but_proven_says_what_to_do() -> None:
    """One line for each that a node is in."""
    silent = gate(HOUR_S, node("d", Standing.CANNOT_TELL, [replace(CLOCK, subject="d")], None), node("a"))
    found = fleet(gate(9 * DAY_S, node("c")), gate(2 * HOUR_S, node("b", Standing.CONDEMNED, [GEMM])), silent)

    states = [line.partition(":")[0] for line in advice_lines(found.nodes)]
    assert ["condemned", "cannot tell", "unproven"] == states
    assert [] == advice_lines(fleet(gate(HOUR_S, node("a"))).nodes)


def test_the_report_says_it_below_its_findings() -> None:
    """Where one of them has the cause."""
    clock, sums = with_metric(healthy(), "system.clock", "node-0", "wall_rate", 1.5), wrong_sums(healthy())
    pages = [html(report, verdict_of(report), "c") for report in (clock, sums, healthy())]

    assert [1, 0, 0] == [page.count(MEANS) for page in pages]
