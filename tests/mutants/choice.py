"""Which tests a mutant of a module is shown: the fast ones that import it, the nearest first."""

from __future__ import annotations

import ast
from collections import deque
from pathlib import Path

from tests.architecture.graph import Graph

# Whoever imports one of these, or a module of the tests that does, is slow.
SERVERS = frozenset({"moto", "playwright", "tests.world", "torch"})
PROCESSES = frozenset({"multiprocessing", "socket", "socketserver", "subprocess"})
SERVER_MODULES = ("tests.flows", "tests.fakes.sagemaker", "tests.prefect_backend")
SLOW_MODULES = (*SERVER_MODULES, "tests.survival", "tests.worlds", "tests.properties")
MOST_FILES = 14
FARTHEST = 3


def fast_tests(module: str, imports: Graph, root: Path) -> tuple[str, ...]:
    """The paths of the test files, relative to the root, in the order in which they are run."""
    steps = _distances(module, imports)
    folder, _, stem = module.rpartition(".")
    own = (f"tests.{folder}.test_{stem}", f"tests.{folder.partition('.')[0]}.test_{stem}")
    fast = [
        name
        for name, step in steps.items()
        if name.startswith("tests.")
        and name.rpartition(".")[2].startswith("test_")
        and step <= FARTHEST
        and is_fast(name, imports, root, name.startswith(own))
    ]

    def distance(name: str) -> tuple[bool, bool, int, str]:
        beside = name.startswith(f"tests.{folder}.")
        return not name.startswith(own), not beside, steps[name], name

    near = sorted(fast, key=distance)
    return tuple(f"{name.replace('.', '/')}.py" for name in near[:MOST_FILES])


def is_fast(name: str, imports: Graph, root: Path, own: bool) -> bool:
    """Whether neither the test nor what it imports of the tests is slow. The module's own tests may start processes."""
    slow, modules = (SERVERS, SERVER_MODULES) if own else (SERVERS | PROCESSES, SLOW_MODULES)
    seen, todo = {name}, [name]
    while todo:
        one = todo.pop()
        if one.startswith(modules) or _imported(root / f"{one.replace('.', '/')}.py") & slow:
            return False
        found = {other for other in imports.get(one, ()) if other.startswith("tests.")} - seen
        seen |= found
        todo += found
    return True


def _distances(module: str, imports: Graph) -> dict[str, int]:
    """Module -> over how many imports it reaches this one."""
    importers: dict[str, list[str]] = {}
    for name, others in imports.items():
        for other in others:
            importers.setdefault(other, []).append(name)
    steps, queue = {module: 0}, deque([module])
    while queue:
        one = queue.popleft()
        for other in importers.get(one, ()):
            if other not in steps:
                steps[other] = steps[one] + 1
                queue.append(other)
    return steps


def _imported(path: Path) -> set[str]:
    if not path.is_file():
        return set()
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
    return names | {name.partition(".")[0] for name in names}
