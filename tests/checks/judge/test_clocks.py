"""Clocks that disagree are said; those of one fleet are not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from checks.judge.clocks import judge_clocks, seconds_of
from checks.model import Cause, Level, Node
from tests.sample_reports import findings_of, healthy, verdict_of


def _nodes(*times: str) -> list[Node]:
    base = healthy(1, 1).nodes[0]
    return [replace(base, name=f"node-{i}", rank=i, measured_at=time) for i, time in enumerate(times)]


@pytest.mark.parametrize(
    ("last", "said"),
    [
        ("2026-11-21T08:05:00Z", []),
        ("2026-11-21T08:05:01Z", [(Level.WARN, "node-2")]),
        ("2026-11-21T07:00:00Z", [(Level.WARN, "node-2")]),
        ("2026-11-21T09:00:01Z", [(Level.FAIL, "node-2")]),
        ("2025-11-21T08:00:00Z", [(Level.FAIL, "node-2")]),
        ("", [(Level.WARN, "cluster")]),
        ("<b>yesterday</b>", [(Level.WARN, "cluster")]),
    ],
)
def test_a_clock_far_from_the_others_is_named(last: str, said: list[tuple[Level, str]]) -> None:
    """Beyond five minutes a WARN, beyond an hour a FAIL; without a time nobody can tell."""
    found = list(judge_clocks(_nodes("2026-11-21T08:00:00Z", "2026-11-21T08:00:00+00:00", last)))

    assert said == [(finding.level, finding.subject) for finding in found]
    assert all(finding.cause is Cause.EVIDENCE for finding in found)


def test_clocks_of_two_nodes_that_disagree_are_a_cluster_warning() -> None:
    """Their distance is said of the cluster."""
    (found,) = judge_clocks(_nodes("2026-11-21T08:00:00Z", "2026-11-21T08:08:00Z"))

    assert ("cluster", Level.WARN) == (found.subject, found.level)
    assert "node-1 is ahead of node-0" in found.message


def test_a_report_whose_nodes_disagree_is_no_pass() -> None:
    """Through the whole engine."""
    report = healthy(3, 1)
    odd = replace(report.nodes[2], measured_at="2026-11-21T08:20:00Z")
    verdict = verdict_of(replace(report, nodes=(*report.nodes[:2], odd)))

    assert Level.WARN is verdict.level
    assert ["node-2"] == [f.subject for f in findings_of(verdict, Cause.EVIDENCE)]


@pytest.mark.parametrize("text", ["", "x", "9999-99-99", "0001-01-01T00:00:00+23:59"])
def test_time_parser_returns_none_or_a_number_for_any_text(text: str) -> None:
    """And no crash."""
    assert seconds_of(text) is None or isinstance(seconds_of(text), float)
