"""The source tree as the house rules see it."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from checks.process.collection import without_collection

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("flows", "tasks", "checks")
PLACES = (*PACKAGES, "container", "deployments", "tests")
GENERATED = ("recordings", "golden", "__pycache__")


@dataclass(frozen=True)
class Source:
    """One Python file: its path below the root, its text and its syntax tree."""

    name: str
    text: str
    tree: ast.Module

    @functools.cached_property
    def nodes(self) -> tuple[ast.AST, ...]:
        """Every node of the tree, in the order of ast.walk."""
        with without_collection():
            return tuple(ast.walk(self.tree))


def files(*places: str, suffix: str) -> tuple[Path, ...]:
    """The files below the places with that suffix, generated ones apart."""
    found = (path for place in places for path in sorted((ROOT / place).rglob(f"*{suffix}")))
    return tuple(path for path in found if not set(GENERATED) & set(path.relative_to(ROOT).parts))


def sources(*places: str) -> Iterator[Source]:
    """Every Python file below the places."""
    for path in files(*places, suffix=".py"):
        yield source(path)


@functools.cache
def source(path: Path) -> Source:
    """A file of the tree. It is parsed once: these tests run in one worker, and parsing takes most of their time."""
    text = path.read_text(encoding="utf-8")
    with without_collection():
        return Source(str(path.relative_to(ROOT)), text, ast.parse(text, str(path)))


def modules(package: str) -> tuple[str, ...]:
    """The dotted names of a package's modules, `__main__` apart."""
    paths = (path.relative_to(ROOT).with_suffix("") for path in files(package, suffix=".py"))
    names = (".".join(path.parts).removesuffix(".__init__") for path in paths)
    return tuple(name for name in names if not name.endswith("__main__"))
