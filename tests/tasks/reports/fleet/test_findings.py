"""Missing evidence of a node: one line for each gate, which says CANNOT TELL, and nothing that gets worse.

Of a finding: since when it stands, when it was last seen, and why one about the configuration leaves a doubt about the node: that is
said on every page that shows the doubt, from the cause.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from checks.facts.builtin import builtin
from checks.judge.clocks import seconds_of
from checks.judge.verdict import decide
from checks.model import CLUSTER, Cause, Finding, Level, Profile
from checks.policy import CheckPolicy, Rule
from tasks.render.html import html
from tasks.reports.fleet.fleet import Fleet, GateMark, NodeState
from tasks.reports.fleet.page import fleet_page, node_page
from tasks.reports.fleet.states import HOUR_S
from tasks.reports.fleet.text import (
    advice_lines,
    fleet_text,
    mark_words,
    node_document,
    node_text,
    open_words,
)
from tasks.store.node_history import NEWEST
from tasks.store.node_rows import GateNodes, Standing, rows_of
from tests.checks.local_policy import silent_node
from tests.sample_reports import FACTS, POLICY, healthy, verdict_of, with_metric, wrong_sums
from tests.tasks.kept_gates import gate_id
from tests.tasks.reports.fleet.test_states import (
    CLOCK,
    DAY_S,
    GEMM,
    NOW,
    SILENT,
    fleet,
    gate,
    node,
    only,
    utc,
)

CHECKS = ("collective.all_gather", "collective.all_reduce", "compute.gemm")
HUNG = Finding(Level.FAIL, Cause.EVIDENCE, "", "", "not measured: it hung")
LOST = tuple(replace(HUNG, check=check, subject=f"a/rank-{rank}") for check in CHECKS for rank in (2, 3))
_NEWER = gate(HOUR_S, node("a", Standing.CANNOT_TELL, LOST), checks=("system.clock",))
FOUND = fleet(gate(2 * HOUR_S, node("a")), _NEWER)


def test_missing_evidence_of_a_node_is_one_line_for_its_gate() -> None:
    """How much is missing, and the first of it; JSON has every row."""
    (line,) = open_words(only(FOUND))

    first = "first collective.all_gather: node a, rank 2: not measured: it hung"
    assert line.startswith(f"CANNOT TELL 3 checks (6 results), {first} (since ")
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
    lines = [line.partition(":")[0] for line in open_words(only(found))]
    assert ["CANNOT TELL collective.all_gather", "FAIL HARDWARE compute.gemm"] == lines


def test_missing_evidence_of_two_gates_is_two_lines() -> None:
    """The rest of an older gate is said of that gate."""
    older = node("a", Standing.CANNOT_TELL, LOST[:4])
    newer = gate(HOUR_S, node("a", Standing.CANNOT_TELL, LOST[4:]), checks=())
    found = fleet(gate(DAY_S, older, checks=("system.clock",)), newer)

    lines = [line.partition(",")[0] for line in open_words(only(found))]
    assert ["CANNOT TELL 2 checks (4 results)", "CANNOT TELL 1 check (2 results)"] == lines


def test_a_warning_about_a_value_that_was_slow_on_a_busy_node_is_a_doubt() -> None:
    """Nobody can tell whether the machine or the other work is the reason: no proof, and no answer to what was found before."""
    rule = Rule("gflops", "a test", warn_below=100.0, needs_cpu=True)
    policy = replace(POLICY, checks={**POLICY.checks, "compute.gemm": CheckPolicy(rules=(rule,))})
    busy = {"host_load": 25.0, "host_taken": 0.8, "host_idle": 0.0, "host_cpus": 2}
    report = replace(healthy(), gate_id=gate_id(0))
    for rank in range(4):
        for metric, value in (busy if rank < 2 else {"gflops": 400.0}).items():
            report = with_metric(report, "compute.gemm", f"node-{rank // 2}/rank-{rank}", metric, value)
    verdict = decide(report, policy, FACTS)
    made = rows_of(report, verdict, policy, gate_id(0), "2026-11-21T09:00:00Z", "c")
    doubts = [one for one in verdict.findings if one.level is Level.WARN]

    assert {("compute.gemm", Cause.EVIDENCE, "gflops")} == {(f.check, f.cause, f.metric) for f in doubts}
    assert [Standing.DOUBTFUL, Standing.PROVEN] == [one.standing for one in made.nodes]
    assert NodeState.DOUBTFUL is fleet(made).nodes[0].state
    assert ["compute.gemm" in made.checks[one.checks] for one in made.nodes] == [False, True]


@pytest.mark.parametrize("metric", ["bandwidth", ""])
def test_a_finding_about_the_cluster_is_a_doubt_about_the_nodes_that_it_names(metric: str) -> None:
    """Of pair tests that were slow while a node was busy. The others measured no such pair, and nothing was found of them. Where no
    threshold was crossed, it is a gap that the policy accepts, and no doubt.
    """
    message = "most of them are of node-1"
    busy = Finding(Level.WARN, Cause.EVIDENCE, "collective.all_reduce", CLUSTER, message, metric=metric)
    report = replace(healthy(), gate_id=gate_id(0))
    verdict = replace(decide(report, POLICY, FACTS), findings=(replace(busy, named_nodes=("node-1",)),))
    made = rows_of(report, verdict, POLICY, gate_id(0), "2026-11-21T09:00:00Z", "c")
    found = {one.name: one for one in fleet(made).nodes}
    standing = Standing.DOUBTFUL if metric else Standing.PROVEN

    assert [Standing.PROVEN, standing] == [one.standing for one in made.nodes]
    assert (NodeState.DOUBTFUL is found["node-1"].state) is bool(metric)
    assert NodeState.DOUBTFUL is not found["node-0"].state and not open_words(found["node-0"])
    assert ("most of them" in " ".join(open_words(found["node-1"]))) is bool(metric)
    assert not metric or not any("collective.all_reduce" in made.checks[one.checks] for one in made.nodes)


def test_when_a_gate_measured_is_said_where_that_is_not_the_time_of_its_verdict() -> None:
    """The age of a proof counts from there, so that both times would contradict each other."""
    judged = "2026-11-26T03:12:00Z"
    at = seconds_of(judged) or 0.0
    fresh = GateMark("g-1", "a", judged, at - 600.0, Standing.PROVEN, Profile.QUICK, "p")
    said = f"+ {judged} proven as a by g-1, quick"

    assert said == mark_words(fresh, at)
    old = replace(fresh, measured_at=at - 4 * DAY_S)
    assert f"{said}, measured at 2026-11-22 03:12:00Z" == mark_words(old, at)


def recorded(name: str, number: int) -> GateNodes:
    """The rows of a recorded gate of two nodes on one machine, judged by the entries of its own checks."""
    report, policy = silent_node(name)
    report = replace(report, gate_id=gate_id(number))
    found = decide(report, policy, builtin())
    return rows_of(report, found, policy, gate_id(number), f"2026-11-21T{9 + number:02}:00:00Z", "c")


@pytest.mark.parametrize("name", ["before_ranks", "during_ranks"])
def test_evidence_lost_by_peers_of_a_silent_node_is_open_on_that_node(name: str) -> None:
    """Its peer cannot be told in that gate, and has no finding of its own. A gate that measured all of it closes them, also where
    other work made its pair tests prove nothing.
    """
    silent, busy = recorded(name, 0), recorded("busy", 1)
    rows = {one.node: one for one in silent.nodes}
    later = {one.name: one for one in fleet(silent, busy).nodes}

    assert [Standing.CANNOT_TELL] * 2 == [one.standing for one in silent.nodes]
    assert () == rows["node-0"].findings
    assert {"node-0/rank-0", "node-1"} < {one.subject for one in rows["node-1"].findings}
    assert {"collective.pairs"} == {one.finding.check for node in later.values() for one in node.open}
    assert {Level.WARN} == {one.finding.level for node in later.values() for one in node.open}


def test_a_check_that_was_measured_on_a_busy_node_is_missing_no_more() -> None:
    """Its values prove nothing, so that a fault stays open; but there is evidence again. What another rank still lacks is none."""
    missing = Finding(Level.FAIL, Cause.EVIDENCE, "collective.pairs", "node-0/rank-0", "not measured")
    fault = replace(missing, cause=Cause.HARDWARE, message="is slow", metric="bandwidth")
    busy = replace(missing, level=Level.WARN, message="was busy", metric="bandwidth")
    other = replace(missing, subject="node-0/rank-1")

    def still(*later: Finding) -> set[tuple[Cause, str]]:
        ages = ((3, (missing, fault)), (2, later), (1, later))
        nodes = [(age, node("node-0", Standing.DOUBTFUL, found)) for age, found in ages]
        gates = [gate(age * HOUR_S, one, checks=("system.clock",)) for age, one in nodes]
        left = [one.finding for one in only(fleet(*gates)).open]
        return {(one.cause, one.subject) for one in left if one.level is Level.FAIL}

    hardware = (Cause.HARDWARE, "node-0/rank-0")
    assert {hardware} == still(busy)
    assert {hardware, (Cause.EVIDENCE, "node-0/rank-0"), (Cause.EVIDENCE, "node-0/rank-1")} == still(other)


def _dates(found: Fleet) -> list[tuple[str, str, bool]]:
    """Of each open finding: the first gate of its row, the last one, and whether the row may be longer."""
    return [(one.since_gate_id, one.gate_id, one.at_least) for one in only(found).open]


def test_a_finding_stands_since_the_first_gate_of_its_unbroken_row() -> None:
    """A gate that measured the check without it ends a row; one that did not measure it ends none."""
    bad, other = node("a", Standing.DOUBTFUL, [CLOCK]), ("compute.gemm",)
    found = fleet(
        gate(9 * DAY_S, bad), gate(8 * DAY_S, node("a")), gate(7 * DAY_S, bad), gate(6 * DAY_S, node("a"), checks=other),
        gate(5 * DAY_S, bad), gate(4 * DAY_S, node("a"), checks=other),
    )  # fmt: skip

    assert [(f"g-{7 * DAY_S:.0f}", f"g-{5 * DAY_S:.0f}", False)] == _dates(found)
    (one,) = only(found).open
    assert (utc(NOW - 7 * DAY_S), utc(NOW - 5 * DAY_S)) == (one.since, one.last_seen)
    dates = f"(since {one.since}, {one.since_gate_id}; last seen {one.last_seen}, {one.gate_id})"
    assert dates in node_text(only(found), found)


def test_a_finding_of_one_gate_is_dated_once() -> None:
    """First and last are the same."""
    found = fleet(gate(HOUR_S, node("a", Standing.DOUBTFUL, [CLOCK])))
    (one,) = only(found).open

    assert f"(since {utc(NOW - HOUR_S)}, g-{HOUR_S:.0f})" in node_text(only(found), found)
    assert one.since == one.last_seen


def test_missing_evidence_stands_since_the_last_proof() -> None:
    """Which is what answers it."""
    silent = node("a", Standing.CANNOT_TELL, [SILENT], None)
    gates = (gate(age * DAY_S, row) for age, row in ((9, silent), (8, node("a")), (7, silent), (6, silent)))
    found = fleet(*gates)

    assert [(f"g-{7 * DAY_S:.0f}", f"g-{6 * DAY_S:.0f}", False)] == _dates(found)


def test_finding_beyond_the_kept_gates_is_dated_at_least_since_the_oldest() -> None:
    """It stands at least since the oldest of the newest gates."""
    bad = node("a", Standing.DOUBTFUL, [CLOCK])
    found = fleet(*(gate(HOUR_S * age, bad) for age in range(80, 0, -1)))

    assert [(f"g-{NEWEST * HOUR_S:.0f}", f"g-{HOUR_S:.0f}", True)] == _dates(found)
    assert "(at least since " in node_text(only(found), found)


MEANS = "It concerns how nodes are set up, or what else ran on them. It says nothing about their hardware."
WHY = "doubtful (cause CONFIGURATION): a warning, or a failure that is not of its hardware, is open."


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
