"""The line at the end of `make test` counts what ran, and nothing else."""

from __future__ import annotations

import pytest

from tests.architecture.corpus_count import counted


def report(*properties: tuple[str, object]) -> pytest.TestReport:
    """A test that ran and recorded this."""
    return pytest.TestReport("t", ("t", 0, "t"), {}, "passed", None, "call", user_properties=properties)


def test_summary_line_adds_up_cases_by_sort() -> None:
    """By sort, with each check once; a wrong pass apart from the refused, and a healthy case that was refused has not passed."""
    cases = [
        *(("a.b", "healthy", "PASS"), ("a.b", "healthy", "FAIL"), ("a.b", "faulty", "FAIL")),
        *(("c.d", "unmeasurable", "WARN"), ("a.b", "faulty", "PASS"), ("a.b", "unmeasurable", "PASS")),
    ]
    ran = [report(("corpus", [*case])) for case in cases]
    ran += [report(("mutations", [1200, 3, 4])), report(("mutations", [34, 0, 1]))]

    assert (
        "fault corpus: 2 checks, 6 cases: 1 healthy passed, 1 faulty and 1 unmeasurable refused, "
        "2 passed wrongly; 1,234 mutated recordings: 1,226 refused, "
        "5 passed that lost nothing but lines without evidence, 3 passed wrongly"
    ) == counted(ran)


def test_a_session_without_the_corpus_says_nothing() -> None:
    """Nor one whose cases crashed before they had a verdict."""
    assert "" == counted([report()])
