"""The HTML report in a real browser: it asks for nothing, fits, is inert and legible; its script filters, sorts and copies."""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from checks.judge.verdict import unreadable
from checks.model import Answer, Report, Verdict, node_of
from tasks.render.context import NO_CONTEXT, GateHistory, PastGate
from tasks.render.html import HERE, html
from tasks.render.views.finding_table import first_anchor
from tests.browser.reader import ATTACK, Reader, browser, reader
from tests.sample_reports import (
    FACTS,
    POLICY,
    healthy,
    verdict_of,
    with_metric,
    with_row,
    without_node,
    wrong_sums,
)
from tests.tasks.render.decoded import between, inside
from tests.tasks.render.fleets import changed, cut_off, fleet, judged, silent, slower, unable, with_metrics

__all__ = ["browser", "reader"]
pytestmark = [pytest.mark.browser, pytest.mark.needs("chromium")]
SCRIPT = (HERE / "report.js").read_text("utf-8")

SICK = "ip-10-0-0-13"
TITLE = "document.title='owned'"
# What opens an element, one after the other; what begins a comment would hide the others, and a link has nothing before it.
HOSTILE = (
    f'"\'><img src=x onerror="{TITLE}">{ATTACK}<a href="javascript:{TITLE}">x</a><svg onload={TITLE}>'
    f"<details open ontoggle={TITLE}>x</script><script>{TITLE}</script>",
    f"<!--<script>{TITLE}//",
    f"javascript:{TITLE}",
)


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
    return html(report, verdict, "p5-prod", replace(beside, past=past, matrices=shown))


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
    page.locator("details:not([open]) > summary").first.focus()
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
    answered, blocked = list[str](), list[str]()
    page.on("requestfinished", lambda request: answered.append(request.url))
    page.on("console", lambda message: blocked.append(message.text))
    page.goto(file.as_uri())
    for name in ("#x", "#y"):
        page.locator(name).click()

    assert "GO local" == page.title()
    assert page.locator("h1").is_visible() and page.locator("#tools").is_visible()
    assert [] == [url for url in answered if url != file.as_uri()]
    assert len([text for text in blocked if "Content Security Policy" in text]) >= 5
    page.close()


@functools.cache
def _sixty_four() -> tuple[Report, Verdict, str]:
    """64 nodes: one computes wrong products, one is silent, one is without a tool, one is slow."""
    report = with_metrics(fleet(64, peers=False), "compute.gemm", SICK, wrong_elements=12)
    report = changed(report, "compute.gemm", SICK, lambda row: replace(row, evidence="element 3 is wrong"))
    report = unable(report, "disk.io", "ip-10-0-0-15")
    report = slower(silent(report, "ip-10-0-0-44"), "nccl.intra_node", "ip-10-0-0-33", 0.4)
    verdict, beside = judged(report)
    # The tests of pairs, which take most of the time, are left out.
    own = tuple(finding for finding in verdict.findings if finding.subject != "cluster")
    verdict = replace(verdict, findings=own)
    return report, verdict, html(report, verdict, "p5-prod", beside)


def _wrong_sums(report: Report, subject: str, evidence: str) -> Report:
    told = wrong_sums(report, subject)
    return with_row(told, "collective.all_reduce", subject, lambda row: replace(row, evidence=evidence))


def _many() -> Report:
    """Six of fourteen nodes have wrong clocks, and one computes wrong sums."""
    report = _wrong_sums(healthy(14, 1), "node-12/rank-12", "element 3 is 41 and not 42")
    for place in (13, 2, 10, 1, 9, 3):
        report = with_metric(report, "system.clock", f"node-{place}", "synchronised", False)
    return report


def _hostile(text: str) -> str:
    report = _wrong_sums(healthy(), "node-1/rank-3", text)
    report = with_metric(report, "network.pairs", "node-0", "peers", (text,))
    report = with_metric(report, "system.identity", "node-0", "kernel", text)
    nodes = tuple(replace(node, name=text, identity={text: text, "host": text}) for node in report.nodes[:1])
    plan = tuple(replace(p, check=text) if p.check == "training.step" else p for p in report.plan)
    report = replace(report, nodes=(*nodes, *report.nodes[1:]), plan=plan, gate_id=text, collection=(text,))
    verdict = verdict_of(report)
    found = tuple(replace(f, message=text, remedy=text, check=text) for f in verdict.findings[:1])
    gates = tuple(PastGate(text, text, verdict.answer, text, place == 1, text) for place in (0, 1))
    context = replace(NO_CONTEXT, past=GateHistory(gates, problems=(text,)), notes=(text,))
    return html(report, replace(verdict, findings=(*found, *verdict.findings)), text, context)


def _rows(page: Page, table: str) -> list[str]:
    cells = page.locator(f"{table} tbody tr:not([hidden]) > th")
    return [" ".join(text.split()) for text in cells.all_inner_texts()]


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_report_page_runs_no_script_from_a_report(reader: Reader, tmp_path: Path, text: str) -> None:
    """Names, checks, messages, remedies, evidence, links to other gates, after everything was pressed: the title stays, no error."""
    page = reader.show(tmp_path, _hostile(text))
    page.locator("#filter").fill(text)
    page.evaluate("document.querySelectorAll('button, summary, input, td').forEach(one => one.click())")
    page.evaluate("document.querySelectorAll('a[href^=\"#\"]').forEach(one => one.click())")
    targets = page.evaluate("[...document.querySelectorAll('a')].map(a => a.getAttribute('href') || '')")

    assert "owned" != page.title() and [SCRIPT] == page.locator("script").all_text_contents()
    assert [] == [target for target in targets if not re.match(r"#|\.\./", target)]
    assert [] == reader.said


