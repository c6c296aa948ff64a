"""Every command that a page shows is one that the real parser takes: whole lines in blocks, verbs and options in sentences."""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from checks.command_line import UsageError
from flows.cli.verbs import whole_parser

ROOT = Path(__file__).resolve().parents[2]
PAGES = (
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "deployments").rglob("*.md")),
    *(ROOT / name for name in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md")),
)
BLOCK = re.compile(r"^```[^\n]*\n(.*?)^```", re.DOTALL | re.MULTILINE)
INLINE = re.compile(r"`prelaunch ([^`\n]+)`")
COMMAND = re.compile(r"(?:^|(?<=\$\())(?:\$ )?(?:\.venv/bin/|exec )?prelaunch +(\S.*)")
# A word that stands for a value, and what stands for a number in it.
PLACEHOLDERS = {"N": "2", "DAYS": "30", "M": "5"}
PARSER = whole_parser()


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
    "line", ["prelaunch gaet FILE", "prelaunch plan FILE --ofline", "prelaunch store lst"]
)
def test_a_command_that_is_none_is_found(line: str) -> None:
    """In a block and in a sentence."""
    (block,) = typed(f"```\n{line}\n```\n")
    (sentence,) = written(f"Type `{line}`.")
    parser, unknown = parser_of(sentence)

    with pytest.raises(UsageError):
        PARSER.parse_args(block)
    assert unknown or "--ofline" not in parser._option_string_actions
