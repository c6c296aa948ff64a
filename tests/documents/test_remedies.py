"""Every command that a message names is one that the real parser takes, with the options that it requires."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.documents.test_commands import ROOT, parser_of

FILES = sorted(
    path for folder in ("checks", "tasks", "flows", "container") for path in (ROOT / folder).rglob("*.py")
)
POLICIES = sorted((ROOT / "deployments/policies").glob("*.toml"))
NAMED = re.compile(
    r"(?<![\w./-])prelaunch ((?:[a-z]+)(?: (?:[a-z]+\b|--?[a-z][\w-]*|[A-Z<{\[][^\s`'\",;:)]*|\.\.\.))*)"
)


def messages(path: Path) -> Iterator[str]:
    """The texts of a module, without docstrings and what `--help` prints; a value in a text is VALUE."""
    source = path.read_text(encoding="utf-8")
    if "prelaunch " not in source:  # no message of it can name a command
        return
    tree = ast.parse(source)
    helps = {
        id(word.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        for word in node.keywords
        if word.arg in ("help", "description", "epilog")
    }
    lone = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    inner = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(tree):
        if id(node) in helps | lone | inner:
            continue
        if isinstance(node, ast.JoinedStr):
            yield "".join(
                str(part.value) if isinstance(part, ast.Constant) else "VALUE" for part in node.values
            )
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def faults(text: str) -> Iterator[str]:
    """What the parser lacks in each command that the text names, or does not know."""
    for found in NAMED.finditer(text):
        words = found[1].split()
        parser, _ = parser_of([word for word in words if word[:1].islower()])
        given = {word.rstrip(".").partition("=")[0] for word in words if word.startswith("--")}
        options = {name: action for action in parser._actions for name in action.option_strings}
        needed = [
            action.option_strings for action in parser._actions if action.option_strings and action.required
        ]
        wrong = [name for name in given if name not in options]
        lacking = [names[0] for names in needed if not given & set(names)]
        if wrong or lacking:
            yield f"prelaunch {found[1]}: unknown {wrong}, lacks {lacking}"


def test_a_command_in_a_message_has_its_required_options() -> None:
    texts = [(path, text) for path in FILES for text in messages(path)]
    texts += [(path, path.read_text(encoding="utf-8")) for path in POLICIES]

    assert [] == [(path.relative_to(ROOT), fault) for path, text in texts for fault in faults(text)]
    assert sum(len(NAMED.findall(text)) for _, text in texts) > 60


@pytest.mark.parametrize(
    "text",
    [
        "Learn a baseline: prelaunch baseline learn REPORT...",
        "Make one (prelaunch baseline learn).",
        "run `prelaunch baseline learn --prefix X`",
        "prelaunch gate FILE --ofline",
        "prelaunch explain --kinds VALUE FILE",
    ],
)
def test_a_command_that_lacks_an_option_is_found(text: str) -> None:
    assert 1 == len([*faults(text)])
