"""The line at the end of `make test` counts what ran, and nothing else."""

from __future__ import annotations

import pytest

from tests.architecture.corpus_count import counted


def report(*properties: tuple[str, object]) -> pytest.TestReport:
    """A test that ran and recorded this."""
    return pytest.TestReport("t", ("t", 0, "t"), {}, "passed", None, "call", user_properties=properties)


def test_summary_line_adds_up_cases_by_sort() -> None:
    """By sort, with each check once."""
    ran = [
        report(("corpus", ["a.b", "healthy", "PASS"])),
        report(("corpus", ["a.b", "faulty", "FAIL"])),
        report(("corpus", ["c.d", "unmeasurable", "WARN"])),
        report(("mutations", [1200, 0, 4])),
        report(("mutations", [34, 0, 1])),
    ]

    assert (
        "fault corpus: 2 checks, 3 cases: 1 healthy passed, 1 faulty and 1 unmeasurable refused, "
        "0 passed wrongly; 1,234 mutated recordings: 1,229 refused, "
        "5 passed that lost nothing but lines without evidence, 0 passed wrongly"
    ) == counted(ran)


def test_a_session_without_the_corpus_says_nothing() -> None:
    """Nor one whose cases crashed before they had a verdict."""
    assert "" == counted([report()])


def test_summary_line_counts_a_wrong_pass_apart_from_the_refused() -> None:
    """And a healthy case that was refused has not passed."""
    ran = [
        report(("corpus", ["a.b", "healthy", "FAIL"])),
        report(("corpus", ["a.b", "faulty", "PASS"])),
        report(("mutations", [10, 2, 0])),
    ]

    assert (
        "fault corpus: 1 checks, 2 cases: 0 healthy passed, 0 faulty and 0 unmeasurable refused, "
        "1 passed wrongly; 10 mutated recordings: 8 refused, "
        "0 passed that lost nothing but lines without evidence, 2 passed wrongly"
    ) == counted(ran)
