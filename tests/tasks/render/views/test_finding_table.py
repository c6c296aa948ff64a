"""The table of findings: few rows for any fleet, and anchors that stay the same and are nobody else's."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from checks.model import Cause, Finding, Level
from tasks.render.findings import gathered
from tasks.render.html import html
from tasks.render.views.finding_table import (
    finding_anchor,
    finding_rows_of,
    first_anchor,
    ranged,
    with_anchor,
)
from tests.sample_reports import healthy, verdict_of, with_metric, without_node, wrong_sums


def _slow(place: int, message: str, check: str = "compute.gemm") -> Finding:
    return Finding(Level.FAIL, Cause.HARDWARE, check, f"node-{place}", message, remedy="Replace it.")


@pytest.mark.parametrize(
    ("subjects", "said"),
    [
        (["node-1"], "node-1"),
        (["node-10", "node-9"], "node-9, node-10"),
        ([f"node-{at}" for at in (980, 12, 129, 13)], "4 nodes: node-12 ... node-980"),
        ([f"n/rank-{at}" for at in range(9)], "n, 9 ranks: 0 ... 8"),
        ([f"n-{at}/rank-{at}" for at in range(9, 13)], "4 ranks: n-9/rank-9 ... n-12/rank-12"),
        ([f"a<->b{at}" for at in range(4)], "4 links: a<->b0 ... a<->b3"),
        (["cluster", "a", "b", "c"], "4 subjects: a ... cluster"),
    ],
)
def test_many_names_are_the_first_and_the_last(subjects: list[str], said: str) -> None:
    """In natural order, however they came."""
    assert said == ranged(subjects) == ranged(subjects[::-1])


def test_finding_table_merges_rows_that_differ_only_in_values() -> None:
    """Thirty slow nodes are a row that names the first and the last; three have one each; another check is not mixed in."""
    many = [_slow(place, f"reaches {place} GB/s") for place in range(30)]
    rows = finding_rows_of(gathered([*many, _slow(3, "computes wrong sums", "compute.sdc")]))
    few = finding_rows_of(gathered(many[:3]))

    assert ["30 nodes: node-0 ... node-29", "node-3"] == [row.subject for row in rows]
    assert "reaches 0 GB/s (the first of 30 such findings)" == rows[0].message
    assert ["node-0", "node-1", "node-2"] == [row.subject for row in few]


def test_the_finding_table_links_only_to_findings_that_the_page_has() -> None:
    """The page has room for a hundred findings, and one row may stand for them all."""
    late = replace(_slow(3, "is late", "system.clock"), level=Level.WARN)
    findings = (*(_slow(place, f"reaches {place} GB/s") for place in range(101)), late)
    page = html(healthy(), replace(verdict_of(healthy()), findings=findings), "local")

    linked = re.findall('<td><a href="#(finding-[^"]+)', page)
    assert 1 == len(linked) and f'id="{linked[0]}"' in page and "<td>is late</td>" in page


def test_an_anchor_is_stable_and_its_own() -> None:
    """The same for the same finding, whatever else is wrong; another for another subject, check or message; safe in an address."""
    findings = [_slow(1, "x"), _slow(2, "y"), _slow(1, "z"), _slow(1, "x", "compute.sdc")]
    findings.append(_slow(4, "<\"'#\u202e", "A b/c" * 50))
    anchors = [finding_anchor(item) for item in gathered(findings)]

    assert 5 == len(set(anchors))
    assert anchors[0] == finding_anchor(gathered(findings[:1])[0])
    assert {True} == {bool(re.fullmatch("finding-[a-z0-9-]{1,60}", anchor)) for anchor in anchors}


def test_the_first_anchor_is_of_what_decides() -> None:
    """A node that is broken before one that is silent; no finding, no anchor; the page has it."""
    report = without_node(wrong_sums(healthy(4, 1), "node-1/rank-1"), "node-3")
    report = with_metric(report, "system.clock", "node-0", "synchronised", False)
    verdict = verdict_of(report)
    only = replace(verdict, findings=verdict.findings[::-1])

    assert first_anchor(verdict).startswith("finding-collective-all-reduce-")
    assert first_anchor(only) == first_anchor(verdict)
    assert f'id="{first_anchor(verdict)}"' in html(report, verdict, "local")
    assert "" == first_anchor(verdict_of(healthy()))


def test_a_page_s_address_leads_to_what_decides() -> None:
    """In a folder and on a web server; the console of a bucket shows no page, and a GO has no finding."""
    verdict = verdict_of(wrong_sums(healthy()))
    anchor = first_anchor(verdict)
    console = "https://console.aws.amazon.com/s3/object/b?prefix=gates/x/report.html"

    assert f"/store/x/report.html#{anchor}" == with_anchor("/store/x/report.html", verdict)
    assert f"https://e.example/report.html#{anchor}" == with_anchor("https://e.example/report.html", verdict)
    assert console == with_anchor("s3://b/gates/x/report.html", verdict)
    assert ("", "/r.html") == (with_anchor("", verdict), with_anchor("/r.html", verdict_of(healthy())))
