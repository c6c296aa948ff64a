"""The documentation as a site: every page is in it, it asks for nothing of the network, and a dead link is an error."""

from __future__ import annotations

import re
import shutil
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
    argv = [
        sys.executable,
        "-m",
        "mkdocs",
        "build",
        "--strict",
        "-f",
        str(config),
        "-d",
        str(site),
    ]
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
    assert all(
        (site / "project" / f"{name}.html").is_file()
        for name in ("ARCHITECTURE", "CONTRIBUTING", "CHANGELOG")
    )
    assert "for-on-call.html" in (site / "index.html").read_text()


def test_blocks_within_lists_stay_in_them(site: Path) -> None:
    """As GitHub shows them: one list with three items, and the commands in two of them."""
    text = (site / "for-on-call.html").read_text(encoding="utf-8")
    (found,) = re.findall(r"<ol>.*?</ol>", text, re.DOTALL)

    assert (3, 2) == (found.count("<li>"), found.count("<pre"))


def test_a_browser_loads_nothing_from_elsewhere(site: Path) -> None:
    """No font, script, picture or style: the pages open without the network."""
    found = []
    for path in site.rglob("*"):
        if path.suffix in (".html", ".css"):
            expression = LOADED if path.suffix == ".html" else STYLED
            urls = ["".join(groups) for groups in expression.findall(path.read_text(encoding="utf-8"))]
            found += [f"{path.name}: {url}" for url in urls if FAR.match(url)]

    assert [] == found


def test_a_link_that_leads_nowhere_is_an_error(tmp_path: Path) -> None:
    """To a page, to a heading, and to a picture; the site of this checkout has such links, and is fine."""
    (tmp_path / ".ci").mkdir()
    shutil.copy(ROOT / ".ci" / "site.py", tmp_path / ".ci")
    for name in ("mkdocs.yml", "README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"):
        (tmp_path / name).write_text((ROOT / name).read_text() if name == "mkdocs.yml" else "# A page\n")
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "README.md").write_text("# Index\n\n[one](store.md) [code](../mkdocs.yml)\n")
    links = "[a](gone.md) [b](store.md#no-such-heading) ![c](gone.png)"
    (tmp_path / "docs" / "store.md").write_text(f"# Store\n\n{links}\n")
    wrong = build(tmp_path / "mkdocs.yml", tmp_path / "site")

    assert 1 == wrong.returncode
    assert [] == [name for name in ("gone.md", "no-such-heading", "gone.png") if name not in wrong.stderr]
