"""Every node of any fleet is in the table, the worst first."""

from __future__ import annotations

from tasks.render.views.node_grid import grid
from tasks.render.views.nodes import State
from tests.sample_reports import healthy, verdict_of, without_node, wrong_sums
from tests.tasks.render.fleets import fleet, judged, silent, unable


def test_no_node_is_left_out_of_a_fleet() -> None:
    """The lines are the declared nodes, each once; the counts are theirs."""
    report = wrong_sums(without_node(healthy(100, 1), "node-70"), "node-50/rank-50")
    made = grid(report, verdict_of(report))
    lines = [line.name for line in made.lines if not line.is_cluster]

    assert sorted(report.declared.node_names) == sorted(lines)
    assert ["node-50", "node-70"] == lines[:2]
    counts = dict(made.counts)
    assert (100, 1, 1) == (sum(counts.values()), counts[State.FAIL], counts[State.UNKNOWN])


def test_checks_that_all_passed_share_a_column() -> None:
    """Of sixty checks the one that failed has its own; the rest is named below."""
    verdict, _ = judged(report := unable(fleet(3), "disk.io", "ip-10-0-0-12"))
    made = grid(report, verdict)

    assert "disk.io" in [column.planned.check for column in made.columns]
    assert all(column.state is State.PASS for column in made.merged)
    assert len(made.merged) > 40


def test_a_node_that_never_reported_does_not_spread_the_columns() -> None:
    """All its cells lack evidence, and the shared column says so of it."""
    verdict, _ = judged(report := silent(fleet(3), "ip-10-0-0-12"))
    made = grid(report, verdict)
    lost = next(line for line in made.lines if line.name == "ip-10-0-0-12")
    well = next(line for line in made.lines if line.name == "ip-10-0-0-11")

    assert State.UNKNOWN is lost.cells[-1]
    assert State.PASS is well.cells[-1]
    assert "nccl.all_reduce" in [column.planned.check for column in made.merged]
