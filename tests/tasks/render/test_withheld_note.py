"""A verdict's note on a kernel log that the engine withholds: on every page once, and never as a warning."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from checks.facts import withheld_kernel_log
from checks.model import Report, Verdict
from tasks.paging.content import items_of
from tasks.render.context import NO_CONTEXT
from tasks.render.headline import headline
from tasks.render.html import html
from tasks.render.junit import junit
from tasks.render.markdown import markdown
from tasks.render.terminal import terminal
from tasks.render.views.nodes import State, check_lines, node_lines
from tests.checks.facts.test_withheld_kernel_log import confined, judged

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
        assert (State.SKIPPED, "log withheld on 2") == (lines[name].state, lines[name].seen)
    assert [State.PASS, State.PASS] == [line.state for line in nodes]


def test_junit_counts_neither_failure_nor_error() -> None:
    """A pipeline that looks at the file alone goes on."""
    text = junit(REPORT, VERDICT, "trn")

    assert 'failures="0"' in text
    assert 'errors="0"' in text
    assert "/dev/kmsg: No such file or directory" in text
