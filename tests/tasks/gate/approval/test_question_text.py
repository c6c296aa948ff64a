"""What stands above the form of a question: the question, the findings, what either answer costs, and nothing else."""

from __future__ import annotations

import json
from dataclasses import replace

from checks.judge.cost.cost import CostTerms
from tasks.gate.approval.answers import FINDINGS, SCHEMA, question_text
from tasks.gate.outcome import JudgedReport
from tasks.gate.question import Question
from tasks.gate_file.cost_terms import cost_of
from tasks.render.context import VerdictContext
from tests.sample_reports import healthy, verdict_of, wrong_sums
from tests.tasks.gate_file.test_cost_terms import P5

ASKED = Question(
    1, "g-1", "test", "test", "run", "key", "NO-GO test: <b>node-1</b>", True, 0.0, 3600.0, (), ()
)


def paragraphs(judged: JudgedReport) -> list[str]:
    """The text's lines that are not empty."""
    return [line for line in question_text(ASKED, judged, form_may_override=True).splitlines() if line]


def test_question_text_for_one_finding_is_five_paragraphs() -> None:
    """No table of nodes or checks, no evidence and no digest: five lines for one finding."""
    report = wrong_sums(healthy())
    verdict = verdict_of(report)
    context = VerdictContext(cost=cost_of(P5, verdict, CostTerms(hours=72)))
    said = paragraphs(JudgedReport(report, verdict, context=context))

    assert said[0] == "**NO-GO test: &#60;b&#62;node-1&#60;/b&#62;**"
    assert "1970-01-01 01:00 UTC" in said[1] and "launch-anyway overrides it" in said[2]
    assert said[3].startswith("- **FAIL") and "node-1" in said[3]
    assert len(said) == 5 and "may lose" in said[4] and "a replacement of a node takes" in said[4]


def test_many_findings_are_counted_and_hostile_ones_are_inert() -> None:
    """Whatever a check or a host says is one line of text."""
    report = wrong_sums(healthy())
    verdict = verdict_of(report)
    bad = "<script>\n# [x](http://evil) \x1b[31m\u202e" + "a" * 10_000
    found = tuple(replace(verdict.findings[0], message=f"{number} {bad}") for number in range(FINDINGS + 3))
    said = paragraphs(JudgedReport(report, replace(verdict, findings=found)))

    assert [line[:4] for line in said[3:]] == ["- **"] * FINDINGS + ["- 3 "]
    assert not any(sign in "\n".join(said) for sign in ("<", "\x1b", "\u202e", "](", "://"))
    assert len("\n".join(said)) < 12_000


def test_block_stands_first_and_is_the_default() -> None:
    """Whoever presses the button without reading launches nothing."""
    decision = SCHEMA["properties"]["action"]

    assert ("block", "block") == (decision["default"], decision["enum"][0])
    assert "launch-anyway" in json.dumps(decision["enum"])
