"""What to do about each finding: said once, and referred to where another finding of the check calls for the same."""

from __future__ import annotations

from dataclasses import replace

from checks.model import Cause, Finding, Level
from tasks.render.context import advice_once
from tasks.render.findings import gathered
from tasks.render.html import html
from tasks.render.remedy_commands import NOWHERE
from tasks.render.terminal import terminal
from tests.sample_reports import healthy, verdict_of, wrong_sums


def test_a_remedy_is_said_once_per_check() -> None:
    """Of other subjects it is referred to, of the same ones left out; another check says its own again."""
    healed = "Replace the node."

    def found(check: str, subject: str, message: str) -> Finding:
        return Finding(Level.FAIL, Cause.HARDWARE, check, subject, message, "", healed)

    findings = (
        found("gpu.ecc", "node-0/rank-0", "has 3 errors"),
        found("gpu.ecc", "node-0/rank-0", "has 4 rows"),
        found("gpu.ecc", "node-0/rank-1", "has 5 errors"),
        found("gpu.memory", "node-0/rank-0", "has 1 bank"),
    )
    verdict = replace(verdict_of(wrong_sums(healthy())), findings=findings)

    assert [healed, "", "The same as for node-0, rank 0 above.", healed] == [
        remedy for remedy, _ in advice_once(gathered(findings), verdict, NOWHERE)
    ]
    assert [2, 2] == [page(None, verdict, "local").count(healed) for page in (html, terminal)]
