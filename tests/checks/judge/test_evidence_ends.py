"""What the engine tells of the end of a node without a complete report."""

from __future__ import annotations

from dataclasses import replace

from checks.model import NodeEnd
from tests.sample_reports import healthy, verdict_of, without_node


def test_a_node_whose_process_failed_comes_first() -> None:
    """The ranks that fell silent with it are a consequence; how it ended says more than that it is silent."""
    report = replace(without_node(healthy(2, 2), "node-1"), ends=(NodeEnd("node-1", -9, "out of memory"),))
    first = verdict_of(report).findings[0]

    assert ("report", "node-1", "sent no report (its process was ended by SIGKILL)", "Its log ends: out of memory") == (
        first.check, first.subject, first.message, first.evidence,
    )  # fmt: skip
