"""What to do about each finding: said once, and referred to where another finding of the check calls for the same."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from checks.model import Cause, Finding, Level
from tasks.render.context import NO_CONTEXT, VerdictContext, advised
from tasks.render.findings import gathered
from tasks.render.html import html
from tasks.render.markdown import markdown
from tasks.render.terminal import terminal
from tests.sample_reports import healthy, verdict_of, wrong_sums


@pytest.mark.parametrize("page", [html, terminal, markdown])
def test_a_page_says_what_was_before_it(page: Callable[..., str]) -> None:
    """Of a training that failed, that the verdict is about before that; and above the findings what was known before the checks."""
    passed = "Before that, the checks: PASS: every required check ran and met the policy."
    doubt = "Before the checks: this machine: it is no g5.xlarge."
    context = VerdictContext(failed="exit code 7", said=(doubt,), doubts=(doubt,))
    verdict = verdict_of(wrong_sums(healthy()))
    text = page(None, verdict, "local", context=context)

    assert passed in page(healthy(), verdict_of(healthy()), "local", context=context)
    assert "Before that" not in page(healthy(), verdict_of(healthy()), "local")
    assert 1 == text.count(doubt) and text.index(doubt) < text.index(verdict.findings[0].remedy[:20])


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
        one.remedy for one in advised(gathered(findings), verdict, NO_CONTEXT)
    ]
    assert [2, 2] == [page(None, verdict, "local").count(healed) for page in (html, terminal)]


def test_missing_evidence_beside_a_failure_of_its_check_has_no_remedy() -> None:
    """Or a page says at one finding that nothing is to be replaced, and at the next that the gate is to be run again."""
    bad, missing, other = (
        Finding(Level.FAIL, cause, check, "node-0", message, "", remedy)
        for cause, check, message, remedy in (
            (Cause.HARDWARE, "gpu.inventory", "lacks 1 GPU", "Replace the node."),
            (Cause.EVIDENCE, "gpu.inventory", "the check lists 0 of 1 GPUs", "Run the gate again."),
            (Cause.EVIDENCE, "gpu.ecc", "not measured", "Run the gate again."),
        )
    )
    verdict = replace(verdict_of(wrong_sums(healthy())), findings=(bad, missing, other))

    assert ["Replace the node.", "", "Run the gate again."] == [
        one.remedy for one in advised(gathered(verdict.findings), verdict, NO_CONTEXT)
    ]


@pytest.mark.parametrize("nodes", [1, 2])
def test_remedy_for_a_check_that_all_nodes_fail_begins_with_the_threshold(nodes: int) -> None:
    """And then to what a single node would need; one node of two is looked at itself."""
    remedy = "End other programs."
    findings = tuple(
        Finding(
            Level.FAIL, Cause.CONFIGURATION, "system.resources", f"node-{n}", "has too little", "", remedy
        )
        for n in range(nodes)
    )
    verdict = replace(verdict_of(wrong_sums(healthy())), findings=findings)
    (said,) = [one.remedy for one in advised(gathered(findings), verdict, NO_CONTEXT)]

    first = "All nodes fail this check: look at its threshold in the policy, and at the image, first. If both are right: "
    assert (remedy if nodes == 1 else f"{first}For each of them: {remedy}") == said
