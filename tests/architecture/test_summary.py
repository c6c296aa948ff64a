"""The seconds of each folder, as CI prints them."""

from __future__ import annotations

import pytest

from tests.architecture.summary import seconds_by_folder


def report(nodeid: str, when: str, seconds: float) -> pytest.TestReport:
    """A part of a test that took so long."""
    return pytest.TestReport(nodeid, (nodeid, 0, ""), {}, "passed", None, when, duration=seconds)  # type: ignore[arg-type]


def test_a_folder_has_the_time_of_its_tests_with_their_set_up() -> None:
    """The product's top folders are shown by their packages, and the longest comes first."""
    rows = seconds_by_folder(
        [
            report("tests/tasks/store/test_s3.py::test_a", "setup", 2.0),
            report("tests/tasks/store/test_s3.py::test_a", "call", 1.0),
            report("tests/tasks/test_page.py::test_b", "call", 0.5),
            report("tests/survival/test_busy.py::test_c", "call", 4.0),
            report("tests/tasks/store/deep/test_d.py::test_d", "call", 0.25),
        ]
    )

    assert [row.split() for row in rows] == [
        ["4.0", "s", "1", "tests", "survival"],
        ["3.2", "s", "2", "tests", "tasks/store"],
        ["0.5", "s", "1", "tests", "tasks"],
    ]
