"""Which file of the product imports which, read from the source: wherever the import stands, in a function as well.

`python -m tests.architecture.graph` prints it.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

from tests.architecture.tree import PACKAGES, ROOT, Source, source

Graph = Mapping[str, frozenset[str]]


def graph(root: Path, *packages: str) -> Graph:
    """Module -> the modules of these packages that it imports."""
    paths = {_name(root, path): path for package in packages for path in (root / package).rglob("*.py")}
    read = (
        source
        if root == ROOT
        else lambda path: Source(str(path), "", ast.parse(path.read_bytes(), str(path)))
    )
    sources = {name: read(path) for name, path in paths.items()}
    return {
        name: frozenset({*_imported(name, paths[name], found, sources.keys())} - {name})
        for name, found in sources.items()
    }


def cycle(imports: Graph) -> tuple[str, ...]:
    """The modules of one cycle in their order, the first again at the end; empty where there is none."""
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        return tuple(error.args[1])
    return ()


def _name(root: Path, path: Path) -> str:
    return ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__")


def _imported(name: str, path: Path, found: Source, known: Collection[str]) -> Iterator[str]:
    """The known modules that a file's statements import: of `from a import b` a.b where there is one, else a."""
    package = name.split(".") if path.stem == "__init__" else name.split(".")[:-1]
    for node in found.nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*above, *filter(None, [node.module])])
            for alias in node.names:
                whole = f"{module}.{alias.name}"
                yield from (one for one in (whole if whole in known else module,) if one in known)


def folders(imports: Graph) -> Graph:
    """The same between folders: folder -> the folders that its modules import. A folder and its own subfolders are one subject,
    so what they import of each other does not count.
    """
    made: dict[str, set[str]] = {}
    for name, others in imports.items():
        own = _folder(name, imports)
        made.setdefault(own, set()).update(_folder(other, imports) for other in others)
    return {
        own: frozenset(other for other in others if not _nested(own, other)) for own, others in made.items()
    }


def _folder(name: str, imports: Graph) -> str:
    return name if any(other.startswith(f"{name}.") for other in imports) else name.rpartition(".")[0] or name


def _nested(one: str, other: str) -> bool:
    return f"{one}.".startswith(f"{other}.") or f"{other}.".startswith(f"{one}.")


def main() -> None:
    """Print each module with its imports, the number of modules in each folder, and a cycle, if there is one."""
    imports = graph(ROOT, *PACKAGES, "container")
    for name, others in sorted(imports.items()):
        print(f"{name} -> {' '.join(sorted(others)) or '(nothing)'}")
    counted = Counter(_folder(name, imports) for name in imports)
    print("", *(f"{folder}: {count} modules" for folder, count in sorted(counted.items())), sep="\n")
    found = cycle(imports) or cycle(folders(imports))
    edges = sum(map(len, imports.values()))
    print(f"\n{len(imports)} modules, {edges} imports, cycle: {' -> '.join(found) or 'none'}")


if __name__ == "__main__":
    main()
