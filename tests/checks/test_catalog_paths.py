"""A site's own checks beside the catalogue, and the paths that version 0.1.0 had."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

from checks.catalog import CATALOG, moved_modules, with_extra
from checks.check import CatalogError, imported

RECORDING = Path(__file__).parents[1] / "recordings" / "version_0_1_0" / "check_paths.txt"
# What that version's own tree printed: "package.module:attribute name".
FORMER = tuple(line.split() for line in RECORDING.read_text().splitlines())
OWN = {check.name: check for check in CATALOG}


def site_module(folder: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> str:
    """The path of a check in a module of a site."""
    (folder / "site_checks.py").write_text(text)
    monkeypatch.syspath_prepend(folder)
    importlib.invalidate_caches()
    monkeypatch.delitem(sys.modules, "site_checks", raising=False)
    return "site_checks:fan"


@pytest.mark.parametrize(("path", "name"), FORMER)
def test_a_path_of_version_0_1_0_is_refused_with_the_new_one(path: str, name: str) -> None:
    """The path that the error names leads to that check."""
    new = OWN[name].path

    with pytest.raises(CatalogError) as refused:
        with_extra((path,))

    assert repr(path) in str(refused.value)
    assert f"Prelaunch's own check {name}" in str(refused.value)
    assert path == new or f"now at {new}." in str(refused.value)
    assert imported(new) is OWN[name]


@pytest.mark.parametrize("module", sorted({path.partition(":")[0] for path, _ in FORMER}))
def test_a_module_of_version_0_1_0_leads_to_those_that_have_its_checks(module: str) -> None:
    """Every check of the module is found in one of them."""
    new = moved_modules(module)[module]

    names = {name for path, name in FORMER if path.partition(":")[0] == module}
    found = {id(value) for place in new for value in vars(importlib.import_module(place)).values()}
    assert {name for name in names if id(OWN[name]) not in found} == set()


def test_a_site_module_that_imports_a_moved_module_is_told_the_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python names the first package that is missing: the error names all modules that it had."""
    package = "checks" + ".efa"
    path = site_module(tmp_path, monkeypatch, f"raise ModuleNotFoundError('No module', name={package!r})\n")

    with pytest.raises(CatalogError) as refused:
        with_extra((path,))

    places = [
        f"{package}.{leaf} moved to {OWN[name].body.__module__}"
        for leaf, name in (("counters", "efa.counters"), ("plugin", "efa.plugin"))
    ]
    assert [place for place in places if place in str(refused.value)] == places


def test_a_site_module_that_lacks_something_else_is_refused_as_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing moved there."""
    path = site_module(tmp_path, monkeypatch, "import no_such_library\n")

    with pytest.raises(CatalogError, match=r"No module named 'no_such_library'$"):
        with_extra((path,))
