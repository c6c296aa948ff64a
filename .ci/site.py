"""What MkDocs does beside its own for `make docs`: pages of the root, links that leave docs/, and the index as the navigation."""

from __future__ import annotations

import os
import re
from pathlib import Path, PurePosixPath
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[1]
# Pages of the root that docs/ links to.
PAGES = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md")
FOLDER = "project"  # where they are in the site: docs/README.md is the site's own index
ROW = re.compile(r"\| (?:\*\*(?P<title>.+)\*\*|\[(?P<name>[^\]]+)\]\((?P<path>[^)]+)\)) \|")
LINK = re.compile(r"(?P<sign>!?)\[(?P<text>[^\]]*)\]\((?P<target>(?!https?:)[^)#\s]*)(?P<anchor>#[^)\s]*)?\)")
ITEM = re.compile(r"(?:[-*]|\d+\.) +(?=\S)")
FENCE = re.compile(r"(^```.*?^```)", re.DOTALL | re.MULTILINE)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """The navigation is the table of docs/README.md, and headings have the anchors that GitHub gives them."""
    groups: list[Any] = [{"Overview": "README.md"}]
    for row in ROW.finditer((ROOT / "docs" / "README.md").read_text(encoding="utf-8")):
        if row["title"]:
            groups.append({row["title"]: []})
        else:
            next(iter(groups[-1].values())).append(row["path"])
    groups.append({"Project": [f"{FOLDER}/{name}" for name in PAGES]})
    config.nav = groups
    config.mdx_configs["toc"] = {"slugify": slug, "permalink": True}
    return config


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add the pages of the root, and the pictures that they show from docs/."""
    for name in PAGES:
        text = (ROOT / name).read_text(encoding="utf-8")
        files.append(File.generated(config, f"{FOLDER}/{name}", content=text))
    return files


def on_page_markdown(markdown: str, *, page: Any, config: MkDocsConfig, files: Files) -> str:
    """Links to files that are no pages become their text: the site does not hold the code."""
    source = PurePosixPath(page.file.src_uri)
    here = PurePosixPath("." if source.parts[0] == FOLDER else "docs") / (
        source.parent if source.parts[0] != FOLDER else ""
    )

    def led(found: re.Match[str]) -> str:
        target, anchor = found["target"], found["anchor"] or ""
        if not target:
            return found[0]
        path = os.path.normpath(here / target)
        inside = f"{FOLDER}/{path}" if path in PAGES else os.path.relpath(path, "docs")
        if path == "docs":
            inside = "README.md"
        if files.get_file_from_path(inside) is None:
            # What exists nowhere stays, and MkDocs refuses it.
            return found["text"] if (ROOT / path).exists() else found[0]
        return f"{found['sign']}[{found['text']}]({os.path.relpath(inside, source.parent)}{anchor})"

    parts = FENCE.split(markdown)
    return "".join(part if part.startswith("```") else indented(LINK.sub(led, part)) for part in parts)


def indented(text: str) -> str:
    """What belongs to an item of a list is indented by four spaces: GitHub takes the width of the item's own mark."""
    lines, width = [], 0
    for line in text.split("\n"):
        if item := ITEM.match(line):
            width = len(item[0])
        elif width and line.startswith(" " * width):
            line = " " * 4 + line[width:]
        elif line.strip():
            width = 0
        lines.append(line)
    return "\n".join(lines)


def slug(text: str, separator: str) -> str:
    """As GitHub makes it: every space is a hyphen, and what is no letter, digit, hyphen or underscore goes."""
    return re.sub(r"[^\w\- ]", "", text.lower()).strip().replace(" ", separator)