def test_report_page_is_readable_without_scripts(browser: Browser, tmp_path: Path) -> None:
    """The tools are not there, links lead to their findings, folds open; the same words are on the page."""
    file = tmp_path / "report.html"
    file.write_text(_page_of(_many()), encoding="utf-8")
    context = browser.new_context(java_script_enabled=False, offline=True)
    page = context.new_page()
    page.goto(file.as_uri())
    page.locator("table.findings a").first.click()

    assert not page.locator("#tools").is_visible()
    assert 0 == page.locator("button:visible").count()
    assert "#finding-collective-all-reduce-" in page.url
    assert page.locator(".finding:target").is_visible()
    page.locator("#measured summary").first.click()
    assert page.locator("#measured table").first.is_visible()
    context.close()


def test_a_filter_and_a_switch_decide_what_is_shown(reader: Reader, tmp_path: Path) -> None:
    """All words must occur; the switch hides what is well; both say how much they show, and can be undone."""
    page = reader.show(tmp_path, _page_of(_many()))
    whole = _rows(page, ".states")
    page.locator("#filter").fill("NODE-12")
    some, count = _rows(page, ".states"), page.locator("#count").inner_text()
    page.locator("#filter").fill("node-12 nothing-like-it")
    none = _rows(page, ".states")
    page.locator("#filter").fill("")
    page.locator("#only-problems").check()
    problems = _rows(page, ".states")

    assert (["node-12", "6 nodes: node-1 ... node-13"], 9) == (whole[:2], len(whole))
    assert (["node-12"], []) == (some, none)
    assert re.fullmatch(r"\d+ of \d+ entries shown", count)
    assert "node-12" in problems and 2 == len(problems)
    page.locator("#only-problems").uncheck()
    assert whole == _rows(page, ".states")


def test_names_are_sorted_naturally_and_numbers_by_value(reader: Reader, tmp_path: Path) -> None:
    """node-2 before node-13; 64 KiB before 1 MiB; once more turns it round, and the header says the order."""
    page = reader.show(tmp_path, _page_of(wrong_sums(healthy(13, 1), "node-12/rank-12")))
    page.locator(".states thead button").first.click()
    up, said = _rows(page, ".states"), page.locator(".states thead th").first.get_attribute("aria-sort")
    page.locator(".states thead button").first.click()
    down = _rows(page, ".states")
    page.locator("#bandwidth summary").click()
    sizes = page.locator("#bandwidth table.sortable")
    sizes.get_by_role("button", name="Size").click()
    found = sizes.locator("tbody td:nth-child(2)").all_inner_texts()

    assert up == sorted(up, key=lambda name: int(name.partition("-")[2])) and "node-12" == up[-1]
    assert ("ascending", up[::-1]) == (said, down)
    assert ["1 KiB", "4 KiB", "16 KiB", "64 KiB", "256 KiB", "1 MiB", "4 MiB", "16 MiB"] == found


def test_a_cell_leads_to_its_evidence(reader: Reader, tmp_path: Path) -> None:
    """A bad one to its finding, unfolded; a good one to what was measured on that node."""
    page = reader.show(tmp_path, _page_of(_many()))
    page.locator(".states tbody tr", has_text="node-12").locator("td.fail").last.click()
    bad = page.locator(".finding:target")
    expect(bad).to_contain_text("node-12")
    expect(bad.locator("details").last).to_have_attribute("open", "")
    page.locator(".states tbody tr", has_text="node-0").locator("td.pass").last.click()
    row = page.locator("#measured :target")

    expect(row).to_be_visible()
    expect(row).to_be_in_viewport()


def test_a_link_to_a_finding_opens_and_marks_it(reader: Reader, tmp_path: Path) -> None:
    """As a notification has it: the address of the page and the anchor, which is the same in each page of the verdict."""
    report, verdict, text = _sixty_four()
    anchor = first_anchor(verdict)
    page = reader.show(tmp_path, text, fragment=f"#{anchor}")
    marked = page.locator(f"#{anchor}")

    expect(marked).to_be_in_viewport()
    assert "none" != marked.evaluate("e => getComputedStyle(e).outlineStyle")
    assert SICK in marked.inner_text() and f'id="{anchor}"' in html(report, verdict, "another name")
    assert marked.locator("details[open]", has_text="element 3").first.is_visible()


def test_a_command_can_be_copied(reader: Reader, tmp_path: Path) -> None:
    """Its text alone, with its button; pressed by keyboard."""
    _, _, text = _sixty_four()
    page = reader.show(tmp_path, text)
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    command = page.locator("pre.typed").first
    button = page.get_by_role("button", name="Copy this command").first
    button.focus()
    page.keyboard.press("Enter")
    expect(button).to_have_text("Copied")

    assert command.inner_text().strip() == page.evaluate("navigator.clipboard.readText()").replace("\r", "")


def test_sixty_four_nodes_say_it_on_two_screens_and_six_sheets(reader: Reader, tmp_path: Path) -> None:
    """Answer, culprit and the whole table of findings end above the end of the second screen of 1280 x 800; A4, at most 6."""
    _, verdict, text = _sixty_four()
    page = reader.show(tmp_path, text)
    table = page.locator("table.findings").bounding_box()
    sheets = len(re.findall(rb"/Type\s*/Page[^s]", page.pdf(format="A4")))

    assert table is not None and table["y"] + table["height"] <= 1600
    assert SICK in page.locator("header").inner_text()
    rows = _rows(page, "table.findings")
    assert {SICK, "ip-10-0-0-44", "ip-10-0-0-33", "ip-10-0-0-15"} == {row.partition(",")[0] for row in rows}
    # The eight ranks of one node share a row, and nothing else does.
    assert len({(found.check, node_of(found.subject)) for found in verdict.findings}) <= len(rows)
    assert 2 <= sheets <= 6
