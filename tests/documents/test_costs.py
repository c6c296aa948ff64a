"""The costs on the page about the start are those that `prelaunch plan` computes of the shipped gate files."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tasks.gate.context import open_gate_context
from tasks.gate.forecast import forecast
from tasks.gate_file.request import GateRequest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "start.md"
ROW = re.compile(
    r"^\| `([a-z0-9-]+)` \| (\d+) x (\S+) \| (\w+) \| (\S+) USD \| (\S+) USD \| (\S+)(?: USD)? \|$", re.M
)
ROWS = ROW.findall(PAGE.read_text())


def test_the_page_has_a_row_for_each_placement_that_is_priced() -> None:
    """A pool, one job, and the same nodes again."""
    assert {"pooled", "in_job", "pinned"} == {row[3] for row in ROWS}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_a_row_is_what_plan_computes(row: tuple[str, ...]) -> None:
    """Rounded to cents."""
    name, nodes, kind, placement, expected, most, idle = row
    request = GateRequest(gate_file=str(ROOT / "deployments/gates" / f"{name}.toml"))
    made = forecast(open_gate_context(request), 0)
    chosen = next(one for one in made.placements if one.chosen)

    assert (nodes, kind, placement) == (str(made.nodes), made.instance_type, chosen.placement.value)
    assert made.price is not None
    usd = made.price.usd_per_node_hour
    assert expected == f"{(chosen.about_node_hours or 0.0) * usd:,.2f}"
    assert most == f"{chosen.at_most_node_hours * usd:,.2f}"
    idles = chosen.idle_at_most_node_hours
    assert idle == (f"{idles * usd:,.2f}" if idles else "nothing")
    assert chosen.is_least
