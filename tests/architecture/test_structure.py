"""How the tree is built: what a linter cannot say of it."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import pytest

from tests.architecture import tree
from tests.architecture.tree import ROOT
from tests.conftest import ALONE

MODULES = 15
# One verb a file.
LONGER_FOLDERS = {"flows/cli"}
# A module is named by a noun of the field. These say nothing, are participles, or are words that only we would know.
REFUSED = {
    "again", "alone", "asked", "beside", "busy", "company", "done", "found", "given", "gated", "handing", "kept", "known",
    "left", "looking", "mistaken", "one", "over", "patient", "said", "say", "seen", "shown", "told", "watching", "wholesale",
    "withheld", "words", "written",
}  # fmt: skip
POOR = {"utils", "util", "common", "helpers", "helper", "manager", "managers", "misc"}
PACKAGES = ("checks", "tasks", "flows", "container", "deployments")


def test_no_folder_holds_more_modules_than_a_person_can_survey() -> None:
    """A folder that passes this number gets a new cut by meaning."""
    folders = Counter(
        str(path.parent.relative_to(ROOT))
        for path in tree.files(*PACKAGES, suffix=".py")
        if path.name != "__init__.py"
    )

    assert {} == {
        name: count for name, count in folders.items() if count > MODULES and name not in LONGER_FOLDERS
    }


def test_a_module_at_the_top_of_tasks_is_a_step_of_the_flow() -> None:
    """It holds functions that Prefect runs as tasks, or a flow calls it. Whatever works without a flow lies in a package."""
    tops = [source for source in tree.sources("tasks") if source.name.count("/") == 1 and source.text.strip()]
    called = {name for source in tree.sources("flows") for name in _imported(source.tree)}

    assert tops
    assert [] == [
        source.name for source in tops if not _tasks(source.tree) and Path(source.name).stem not in called
    ]


def test_no_module_bears_a_name_that_says_nothing() -> None:
    """Readers look for a noun of the field; a folder called so gathers what belongs nowhere."""
    named = [
        source.name
        for source in tree.sources(*PACKAGES)
        if Path(source.name).stem in REFUSED or POOR & set(Path(source.name).with_suffix("").parts)
    ]

    assert [] == named


@pytest.mark.parametrize("package", ["checks", "tasks"])
def test_tests_lie_where_the_tested_module_lies(package: str) -> None:
    """The test of a module is found without a search."""
    folders = {path.parent for path in (ROOT / "tests" / package).rglob("test_*.py")}

    assert folders
    assert [] == [
        str(folder.relative_to(ROOT))
        for folder in folders
        if not (ROOT / folder.relative_to(ROOT / "tests")).is_dir()
    ]


def _tasks(module: ast.Module) -> list[str]:
    """The functions of a module that Prefect runs as tasks."""
    return [
        node.name
        for node in module.body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and any(
            "task" in ast.unparse(decorator).split("(")[0].split(".") for decorator in node.decorator_list
        )
    ]


def _imported(module: ast.Module) -> list[str]:
    """The modules at the top of tasks that a file imports, or imports from."""
    nodes = [node for node in ast.walk(module) if isinstance(node, ast.ImportFrom)]
    of_tasks = [alias.name for node in nodes if node.module == "tasks" for alias in node.names]
    return of_tasks + [(node.module or "").removeprefix("tasks.") for node in nodes]


def test_the_prefect_server_of_the_tests_is_imported_once() -> None:
    """A module that imports the fixture has a fixture of its own, so each worker would run one idle server per module."""
    importers = [
        path.name for path in sorted((ROOT / "tests").rglob("*.py"))
        if "import prefect_backend" in path.read_text() and path != Path(__file__)
    ]  # fmt: skip

    assert ["conftest.py"] == importers


def test_tests_that_run_alone_are_named_in_one_place() -> None:
    """Their group collects the files of this list and no other: a mark elsewhere would select a test that nothing runs."""
    for name in ALONE:
        file, _, test = name.partition("::")
        assert f"def {test.partition('[')[0]}" in (ROOT / file).read_text(encoding="utf-8"), name
    mark = "pytest.mark." + "alone"
    assert ["tests/conftest.py"] == [source.name for source in tree.sources("tests") if mark in source.text]
