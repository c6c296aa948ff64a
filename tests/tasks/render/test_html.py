"""What the page says first, and the links that it has to other gates."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from checks.model import Answer
from tasks.render.context import NO_CONTEXT, EndMark, GateHistory, PastGate
from tasks.render.headline import headline
from tasks.render.html import html
from tests.sample_reports import healthy, verdict_of, wrong_sums

REPORT = wrong_sums(healthy())


def _said(page: str) -> str:
    found = re.search('<p class="said">(?:Verdict: )?<strong>(.*?)</strong>', page)
    assert found is not None
    return found[1]


def test_the_page_is_headed_by_how_the_gate_ended() -> None:
    """The line of the terminal, inert; the verdict's own line below it, once."""
    verdict = verdict_of(REPORT)
    line = "OVERRIDDEN by <b>ada</b>, training was started despite: NO-GO local: node-1"
    page = html(REPORT, verdict, "local", replace(NO_CONTEXT, first_line=line))
    same = html(REPORT, verdict, "local", replace(NO_CONTEXT, first_line=headline(verdict, "local")))

    ended = "OVERRIDDEN by &lt;b&gt;ada&lt;/b&gt;, training was started despite: NO-GO local: node-1"
    assert f'<h1 class="line">{ended}</h1>' in page and f"<title>{ended}</title>" in page
    assert _said(page) == f"NO-GO {_said(same)}" and _said(same).startswith("local: ")
    assert "<h1>NO-GO</h1>" in same and "<title>NO-GO local</title>" in same
    assert 1 == same.count('class="said"') == page.count('class="said"')


def test_a_page_of_a_training_that_failed_is_not_green() -> None:
    """Whatever the verdict was."""
    verdict = verdict_of(healthy())
    ended = replace(NO_CONTEXT, first_line="TRAINING FAILED local: exit code 1", failed="exit code 1")
    tones = [
        re.findall('<header class="answer (.*?)">', html(healthy(), verdict, "local", one))
        for one in (NO_CONTEXT, ended)
    ]

    assert [["pass"], ["fail"]] == tones


def _page(link: str) -> str:
    gates = (
        PastGate("g-1", "2026-11-21T08:00:00Z", Answer.GO, "", link=link),
        PastGate("g-2", "", Answer.NO_GO, "", True),
    )
    return html(REPORT, verdict_of(REPORT), "local", replace(NO_CONTEXT, past=GateHistory(gates)))


@pytest.mark.parametrize(
    "link", ["../g-1/report.html", "https://console.aws.amazon.com/s3/object/b?prefix=gates/g-1/report.html"]
)
def test_the_gate_before_is_a_link(link: str) -> None:
    """To its page in the store."""
    assert f'<a href="{link}">Previous gate</a>: g-1, GO' in _page(link)


@pytest.mark.parametrize(
    "link",
    [
        "javascript:alert(1)",
        "data:text/html,x",
        "//e.example",
        "http://e.example",
        "../a b",
        "",
        "../" + "a" * 2000,
    ],
)
def test_previous_gate_without_a_store_page_is_named_without_a_link(link: str) -> None:
    """The gate is named all the same."""
    assert "Previous gate: g-1, GO" in _page(link)


def test_a_gate_that_failed_after_its_go_is_not_shown_as_a_go() -> None:
    """Neither as the previous gate, nor in the strip and its counts."""
    gates = (
        PastGate("g-0", "2026-11-20T08:00:00Z", Answer.GO, ""),
        PastGate("g-1", "2026-11-21T08:00:00Z", Answer.GO, "", end=EndMark.TRAINING_FAILED),
        PastGate("g-2", "", Answer.GO, "", True),
    )
    past = GateHistory(gates).ended(EndMark.CANCELLED)
    shown = replace(NO_CONTEXT, past=past, failed="why", end=EndMark.CANCELLED)
    page = html(healthy(), verdict_of(healthy()), "local", shown)

    assert "3 gates, 1 go, 1 training failed, 1 cancelled" == past.said
    assert "Previous gate: g-1, TRAINING FAILED" in page and '<li class="fail">' in page
    assert '<li class="skipped" aria-current="true"' in page and '<header class="answer skipped">' in page
