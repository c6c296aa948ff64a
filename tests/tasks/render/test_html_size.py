"""A page stays small enough for a phone, however bad a fleet is, and its template is compiled once."""

from __future__ import annotations

from dataclasses import replace

from checks.model import Cause, Finding, Level
from tasks.render.html import html
from tests.sample_reports import healthy, verdict_of

LIMIT = 2_000_000


def test_a_thousand_nodes_that_all_fail_differently_are_below_2_mb() -> None:
    """Each with 4 KiB of evidence: the page has the first of it, every node, and says how much more there is."""
    evidence = "'" * 4095
    report = healthy(1000, 1, network=False)
    findings = tuple(
        Finding(
            Level.FAIL, Cause.HARDWARE, "compute.gemm", f"node-{i}/rank-{i}", f"wrong_elements is {i} {evidence[:580]}",
            f"{i} " + evidence, evidence[:600],
        )
        for i in range(1000)
    )  # fmt: skip
    page = html(report, replace(verdict_of(report), findings=findings), "local")

    assert len(page.encode()) < LIMIT
    assert [] == [f"node-{i}" for i in range(1000) if f"node-{i}" not in page]
    assert "900 more are in the report itself." in page
    assert "more is in the report itself" in page
