"""How large the project is: `python -m tests.architecture.size` prints lines of code and modules of each package.

Blank lines, comments and docstrings are not counted. A module is a file other than
`__init__.py`.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path

from tests.architecture import tree
from tests.architecture.graph import graph

PRODUCT = ("checks", "container", "flows", "tasks")
TESTS = ("tests",)
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True)
class Size:
    """Lines of code, and modules."""

    lines: int
    modules: int

    def __add__(self, other: Size) -> Size:
        return Size(self.lines + other.lines, self.modules + other.modules)


def code_lines(source: tree.Source) -> int:
    """The number of lines that hold code."""
    docstrings = _docstring_lines(source)
    texts = (
        line.strip() for number, line in enumerate(source.text.splitlines(), 1) if number not in docstrings
    )
    return sum(bool(text) and not text.startswith("#") for text in texts)


def sizes(*folders: str) -> dict[str, Size]:
    """The size of each folder below these, to the depth of two names."""
    by_package: dict[str, Size] = {}
    for source in tree.sources(*folders):
        package = "/".join(Path(source.name).parts[:-1][:2])
        size = Size(code_lines(source), int(Path(source.name).name != "__init__.py"))
        by_package[package] = by_package.get(package, Size(0, 0)) + size
    return by_package


def total(*folders: str) -> Size:
    """The size of all of these together."""
    return sum(sizes(*folders).values(), Size(0, 0))


def core() -> Size:
    """What a gate needs in order to run: the modules that flows/gate.py reaches by import statements."""
    imports = graph(tree.ROOT, *PRODUCT)
    reached, new = set[str](), {"flows.gate"}
    while new:
        reached |= new
        new = {other for name in new for other in imports[name]} - reached
    sources = [one for one in tree.sources(*PRODUCT) if one.name[:-3].replace("/", ".") in reached]
    return Size(sum(map(code_lines, sources)), len(sources))


def _docstring_lines(source: tree.Source) -> set[int]:
    documented = (node for node in source.nodes if isinstance(node, DOCUMENTED))
    firsts = [node.body[0] for node in documented if ast.get_docstring(node, clean=False) is not None]
    return {line for first in firsts for line in range(first.lineno, (first.end_lineno or first.lineno) + 1)}


def main() -> None:
    """Print the table, and the sums that `test_size.py` holds below its budget."""
    for package, size in sorted(sizes(*PRODUCT, *TESTS).items()):
        print(f"{size.lines:7,} {size.modules:5,}  {package}")
    sums = {"the product": total(*PRODUCT), "the tests": total(*TESTS), "what flows/gate.py imports": core()}
    for name, size in sums.items():
        print(f"{size.lines:7,} {size.modules:5,}  {name}")


if __name__ == "__main__":
    main()
