"""A site's own checks beside the catalogue."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

from checks.catalog import CATALOG, with_extra
from checks.check import CatalogError


def site_module(folder: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> str:
    """The path of a check in a module of a site."""
    (folder / "site_checks.py").write_text(text)
    monkeypatch.syspath_prepend(folder)
    importlib.invalidate_caches()
    monkeypatch.delitem(sys.modules, "site_checks", raising=False)
    return "site_checks:fan"


def test_a_check_of_a_site_is_in_front_of_the_catalogue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The path of one of Prelaunch's own checks is refused: the catalogue contains it already."""
    text = (
        "from checks.check import check\nfan = check('site.fan', None, metrics=('rpm',), timeout_s=1)(len)\n"
    )
    path = site_module(tmp_path, monkeypatch, text)
    own = CATALOG[0]

    assert ["site.fan", own.name] == [check.name for check in with_extra((path,))[:2]]
    with pytest.raises(CatalogError, match=f"Prelaunch's own check {own.name}. The catalogue contains"):
        with_extra((own.path,))


def test_a_site_module_that_lacks_something_else_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python's own message says what is missing."""
    path = site_module(tmp_path, monkeypatch, "import no_such_library\n")

    with pytest.raises(CatalogError, match=r"No module named 'no_such_library'$"):
        with_extra((path,))
