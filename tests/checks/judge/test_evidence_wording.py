"""What is missing is said of the subject that lacks it, at the level that it deserves, with what to do."""

from __future__ import annotations

from dataclasses import replace

from checks.model import Cause, Level, Outcome, Skip
from tests.sample_reports import SIZES, findings_of, healthy, verdict_of, with_metric, with_row

WHO, CHECK = "node-0/rank-0", "collective.all_reduce"


def test_an_empty_list_is_named_on_its_own_subject() -> None:
    """The other ranks measured."""
    report = with_metric(healthy(), CHECK, WHO, "busbw_gbps", ())
    said = [
        (f.subject, f.message) for f in findings_of(verdict_of(report), Cause.EVIDENCE) if f.check == CHECK
    ]

    assert (WHO, "not measured: busbw_gbps is an empty list") in said
    assert {WHO} == {subject for subject, _ in said}


def test_a_value_that_no_rule_reads_may_be_missing_with_a_warning() -> None:
    """It changes no decision, and is not passed over."""
    report = with_metric(healthy(), CHECK, WHO, "sizes_bytes", (None, *SIZES[1:]))
    levels = {f.level for f in findings_of(verdict_of(report), Cause.EVIDENCE) if f.check == CHECK}

    assert {Level.WARN} == levels


def test_a_missing_tool_is_to_be_installed() -> None:
    """The remedy is that of the reason."""
    report = with_row(
        healthy(),
        CHECK,
        WHO,
        lambda row: replace(
            row, outcome=Outcome.SKIPPED, metrics={}, skip=Skip.TOOL_MISSING, reason="no tool"
        ),
    )
    (found,) = (
        f for f in findings_of(verdict_of(report), Cause.EVIDENCE) if f.subject == WHO and f.check == CHECK
    )

    assert found.remedy.startswith("Install the tool") and "no tool" in found.message
