"""A remedy is written for one node. Where it is about several nodes it says so, on every page."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import pytest

from checks.model import Cause, Finding, Level, Verdict
from tasks.render.findings import in_number
from tasks.render.html import html
from tasks.render.markdown import markdown
from tasks.render.terminal import terminal
from tests.sample_reports import healthy, verdict_of

LOG = "Run the gate again. If the finding returns, read this node's log."
LOGS = f"For each of them: {LOG}"


def silent(*nodes: str) -> Verdict:
    found = tuple(
        Finding(Level.FAIL, Cause.EVIDENCE, "report", node, "the report ends early", "", LOG)
        for node in nodes
    )
    return replace(verdict_of(healthy()), findings=found)


@pytest.mark.parametrize(
    "subjects",
    [("node-1",), ("node-1/rank-0", "node-1/rank-1"), ("node-1/rank-0 <-> node-2/rank-9",), ("cluster",)],
)
def test_a_remedy_for_several_nodes_says_each(subjects: tuple[str, ...]) -> None:
    """For one node, its ranks, or one link it stays as it is written; no remedy stays none."""
    assert LOGS == in_number(LOG, ("node-1", "node-2/rank-3"))
    assert "" == in_number("", ("node-1", "node-2/rank-3"))
    assert LOG == in_number(LOG, subjects)


@pytest.mark.parametrize("page", [html, terminal, markdown])
def test_a_page_says_it_of_a_group(page: Callable[..., str]) -> None:
    """For 37 nodes at once, for one as it is written."""
    many = page(None, silent(*(f"node-{number}" for number in range(37))), "c")
    one = page(None, silent("node-1"), "c")
    many, one = (" ".join(re.sub(r"&#39;|&#x27;", "'", text).split()) for text in (many, one))

    assert LOGS in many and LOG in one and LOGS not in one
