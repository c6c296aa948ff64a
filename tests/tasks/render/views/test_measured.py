"""What was measured on a node, in a line per check: from the least to the greatest value, and why something was not measured."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from checks.model import Outcome
from tasks.render.views.measured import LINE, ROOM, measured
from tests.sample_reports import healthy, with_metric, with_row
from tests.tasks.render.fleets import fleet


def test_values_of_all_ranks_are_a_range() -> None:
    """Numbers have their least and greatest value, texts the first ones; only nodes that were asked for."""
    report = healthy(2, 4)
    for rank, rate in enumerate((39.5, 40.25, 41.0, 40.0)):
        report = with_metric(report, "compute.gemm", f"node-0/rank-{rank}", "gflops", rate)
    (node,) = measured(report, ["node-0"])
    said = {line.check: line.text for line in node.lines}

    assert "node-0" == node.name and "4 ranks: " == said["compute.gemm"][:9]
    assert "gflops 39.5 to 41" in said["compute.gemm"]
    assert "synchronised True" in said["system.clock"]


def test_measured_line_gives_the_reason_of_an_unmeasured_rank() -> None:
    """Beside the ranks that did measure."""
    lost: Any = {"outcome": Outcome.ERRORED, "reason": "out of memory", "metrics": {}}
    report = with_row(healthy(), "compute.gemm", "node-1/rank-3", lambda row: replace(row, **lost))
    (node,) = measured(report, ["node-1"])
    (line,) = [line for line in node.lines if line.check == "compute.gemm"]

    assert "not measured: out of memory; " in line.text and "gflops" in line.text


def test_a_fleet_has_as_much_as_there_is_room_for() -> None:
    """Whole nodes, the first ones; no line is longer than one, whatever a node wrote."""
    report = with_metric(fleet(6), "system.identity", "ip-10-0-0-11", "kernel", "x" * 50_000)
    found = measured(report, [f"ip-10-0-0-{11 + place}" for place in range(6)] * 40)

    assert 6 <= len(found) < 240
    assert ROOM >= sum(len(line.text) for node in found for line in node.lines)
    assert LINE >= max(len(line.text) for node in found for line in node.lines)
