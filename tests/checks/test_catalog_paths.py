"""A site's own checks beside the catalogue."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

from checks.catalog import CATALOG, with_extra
from checks.check import CatalogError, Check


def site_module(folder: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> str:
    """The path of a check in a module of a site."""
    (folder / "site_checks.py").write_text(text)
    monkeypatch.syspath_prepend(folder)
    importlib.invalidate_caches()
    monkeypatch.delitem(sys.modules, "site_checks", raising=False)
    return "site_checks:fan"


@pytest.mark.parametrize("check", CATALOG, ids=lambda check: check.name)
def test_the_path_of_an_own_check_is_refused(check: Check) -> None:
    """The catalogue contains it already."""
    with pytest.raises(CatalogError, match=f"Prelaunch's own check {check.name}. The catalogue contains"):
        with_extra((check.path,))


def test_a_site_module_that_lacks_something_else_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python's own message says what is missing."""
    path = site_module(tmp_path, monkeypatch, "import no_such_library\n")

    with pytest.raises(CatalogError, match=r"No module named 'no_such_library'$"):
        with_extra((path,))
