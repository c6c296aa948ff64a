"""Every training program that is shipped ends its process group: gloo's threads abort a process that ends without it (SIGABRT)."""

from __future__ import annotations

import ast
import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BEGIN, END = "init_process_group", "destroy_process_group"
# What ends a program before the statements that follow.
LEAVING = (ast.Return, ast.Raise)


def programs(path: Path) -> Iterator[str]:
    """The Python programs in a shipped file that begin a process group."""
    text = path.read_text(errors="replace")
    if BEGIN not in text:
        return
    if path.suffix == ".py":
        found = [text]
    elif path.suffix == ".toml":
        found = list(_strings(tomllib.loads(text)))
    elif path.suffix == ".ipynb":
        found = ["".join(cell["source"]) for cell in json.loads(text)["cells"] if cell["cell_type"] == "code"]
    else:  # a document or a script: each fenced or quoted program
        found = re.findall(r"```python\n(.*?)```", text, re.DOTALL) or [text]
    yield from (program for program in found if BEGIN in program)


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _strings(part)


def unended(program: str) -> list[int]:
    """The lines that begin a process group which an ending of the program leaves open. An error ends a rank with a code of its own."""
    suites = [
        suite
        for node in ast.walk(ast.parse(program))
        for suite in (getattr(node, "body", None), getattr(node, "orelse", None), getattr(node, "finalbody", None))
        if isinstance(suite, list)
    ]  # fmt: skip
    begins = [(suite, at) for suite in suites for at, one in enumerate(suite) if _own_calls(one, BEGIN)]
    return [suite[at].lineno for suite, at in begins if not _ends(suite[at + 1 :])]


def _own_calls(statement: ast.stmt, name: str) -> bool:
    """Whether the statement itself calls that, not one in a suite below it."""
    return isinstance(statement, ast.Expr | ast.Assign) and _calls(statement, name)


def _calls(node: ast.AST, name: str) -> bool:
    called = (one.func for one in ast.walk(node) if isinstance(one, ast.Call))
    return any(
        name == (one.attr if isinstance(one, ast.Attribute) else getattr(one, "id", "")) for one in called
    )


def _ends(suite: list[ast.stmt]) -> bool:
    """Whether the group is ended before anything leaves this suite."""
    for statement in suite:
        if _own_calls(statement, END):
            return True
        if isinstance(statement, ast.Try) and any(_own_calls(one, END) for one in statement.finalbody):
            return True
        if any(
            isinstance(one, LEAVING) or _calls(one, "exit") or _calls(one, "_exit")
            for one in ast.walk(statement)
        ):
            return False
    return False


def shipped() -> list[Path]:
    """Every file of an operator that may show a training."""
    folders = (ROOT / "deployments", ROOT / "docs", ROOT / "container")
    files = (path for folder in folders for path in folder.rglob("*") if path.is_file())
    return [ROOT / "README.md", *sorted(path for path in files if path.suffix not in (".png", ".pyc"))]


@pytest.mark.parametrize(
    ("program", "lines"),
    [
        ("d.init_process_group('gloo'); d.destroy_process_group()", []),
        ("d.init_process_group('gloo'); x = 1; print(x)", [1]),
        ("d.init_process_group('gloo')\ntry:\n  train()\nfinally:\n  d.destroy_process_group()", []),
        ("def main():\n  init_process_group()\n  if done:\n    return 0\n  destroy_process_group()", [2]),
        ("def main():\n  init_process_group()\n  sys.exit(0)\n  destroy_process_group()", [2]),
        ("if main:\n  init_process_group()\n  train()\nother.destroy_process_group()", [2]),
        ("def end():\n  destroy_process_group()\ninit_process_group()", [3]),
    ],
)
def test_the_rule_sees_a_group_that_an_ending_leaves_open(program: str, lines: list[int]) -> None:
    """One that ends in another place may not be ended on each way."""
    assert lines == unended(program)


def test_every_shipped_training_ends_its_process_group() -> None:
    """The example that is run for cents, the one in the image, and whatever a page or a notebook shows."""
    seen = {(path, program) for path in shipped() for program in programs(path)}

    assert {"train_tiny.py", "sagemaker-cpu.toml"} <= {path.name for path, _ in seen}
    assert [] == [(str(path.relative_to(ROOT)), lines) for path, one in seen if (lines := unended(one))]
