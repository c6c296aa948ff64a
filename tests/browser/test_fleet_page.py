"""The page of a fleet in a real browser: it asks for nothing, fits, is legible, and withdraws proofs that have grown too old."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest

from checks.model import Cause, Finding, Level
from tasks.reports.fleet.fleet import Fleet
from tasks.reports.fleet.page import fleet_page, node_page
from tasks.reports.fleet.states import HOUR_S, fleet_of
from tasks.store.node_rows import Standing
from tests.browser.reader import ATTACK, Reader, browser, reader
from tests.tasks.kept_gates import known_of
from tests.tasks.reports.fleet.test_states import CLOCK, DAY_S, GEMM, NOW, SILENT, gate, node

__all__ = ["browser", "reader"]
pytestmark = [pytest.mark.browser, pytest.mark.needs("chromium")]


def fleet(now: float = NOW) -> Fleet:
    """A node in each state, a machine that was replaced, and hostile names."""
    bad = Finding(Level.FAIL, Cause.HARDWARE, ATTACK, ATTACK, ATTACK * 5, is_predicate=True)
    gates = (
        gate(9 * DAY_S, node("old"), node("a"), node("b", machine="before"), node("c"), node("d"), cluster=ATTACK),
        gate(2 * HOUR_S, node("a"), node("b"), node("c"), node("d"), cluster=ATTACK),
        gate(HOUR_S, node("a", driver="580"), node("b", Standing.CONDEMNED, [replace(GEMM, subject="b/rank-1"), bad]),
             node("c", Standing.DOUBTFUL, [replace(CLOCK, subject="c")]), node("d", Standing.CANNOT_TELL, [SILENT], None),
             node(ATTACK), cluster=ATTACK),
    )  # fmt: skip
    return replace(fleet_of(known_of(gates), now, DAY_S), problems=(ATTACK,))


@pytest.mark.parametrize("kind", ["fleet", "node"])
def test_fleet_page_requests_nothing_fits_and_is_legible(reader: Reader, tmp_path: Path, kind: str) -> None:
    """No request and no complaint, also with hostile names; a contrast of at least 4.5 to 1 in light and dark."""
    made = fleet()
    text = fleet_page(made, lambda gate_id: "") if kind == "fleet" else node_page("b", made)
    page = reader.show(tmp_path, text)

    assert ([], [], []) == (reader.too_wide(), reader.illegible(), reader.said)
    assert "owned" not in page.title()
    assert 0 == page.locator("img, a[href^=http], iframe, form").count()


def test_the_answer_is_above_everything_and_the_worst_node_first(reader: Reader, tmp_path: Path) -> None:
    """Words and signs, so that no colour is needed."""
    page = reader.show(tmp_path, fleet_page(fleet(), lambda gate_id: f"{gate_id}.html"))
    box = page.locator(".said").bounding_box()
    rows = page.locator("tbody").first.locator("tr")

    assert box is not None and box["y"] < 150
    said = page.locator(".said").inner_text()
    assert said.startswith("2 of 6 nodes proven within 24 h; 1 condemned; 1 cannot tell")
    assert ["condemned", "cannot tell", "doubtful", "unproven"] == rows.locator(".mark").all_inner_texts()[:4]
    assert "+X" == rows.first.locator(".signs").inner_text().split()[0]


def test_a_page_that_grew_old_shows_no_proof(reader: Reader, tmp_path: Path) -> None:
    """It was made three days ago, and says so; one that was made now keeps its proofs."""
    now = time.time()
    whole = replace(fleet_of(known_of((gate(HOUR_S, node("a")),)), NOW, DAY_S), problems=())
    text = fleet_page(whole, lambda gate_id: "")

    def made_at(at: float, proven: float) -> str:
        dated = text.replace(f'data-at="{NOW - HOUR_S:.0f}"', f'data-at="{proven:.0f}"')
        return dated.replace(f'data-now="{NOW:.0f}"', f'data-now="{at:.0f}"')

    page = reader.show(tmp_path, made_at(now, now - HOUR_S))
    assert ("proven", 1) == (page.locator(".mark").inner_text(), page.locator(".answer.pass").count())
    reader.show(tmp_path, made_at(now - 3 * DAY_S, now - 3 * DAY_S))
    assert "unproven" == page.locator(".mark").inner_text()
    assert 0 == page.locator(".pass:visible").filter(has_text="proven").count()
    assert "This page is 72 h old. 1 of the nodes" in page.locator("#late").inner_text()
