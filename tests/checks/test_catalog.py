"""`python -m checks list`: a line a check, for programs and people; a site's own checks stand beside the catalogue."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

from checks.catalog import CATALOG, WATCH_ONLY, with_extra
from checks.check import CatalogError
from checks.cli import LISTING

NAMES = [check.name for check in (*CATALOG, *WATCH_ONLY)]
ROOT = Path(__file__).resolve().parents[2]
LIST = (sys.executable, "-m", "checks", "list")


def test_check_list_has_a_line_a_check_and_marks_those_of_the_watch() -> None:
    """In a pipe, whatever its length: it is searched, not read. Nobody takes what only the watch runs for a check of a gate."""
    lines = subprocess.run(LIST, capture_output=True, text=True, check=True).stdout.splitlines()
    marked = [line.split()[0] for line in lines if line.endswith("(only the watch)")]

    assert NAMES == [line.split()[0] for line in lines]
    assert [check.name for check in WATCH_ONLY] == marked


def test_a_program_gets_json_and_no_check_is_imported() -> None:
    """Importing all checks takes several times as long as the rest of the command."""
    code = "import sys; from checks.cli import main; main(['list', '--format', 'json']); print(*sys.modules)"
    argv = (sys.executable, "-c", code)
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=True)
    printed, modules = done.stdout.splitlines()

    assert json.loads(LISTING.read_bytes()) == json.loads(printed)
    assert [] == [name for name in modules.split() if name.startswith(("checks.probes", "checks.catalog"))]


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


def test_a_site_module_that_lacks_another_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python's own message says what is missing."""
    path = site_module(tmp_path, monkeypatch, "import no_such_library\n")

    with pytest.raises(CatalogError, match=r"No module named 'no_such_library'$"):
        with_extra((path,))
