"""No file imports itself through others, and none hands on what it imported."""

from __future__ import annotations

import ast
import functools
from pathlib import Path

import pytest

from tests.architecture.graph import Graph, cycle, folders, graph
from tests.architecture.tree import PACKAGES, ROOT, sources
from tests.mutants.test_trial import write

PLANTED = {
    "at the top": "from house import kitchen\n",
    "by its whole name": "import house.kitchen\n",
    "of a name": "from house.kitchen import stove\n",
    "in a function": "def cook():\n    from house import kitchen\n\n    return kitchen\n",
    "for types alone": "from typing import TYPE_CHECKING\n\nif TYPE_CHECKING:\n    from house.kitchen import stove\n",
    "relative": "from . import kitchen\n",
}


@functools.cache
def product() -> Graph:
    """The imports of the product."""
    return graph(ROOT, *PACKAGES, "container")


def test_no_file_imports_itself_through_others() -> None:
    """An import in a function, or for types alone, counts like any other."""
    assert () == cycle(product())


@pytest.mark.parametrize("statement", PLANTED.values(), ids=list(PLANTED))
def test_a_planted_cycle_is_found(tmp_path: Path, statement: str) -> None:
    """Wherever its import stands; without it there is none."""
    house = tmp_path / "house"
    house.mkdir()
    (house / "__init__.py").write_text("")
    (house / "kitchen.py").write_text("from house import cellar\n\nstove = cellar\n")
    (house / "cellar.py").write_text("")
    assert () == cycle(graph(tmp_path, "house"))

    (house / "cellar.py").write_text(statement)
    assert {"house.cellar", "house.kitchen"} == {*cycle(graph(tmp_path, "house"))}


def test_no_folders_import_each_other() -> None:
    """Each of two folders can be understood without the other, a folder's own subfolders apart."""
    assert () == cycle(folders(product()))


def test_a_planted_cycle_of_folders_is_found(tmp_path: Path) -> None:
    """Four files in two folders, and no cycle of files."""
    house = tmp_path / "house"
    texts = {
        "attic/box.py": "from house.cellar import shelf\n",
        "attic/lamp.py": "",
        "cellar/shelf.py": "",
        "cellar/wine.py": "from house.attic import lamp\n",
    }
    write(house, texts)
    imports = graph(tmp_path, "house")

    assert () == cycle(imports)
    assert {"house.attic", "house.cellar"} == {*cycle(folders(imports))}


def test_no_module_hands_on_a_name_of_another() -> None:
    """Every module imports a name from the module that defines it."""
    found = {
        f"{source.name}: {alias.name}"
        for source in sources(*PACKAGES, "container")
        for node in source.tree.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.asname == alias.name
    }

    assert set() == found
