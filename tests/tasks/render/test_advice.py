"""What to do about each finding, and a kernel log that the engine withholds: said on every page once, and never as a warning."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from checks.facts import withheld_kernel_log
from checks.model import Cause, Finding, Level, Observation, Outcome, Report, Verdict
from tasks.paging.content import items_of
from tasks.render.context import NO_CONTEXT, VerdictContext, advised, verdict_context
from tasks.render.findings import gathered
from tasks.render.headline import headline
from tasks.render.html import html
from tasks.render.junit import junit
from tasks.render.markdown import markdown
from tasks.render.terminal import terminal
from tasks.render.views.nodes import State, check_lines, node_lines
from tests.checks.judge.test_evidence_of_withheld_logs import confined, judged
from tests.sample_reports import POLICY, healthy, verdict_of, wrong_sums

SAID = "The kernel log of 2 of 2 nodes could not be read"
REPORT = confined("trn1.32xlarge")
VERDICT = judged(REPORT)
PAGES: dict[str, Callable[[Report, Verdict], str]] = {
    "terminal": lambda report, verdict: terminal(report, verdict, "trn", 400),
    "markdown": lambda report, verdict: markdown(report, verdict, "trn"),
    "junit": lambda report, verdict: junit(report, verdict, "trn"),
    "html": lambda report, verdict: html(report, verdict, "trn", NO_CONTEXT),
    "slack": lambda report, verdict: "\n".join(map(str, items_of(verdict, NO_CONTEXT))),
}


@pytest.mark.parametrize("page", [html, terminal, markdown])
def test_a_page_says_what_was_before_it(page: Callable[..., str]) -> None:
    """Of a training that failed, that the verdict is about before that; and above the findings what was known before the checks."""
    passed = "The checks had ended before that. PASS: every required check ran and met the policy."
    doubt = "Before the checks: this machine: it is no g5.xlarge."
    context = VerdictContext(failed="exit code 7", notes=(doubt,), doubts=(doubt,))
    verdict = verdict_of(wrong_sums(healthy()))
    text = page(None, verdict, "local", context=context)

    assert passed in page(healthy(), verdict_of(healthy()), "local", context=context)
    assert "before that" not in page(healthy(), verdict_of(healthy()), "local")
    assert 1 == text.count(doubt) and text.index(doubt) < text.index(verdict.findings[0].remedy[:20])


def test_a_finding_about_a_rank_says_which_gpu_it_has() -> None:
    """By the number of the rank on its node, on every channel; not where the inventory is short."""
    report = wrong_sums(healthy(2, 2))
    report = replace(report, declared=replace(report.declared, gpus_per_node=2))
    labels = ("GPU 0 (0000:97:00.0)", "GPU 1 (0000:a8:00.0)")
    verdict = verdict_of(report)
    for listed, expected in (
        (labels, "GPU 1 (0000:a8:00.0) is that of node-1, rank 3 if CUDA counts as NVML does."),
        (labels[:1], ""),
    ):
        row = Observation(
            "gpu.inventory", "node-1", Outcome.MEASURED, 1.0, {"gpus": listed, "driver": ("580.1",)}
        )
        context = verdict_context(replace(report, observations=(*report.observations, row)), POLICY, verdict)
        assert ("driver 580.1",) == context.site.shared
        pages = [page(None, verdict, "local", context=context) for page in (html, terminal, markdown, junit)]
        assert [bool(expected)] * 4 == [(expected or "if CUDA counts") in text for text in pages]


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

    remedies = [one.remedy for one in advised(gathered(findings), verdict, NO_CONTEXT)]
    assert [healed, "", "Follow the remedy for node-0, rank 0 above.", healed] == remedies
    # The HTML page also has the first one above the fold.
    assert [3, 2] == [page(None, verdict, "local").count(healed) for page in (html, terminal)]


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

    remedies = [one.remedy for one in advised(gathered(verdict.findings), verdict, NO_CONTEXT)]
    assert ["Replace the node.", "", "Run the gate again."] == remedies


@pytest.mark.parametrize("nodes", [1, 2])
def test_remedy_for_a_check_that_all_nodes_fail_begins_with_the_threshold(nodes: int) -> None:
    """And then to what a single node would need; one node of two is looked at itself."""
    remedy = "End other programs."
    found = Finding(Level.FAIL, Cause.CONFIGURATION, "system.resources", "", "has too little", "", remedy)
    findings = tuple(replace(found, subject=f"node-{n}") for n in range(nodes))
    verdict = replace(verdict_of(wrong_sums(healthy())), findings=findings)
    (said,) = [one.remedy for one in advised(gathered(findings), verdict, NO_CONTEXT)]

    first = "All nodes fail this check: look at its threshold in the policy, and at the image, first. If both are right: "
    assert (remedy if nodes == 1 else f"{first}For each named node: {remedy}") == said


@pytest.mark.parametrize("page", PAGES)
def test_every_page_says_it_once(page: str) -> None:
    """Once for all nodes, whatever their number."""
    assert 1 == PAGES[page](REPORT, VERDICT).count(SAID)


def test_the_first_line_counts_no_warning() -> None:
    """What changes no answer is not in the headline."""
    assert "warning" not in headline(VERDICT, "trn")
    assert "GO trn: 2 of 2 nodes" in headline(VERDICT, "trn")


def test_a_check_whose_log_is_withheld_is_shown_as_skipped() -> None:
    """Neither as passed nor as unknown."""
    lines = {line.planned.check: line for line in check_lines(REPORT, VERDICT)}
    nodes = [line for line in node_lines(REPORT, VERDICT) if line.rank is not None]

    for name in withheld_kernel_log.READERS:
        assert (State.SKIPPED, "log withheld on 2") == (lines[name].state, lines[name].coverage)
    assert [State.PASS, State.PASS] == [line.state for line in nodes]


def test_junit_counts_neither_failure_nor_error() -> None:
    """A pipeline that looks at the file alone goes on."""
    text = junit(REPORT, VERDICT, "trn")

    assert 'failures="0"' in text
    assert 'errors="0"' in text
    assert "/dev/kmsg: No such file or directory" in text
