"""The HTML report in a real browser: it asks for nothing, fits, is inert and legible in either scheme."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from checks.judge.verdict import unreadable
from checks.model import Answer, Report, Verdict
from tasks.render.context import GateHistory, PastGate
from tasks.render.html import HERE, html
from tests.browser.reader import ATTACK, Reader, browser, reader
from tests.sample_reports import FACTS, POLICY, healthy, verdict_of, with_metric, without_node, wrong_sums
from tests.tasks.render.decoded import between, inside
from tests.tasks.render.fleets import cut_off, fleet, judged

__all__ = ["browser", "reader"]
pytestmark = [pytest.mark.browser, pytest.mark.needs("chromium")]
SCRIPT = (HERE / "report.js").read_text("utf-8")


def _cut_off() -> Report:
    """One rank lies, and one host is slow: every kind of table and tone."""
    report = wrong_sums(without_node(healthy(6, 2), "node-5"), "node-1/rank-3")
    report = with_metric(report, "system.clock", "node-2", "synchronised", False)
    speeds = (0.01, 4.0, 4.0, 4.0, 4.0)
    return with_metric(report, "network.pairs", "node-3", "bandwidth_gbps", speeds)


def _page_of(report: Report | None) -> str:
    verdict: Verdict = unreadable(ATTACK, POLICY, FACTS, b"{") if report is None else verdict_of(report)
    return html(report, verdict, "local")


def _fleet() -> str:
    """Twelve nodes of p5.48xlarge, one cut off, with everything that a page can have."""
    report = cut_off(fleet(12), ["ip-10-0-0-13"], 0.2)
    verdict, beside = judged(report)
    answers = (Answer.GO, Answer.NO_GO, Answer.CANNOT_TELL, Answer.NO_GO)
    gates = tuple(
        PastGate(f"p5-prod-{i}", f"2026-11-{18 + i}T03:12:00Z", answer, "FAIL x: y", i == 3)
        for i, answer in enumerate(answers)
    )
    past = GateHistory(gates, problems=("The report of p5-prod-2 is gone.",))
    shown = (between(12, 4, bad_rails=[(2, 1)]), inside(12, 4, bad=[(9, 3)]))
    return html(report, verdict, "p5-prod", replace(beside, past=past, shown=shown))


# Made where one is asked for: a worker that only collects these tests has no use for them.
PAGES: dict[str, Callable[[], str]] = {
    "fleet": _fleet,
    "go": lambda: _page_of(healthy(3, 2, 4)),
    "no-go": lambda: _page_of(_cut_off()),
    "cannot-tell": lambda: _page_of(without_node(healthy(4, 2), "node-3")),
    "wide": lambda: _page_of(wrong_sums(healthy(30, 1), "node-1/rank-1")),
    "unreadable": lambda: _page_of(None),
}


@functools.cache
def _page(name: str) -> str:
    return PAGES[name]()


@pytest.mark.parametrize("name", PAGES)
def test_report_page_requests_nothing_fits_and_is_legible(reader: Reader, tmp_path: Path, name: str) -> None:
    """No request but for the file itself, no console message, a hostile title or node included; a contrast of 4.5 to 1 at least.

    Wide tables scroll in their own box; all details unfolded.
    """
    page = reader.show(tmp_path, _page(name))
    page.evaluate("document.querySelectorAll('details').forEach(fold => fold.open = true)")

    assert ([], [], []) == (reader.too_wide(), reader.illegible(), reader.said)
    assert "owned" not in page.title()
    assert 0 == page.locator("img, a[href^=http], a[href^=javascript], iframe, object, form").count()
    assert [SCRIPT] == page.locator("script").all_text_contents()


def test_report_page_works_by_keyboard_and_names_its_regions(reader: Reader, tmp_path: Path) -> None:
    """Scrolling boxes take the focus and bear a name; states are words; folds open by key."""
    page = reader.show(tmp_path, _page("no-go"), 400)
    for region in page.get_by_role("region").all():
        assert "0" == region.get_attribute("tabindex") or region.get_attribute("aria-labelledby")
    page.keyboard.press("Tab")
    assert "Skip to the findings" == page.evaluate("document.activeElement.textContent")
    closed = page.locator("details:not([open]) > summary").first
    closed.focus()
    page.keyboard.press("Enter")

    assert page.get_by_role("cell", name="fail").count() >= 2
    assert page.evaluate("document.activeElement.parentElement.open")


def test_a_reader_of_screens_finds_its_way(reader: Reader, tmp_path: Path) -> None:
    """Landmarks, headings in order, tables with captions and scopes, links that lead somewhere."""
    page = reader.show(tmp_path, _page("fleet"), 1200)
    levels = page.evaluate("[...document.querySelectorAll('h1,h2,h3,h4')].map(h => +h.tagName[1])")
    lost = page.evaluate(
        """() => ({
        tables: [...document.querySelectorAll('table')].filter(t => !t.caption
            || [...t.querySelectorAll('th')].some(h => !h.scope)).length,
        links: [...document.querySelectorAll('a[href^="#"]')].filter(a => !document.querySelector(a.getAttribute('href'))).length,
        boxes: [...document.querySelectorAll('.wide, pre')].filter(b => b.tabIndex !== 0 || !b.ariaLabel).length,
        ids: document.querySelectorAll('[id]').length - new Set([...document.querySelectorAll('[id]')].map(e => e.id)).size,
        signs: [...document.querySelectorAll('td.state, .strip li')].filter(e => !/[a-z]{2}/i.test(e.textContent)
            && !/\u2013/.test(e.textContent)).length,
        })"""
    )

    assert [1, 1, 1] == [page.locator(name).count() for name in ("main", "header", "nav")]
    assert 1 == levels[0] and all(b - a <= 1 for a, b in itertools.pairwise(levels))
    assert dict.fromkeys(lost, 0) == lost


def test_paper_has_what_is_unfolded(reader: Reader, tmp_path: Path) -> None:
    """Printed, nothing scrolls or sticks or is cut off at the edge; what is folded is left out, and the paper says so."""
    page = reader.show(tmp_path, _page("fleet"), 720)
    closed = page.locator("details:not([open])").count()
    page.emulate_media(media="print")
    hidden = page.evaluate(
        """() => [...document.querySelectorAll('main p, main td, main dd, main pre')]
        .filter(e => !e.closest('details:not([open])') && !e.checkVisibility()).length"""
    )
    sticky = page.evaluate(
        """() => [...document.querySelectorAll('*')].filter(e => getComputedStyle(e).position === 'sticky'
        || ['auto', 'scroll'].includes(getComputedStyle(e).overflowX)).length"""
    )

    assert closed > 5
    assert (0, 0) == (hidden, sticky)
    assert 720 >= page.evaluate("document.documentElement.scrollWidth")
    assert page.get_by_text("Parts that are folded are not printed").is_visible()
    assert not page.locator("#tools").is_visible()


def test_the_trend_is_a_strip_of_words(reader: Reader, tmp_path: Path) -> None:
    """Oldest first, this one marked; what could not be read is said below it."""
    page = reader.show(tmp_path, _page("fleet"), 1200)
    strip = page.locator(".strip li")

    assert ["GO", "NO-GO", "CANNOT TELL", "NO-GO"] == strip.locator("strong").all_inner_texts()
    assert "this one" in strip.last.inner_text() and "true" == strip.last.get_attribute("aria-current")
    assert "The report of p5-prod-2 is gone." in page.locator("#past").inner_text()


def test_the_policy_forbids_what_escaping_would_have_missed(browser: Browser, tmp_path: Path) -> None:
    """Scripts, handlers, styles, images and links put into the page do nothing and reach nobody; the page's own script still runs."""
    file = tmp_path / "injected.html"
    tags = (
        "<script>document.title='owned'</script><img src='http://127.0.0.1:9/a.png'>"
        "<p id=x onclick=\"document.title='owned'\">x</p><a id=y href=\"javascript:document.title='owned'\">y</a>"
        "<link rel=stylesheet href='http://127.0.0.1:9/a.css'><style>body{display:none}</style>"
    )
    file.write_text(_page("go").replace("<main>", f"<main>{tags}"), encoding="utf-8")
    page = browser.new_page()
    answered: list[str] = []
    page.on("requestfinished", lambda request: answered.append(request.url))
    blocked: list[str] = []
    page.on("console", lambda message: blocked.append(message.text))
    page.goto(file.as_uri())
    for name in ("#x", "#y"):
        page.locator(name).click()

    assert ("GO local", True, True) == (
        page.title(),
        page.locator("h1").is_visible(),
        page.locator("#tools").is_visible(),
    )
    assert [] == [url for url in answered if url != file.as_uri()]
    assert len([text for text in blocked if "Content Security Policy" in text]) >= 5
    page.close()
