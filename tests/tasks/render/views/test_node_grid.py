"""Every node of any fleet is on the page: the worst in full, the others as tiles; what each node has to answer for."""

from __future__ import annotations

from checks.model import Level
from tasks.render.views.node_grid import FEW, LINES, grid
from tasks.render.views.node_tables import MACHINES, NODES, by_node, machines
from tasks.render.views.nodes import State
from tests.sample_reports import healthy, verdict_of, with_metric, without_node, wrong_sums
from tests.tasks.render.fleets import fleet, judged, silent, unable


def test_no_node_is_left_out_of_a_fleet() -> None:
    """Lines and tiles together are the declared nodes, each once; the counts are theirs."""
    report = wrong_sums(without_node(healthy(100, 1), "node-70"), "node-50/rank-50")
    made = grid(report, verdict_of(report))
    lines = [line.name for line in made.lines if not line.is_cluster]
    tiles = [tile.name for tile in (*made.unwell, *made.well)]

    assert sorted(report.declared.node_names) == sorted([*lines, *tiles])
    assert ["node-50", "node-70"] == lines[:2] and FEW == len(lines)
    assert (100, 1, 1) == (
        sum(dict(made.counts).values()),
        *(dict(made.counts)[s] for s in (State.FAIL, State.UNKNOWN)),
    )


def test_a_fleet_that_fails_has_tiles_that_say_so() -> None:
    """More bad nodes than lines: none of them is called passed."""
    report = healthy(LINES + 30, 1)
    for name in report.declared.node_names:
        report = with_metric(report, "system.clock", name, "synchronised", False)
    made = grid(report, verdict_of(report))

    assert (30, 0) == (len(made.unwell), len(made.well))
    assert {State.WARN} == {tile.state for tile in made.unwell}


def test_checks_that_all_passed_share_a_column() -> None:
    """Of sixty checks the one that failed has its own; the rest is named below."""
    verdict, _ = judged(report := unable(fleet(3), "disk.io", "ip-10-0-0-12"))
    made = grid(report, verdict)

    assert "disk.io" in [column.planned.check for column in made.columns]
    assert all(column.state is State.PASS for column in made.merged)
    assert len(made.merged) > 40
    assert {made.width} == {len(line.cells) for line in made.lines}


def test_a_node_that_never_reported_does_not_spread_the_columns() -> None:
    """All its cells lack evidence, and the shared column says so of it."""
    verdict, _ = judged(report := silent(fleet(3), "ip-10-0-0-12"))
    made = grid(report, verdict)
    lost = next(line for line in made.lines if line.name == "ip-10-0-0-12")
    well = next(line for line in made.lines if line.name == "ip-10-0-0-11")

    assert State.UNKNOWN is lost.cells[-1]
    assert State.PASS is well.cells[-1]
    assert "nccl.all_reduce" in [column.planned.check for column in made.merged]


def test_a_node_has_its_own_findings_and_both_ends_have_a_links() -> None:
    """The worst node first; a rank is named below its node."""
    report = wrong_sums(healthy(6, 2), "node-1/rank-3")
    report = with_metric(report, "system.clock", "node-2", "synchronised", False)
    report = with_metric(report, "network.pairs", "node-3", "bandwidth_gbps", (0.01, 4.0, 4.0, 4.0, 4.0))
    found, more = by_node(verdict_of(report))
    first = {node.name: node.findings[0] for node in found}

    assert (["node-0", "node-1", "node-3", "node-2"], 0) == ([node.name for node in found], more)
    assert ("rank-3", "collective.all_reduce") == (first["node-1"].where, first["node-1"].check)
    assert first["node-0"] == first["node-3"]


def test_more_nodes_with_findings_than_fit_are_counted() -> None:
    """None vanishes."""
    report = healthy(NODES + 7, 1)
    for place, name in enumerate(report.declared.node_names):
        report = with_metric(report, "compute.gemm", f"{name}/rank-{place}", "wrong_elements", place + 1)
    found, more = by_node(verdict_of(report))

    assert (NODES, 7) == (len(found), more)
    assert ["node-0", "node-1", "node-2"] == [node.name for node in found[:3]]


def test_nodes_with_the_same_findings_share_a_row() -> None:
    """In natural order; three of them have a row each."""
    report = healthy(40, 1)
    for place in (9, 10, 2, 30):
        report = with_metric(report, "system.clock", f"node-{place}", "synchronised", False)
    (row,), more = by_node(verdict_of(report))
    few, _ = by_node(verdict_of(with_metric(report, "system.clock", "node-9", "synchronised", True)))

    assert ("4 nodes: node-2 ... node-30", 0) == (row.name, more)
    assert ("node-2", "node-9", "node-10", "node-30") == row.names
    assert ["node-2", "node-10", "node-30"] == [node.name for node in few]


def test_a_go_has_no_nodes_with_findings() -> None:
    """Nothing to answer for."""
    verdict = verdict_of(healthy())

    assert (Level.PASS, ((), 0)) == (verdict.level, by_node(verdict))


def test_what_all_machines_share_is_said_once() -> None:
    """And of those beyond the page it is said how many they are."""
    report = healthy(MACHINES + 5, 1, network=False)
    made = machines(report, [node.name for node in report.nodes])

    assert {"driver": "570.1"} == dict(made.alike)
    assert (MACHINES, 5) == (len(made.shown), made.hidden)
    assert {"host", "boot_id"} == set(dict(made.shown[0].own))


def test_a_machine_that_never_reported_is_not_known() -> None:
    """It is listed all the same, and shares nothing."""
    report = without_node(healthy(3, 1), "node-1")
    made = machines(report, report.declared.node_names)

    assert ["node-1"] == [machine.name for machine in made.shown if not machine.known]
    assert (2, "570.1") == (made.reported, dict(made.alike)["driver"])
