"""The pages, whole: what a change of wording or layout does is seen in a diff.

UPDATE_GOLDEN=1 writes them anew; then read the difference.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from checks.model import Answer, Report
from tasks.gate.outcome import NOT_STARTED
from tasks.render.context import NO_CONTEXT, VerdictContext
from tasks.render.junit import junit
from tasks.render.markdown import markdown
from tasks.render.terminal import terminal
from tests.sample_reports import healthy, verdict_of, without_node, wrong_sums
from tests.tasks.launchers.golden import golden_text

GOLDEN = Path(__file__).resolve().parents[2] / "golden"


def _pages(report: Report) -> dict[str, str]:
    verdict = verdict_of(report)
    refused = verdict.answer in (Answer.NO_GO, Answer.CANNOT_TELL)
    context = VerdictContext(training=NOT_STARTED) if refused else NO_CONTEXT
    return {
        "80.txt": terminal(report, verdict, "sample-gate", 80, context=context),
        "md": markdown(report, verdict, "sample-gate", context),
        "xml": junit(report, verdict, "sample-gate", context),
    }


@pytest.mark.parametrize(
    ("name", "report"),
    [
        ("go", healthy()),
        ("no_go", wrong_sums(healthy(6, 2), "node-1/rank-3")),
        ("cannot_tell", without_node(healthy(4, 2), "node-3")),
    ],
)
def test_the_pages_are_what_the_golden_files_say(name: str, report: Report) -> None:
    """For each answer, in each format."""
    for kind, text in _pages(report).items():
        assert golden_text(GOLDEN / f"render_{name}.{kind}", text) == text
