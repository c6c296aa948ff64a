"""The seconds of each folder, as CI prints them."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.architecture.summary import CPU, seconds_by_folder
from tests.architecture.tree import ROOT


def report(nodeid: str, when: str, seconds: float, cpu_s: float = 0.0) -> pytest.TestReport:
    """A part of a test that took so long."""
    spent = [(CPU, cpu_s)]
    return pytest.TestReport(
        nodeid, (nodeid, 0, ""), {}, "passed", None, when, duration=seconds, user_properties=spent  # type: ignore[arg-type]
    )  # fmt: skip


def test_a_folder_has_the_time_of_its_tests_with_their_set_up() -> None:
    """The product's top folders are shown by their packages, and what costs most CPU comes first."""
    rows = seconds_by_folder(
        [
            report("tests/tasks/store/test_s3.py::test_a", "setup", 2.0),
            report("tests/tasks/store/test_s3.py::test_a", "call", 1.0, 0.5),
            report("tests/tasks/test_page.py::test_b", "call", 0.5),
            report("tests/survival/test_busy.py::test_c", "call", 4.0, 1.0),
            report("tests/tasks/store/deep/test_d.py::test_d", "call", 0.25),
        ]
    )

    assert [row.split() for row in rows] == [
        ["4.0", "s", "1.0", "s", "of", "CPU", "1", "tests", "survival"],
        ["3.2", "s", "0.5", "s", "of", "CPU", "2", "tests", "tasks/store"],
        ["0.5", "s", "0.0", "s", "of", "CPU", "1", "tests", "tasks"],
    ]


def test_every_long_test_says_what_it_proves() -> None:
    """`make test-long` prints the first line of each docstring, so a long test without one is a line that says nothing."""
    long = [
        (path.name, test.name, ast.get_docstring(test))
        for path in sorted((ROOT / "tests").rglob("test_*.py"))
        for test in _long_tests(path)
    ]

    assert len(long) > 50
    assert [] == [(file, name) for file, name, docstring in long if not docstring]


def _long_tests(path: Path) -> list[ast.FunctionDef]:
    body = ast.parse(path.read_bytes()).body
    whole = any(isinstance(line, ast.Assign) and "mark.long" in ast.unparse(line.value) for line in body)
    tests = [node for node in body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")]
    return [t for t in tests if whole or any("mark.long" in ast.unparse(mark) for mark in t.decorator_list)]
