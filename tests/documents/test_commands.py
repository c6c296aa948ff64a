"""Every command that a page shows or a message names is one that the real parser takes, with the options that it really has."""

from __future__ import annotations

import argparse
import ast
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from checks.command_line import UsageError
from flows.cli.verbs import whole_parser
from tests.documents.test_docs import PAGES as DOCS

ROOT = Path(__file__).resolve().parents[2]
PAGES = (*DOCS, *sorted((ROOT / "deployments").rglob("*.md")))
BLOCK = re.compile(r"^```[^\n]*\n(.*?)^```", re.DOTALL | re.MULTILINE)
INLINE = re.compile(r"`prelaunch ([^`\n]+)`")
COMMAND = re.compile(r"(?:^|(?<=\$\())(?:\$ )?(?:\.venv/bin/|exec )?prelaunch +(\S.*)")
# A word that stands for a value, and what stands for a number in it.
PLACEHOLDERS = {"N": "2", "DAYS": "30", "M": "5"}
PARSER = whole_parser()

FILES = sorted(
    path for folder in ("checks", "tasks", "flows", "container") for path in (ROOT / folder).rglob("*.py")
)
POLICIES = sorted((ROOT / "deployments/policies").glob("*.toml"))
NAMED = re.compile(
    r"(?<![\w./-])prelaunch ((?:[a-z]+)(?: (?:[a-z]+\b|--?[a-z][\w-]*|[A-Z<{\[][^\s`'\",;:)]*|\.\.\.))*)"
)


def relative(path: Path) -> str:
    """As a test's id."""
    return str(path.relative_to(ROOT))


def typed(text: str) -> Iterator[list[str]]:
    """The words of each command in the blocks of a page, without comments, pipes and redirections."""
    for block in BLOCK.findall(text):
        for line in block.replace("\\\n", " ").splitlines():
            for found in COMMAND.finditer(line.strip()):
                words = shlex.split(re.split(r"  #| {3,}", found[1])[0].rstrip(')"'), comments=True)
                ends = [place for place, word in enumerate(words) if re.match(r"[|>;&<]|2>", word)]
                yield [PLACEHOLDERS.get(word, word) for word in words[: ends[0] if ends else None]]


def written(text: str) -> Iterator[list[str]]:
    """The words of each command in the sentences and tables of a page."""
    for found in INLINE.finditer(BLOCK.sub("", text)):
        yield found[1].split()


def parser_of(words: list[str]) -> tuple[argparse.ArgumentParser, str]:
    """The parser of the verb, or of the verb below it, and the word that is none ("" for none)."""
    parser: argparse.ArgumentParser = PARSER
    for word in words:
        below = [a for a in parser._actions if isinstance(a, argparse._SubParsersAction)]
        if not below or not re.fullmatch("[a-z-]+,?", word) or word.startswith("-"):
            break
        choices = below[0].choices
        if word.rstrip(",") not in choices:
            return parser, word
        parser = choices[word.rstrip(",")]
    return parser, ""


@pytest.mark.parametrize("path", PAGES, ids=relative)
def test_the_parser_takes_every_command_in_a_block(path: Path) -> None:
    """With all its options and their values."""
    refused = []
    for words in typed(path.read_text(encoding="utf-8")):
        try:
            PARSER.parse_args(words)
        except UsageError as error:
            refused.append(f"{shlex.join(words)}: {error}")
        except SystemExit:
            continue  # --help and --version

    assert [] == refused


@pytest.mark.parametrize("path", PAGES, ids=relative)
def test_every_verb_and_option_in_a_sentence_exists(path: Path) -> None:
    """Of the verb that is named before it."""
    wrong = []
    for words in written(path.read_text(encoding="utf-8")):
        parser, unknown = parser_of(words)
        options = [word.strip("[],").partition("=")[0] for word in words if word.strip("[").startswith("--")]
        options = options[: options.index("--")] if "--" in options else options
        wrong += [unknown] if unknown else []
        wrong += [f"{parser.prog} {name}" for name in options if name not in parser._option_string_actions]

    assert [] == wrong


def test_the_pages_show_commands() -> None:
    """So that an expression that matches nothing would be noticed."""
    texts = [path.read_text(encoding="utf-8") for path in PAGES]

    assert sum(len(list(typed(text))) for text in texts) > 30
    assert sum(len(list(written(text))) for text in texts) > 80


@pytest.mark.parametrize(
    "line", ["prelaunch gaet FILE", "prelaunch plan FILE --ofline", "prelaunch fleet store lst"]
)
def test_a_command_that_is_none_is_found(line: str) -> None:
    """In a block and in a sentence."""
    (block,) = typed(f"```\n{line}\n```\n")
    (sentence,) = written(f"Type `{line}`.")
    parser, unknown = parser_of(sentence)

    with pytest.raises(UsageError):
        PARSER.parse_args(block)
    assert unknown or "--ofline" not in parser._option_string_actions


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
            parts = (part.value if isinstance(part, ast.Constant) else "VALUE" for part in node.values)
            yield "".join(map(str, parts))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def faults(text: str) -> Iterator[str]:
    """What the parser lacks in each command that the text names, or does not know."""
    for found in NAMED.finditer(text):
        words = found[1].split()
        parser, _ = parser_of([word for word in words if word[:1].islower()])
        given = {word.rstrip(".").partition("=")[0] for word in words if word.startswith("--")}
        needed = [action.option_strings for action in parser._actions if action.required]
        wrong = [name for name in given if name not in parser._option_string_actions]
        lacking = [names[0] for names in needed if names and not given & set(names)]
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
        "Learn a baseline: prelaunch fleet baseline learn REPORT...",
        "Make one (prelaunch fleet baseline learn).",
        "run `prelaunch fleet baseline learn --prefix X`",
        "prelaunch gate FILE --ofline",
        "prelaunch explain --kinds VALUE FILE",
    ],
)
def test_a_command_that_lacks_an_option_is_found(text: str) -> None:
    assert 1 == len([*faults(text)])
