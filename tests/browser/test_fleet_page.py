"""The page of a fleet in a real browser: it asks for nothing, fits, is legible, and withdraws proofs that have grown too old."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from checks.model import Cause, Finding, Level
from tasks.reports.fleet.model import Fleet
from tasks.reports.fleet.page import fleet_page, node_page
from tasks.reports.fleet.states import HOUR_S, fleet_of
from tasks.store.node_rows import Standing
from tests.browser.test_report_page import ATTACK, CONTRASTS, FLAGS, SCHEMES
from tests.tasks.kept_gates import known_of
from tests.tasks.reports.fleet.test_states import CLOCK, DAY_S, GEMM, NOW, SILENT, gate, node

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


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Debian's chromium."""
    with sync_playwright() as play:
        opened = play.chromium.launch(executable_path=shutil.which("chromium"), args=list(FLAGS))
        yield opened
        opened.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A page without a network."""
    made = browser.new_page()
    made.context.set_offline(True)
    yield made
    made.close()


def opened(page: Page, folder: Path, text: str) -> list[str]:
    """What the page asked for, and complained about."""
    said: list[str] = []
    page.on("request", lambda request: said.append(request.url))
    page.on("console", lambda message: said.append(f"console {message.text}"))
    page.on("pageerror", lambda error: said.append(f"error {error}"))
    file = folder / "fleet.html"
    file.write_text(text, encoding="utf-8")
    page.goto(file.as_uri())
    assert file.as_uri() == said.pop(0)
    return said


@pytest.mark.parametrize("kind", ["fleet", "node"])
def test_it_asks_for_nothing_fits_and_can_be_read(page: Page, tmp_path: Path, kind: str) -> None:
    """No request and no complaint, also with hostile names; a contrast of at least 4.5 to 1 in light and dark."""
    made = fleet()
    text = fleet_page(made, lambda gate_id: "") if kind == "fleet" else node_page("b", made)
    said = opened(page, tmp_path, text)
    wide = []
    for width in (400, 1200):
        page.set_viewport_size({"width": width, "height": 800})
        wide.append(page.evaluate("document.documentElement.scrollWidth") <= width)

    assert ([], [True, True]) == (said, wide)
    assert "owned" not in page.title()
    assert 0 == page.locator("img, a[href^=http], iframe, form").count()
    for scheme in SCHEMES:
        page.emulate_media(color_scheme=scheme)
        assert [] == [(text, round(ratio, 2)) for ratio, text in page.evaluate(CONTRASTS) if ratio < 4.5]


def test_the_answer_is_above_everything_and_the_worst_node_first(page: Page, tmp_path: Path) -> None:
    """Words and signs, so that no colour is needed."""
    opened(page, tmp_path, fleet_page(fleet(), lambda gate_id: f"{gate_id}.html"))
    box = page.locator(".said").bounding_box()
    rows = page.locator("tbody").first.locator("tr")

    assert box is not None and box["y"] < 150
    assert (
        page.locator(".said")
        .inner_text()
        .startswith("2 of 6 nodes proven within 24 h; 1 condemned; 1 cannot tell")
    )
    assert ["condemned", "cannot tell", "doubtful", "unproven"] == rows.locator(".mark").all_inner_texts()[:4]
    assert "+X" == rows.first.locator(".signs").inner_text().split()[0]


def test_a_page_that_grew_old_shows_no_proof(page: Page, tmp_path: Path) -> None:
    """It was made three days ago, and says so; one that was made now keeps its proofs."""
    now = time.time()
    whole = replace(fleet_of(known_of((gate(HOUR_S, node("a")),)), NOW, DAY_S), problems=())
    text = fleet_page(whole, lambda gate_id: "")
    fresh = text.replace(f'data-at="{NOW - HOUR_S:.0f}"', f'data-at="{now - HOUR_S:.0f}"').replace(
        f'data-now="{NOW:.0f}"', f'data-now="{now:.0f}"'
    )
    old = fresh.replace(f"{now - HOUR_S:.0f}", f"{now - 3 * DAY_S:.0f}").replace(
        f"{now:.0f}", f"{now - 3 * DAY_S:.0f}"
    )

    opened(page, tmp_path, fresh)
    assert ("proven", 1) == (page.locator(".mark").inner_text(), page.locator(".answer.pass").count())
    opened(page, tmp_path, old)
    assert ("unproven", 0) == (
        page.locator(".mark").inner_text(),
        page.locator(".pass:visible").filter(has_text="proven").count(),
    )
    assert "This page is 72 h old. 1 of the nodes" in page.locator("#late").inner_text()
