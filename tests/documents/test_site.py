"""The documentation as a site: every page is in it, it asks for nothing of the network, and a dead link is an error."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# What a browser would load by itself; a link that a person may follow is none.
LOADED = re.compile(
    r"<(?:script|img|iframe|source)\b[^>]*\bsrc=[\"']([^\"']+)|<link\b[^>]*\bhref=[\"']([^\"']+)"
)
STYLED = re.compile(r"url\([\"']?([^\"')]+)|@import [\"']([^\"']+)")
FAR = re.compile(r"(?:https?:)?//")


def build(config: Path, site: Path) -> subprocess.CompletedProcess[str]:
    """As `make docs` does."""
    argv = [sys.executable, "-m", "mkdocs", "build", "--strict", "-f", str(config), "-d", str(site)]
    return subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site of this checkout."""
    made = tmp_path_factory.mktemp("site")
    done = build(ROOT / "mkdocs.yml", made)
    assert (0, "") == (done.returncode, done.stdout), done.stderr
    return made


def test_every_page_is_in_it(site: Path) -> None:
    """Those of docs/ and those of the root that they link to."""
    pages = [path.relative_to(ROOT / "docs") for path in (ROOT / "docs").rglob("*.md")]
    names = [path.with_suffix(".html") for path in pages if path.name != "README.md"]

    assert [] == [str(name) for name in names if not (site / name).is_file()]
    others = ("ARCHITECTURE", "CONTRIBUTING", "CHANGELOG")
    assert all((site / "project" / f"{name}.html").is_file() for name in others)
    assert "on-call.html" in (site / "index.html").read_text()


def test_a_browser_loads_nothing_from_elsewhere(site: Path) -> None:
    """No font, script, picture or style: the pages open without the network."""
    found = []
    for path in site.rglob("*"):
        if path.suffix in (".html", ".css"):
            expression = LOADED if path.suffix == ".html" else STYLED
            urls = ["".join(groups) for groups in expression.findall(path.read_text(encoding="utf-8"))]
            found += [f"{path.name}: {url}" for url in urls if FAR.match(url)]

    assert [] == found
