"""The parser of a command line: it ends no process, and names the word that a misspelt one is nearest to.

UsageError          the command line is wrong: exit 2
InputError          a file, or another thing that was named, cannot be used: exit 2
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NoReturn

from checks.documents.nearest import nearest


class UsageError(Exception):
    """The command line is wrong. `usage` is the line that shows how it goes; `nearest` is the valid word that was meant, or None.

    `hint` is a sentence that says what to type, in place of the question about `nearest`.
    """

    def __init__(self, message: str, usage: str, nearest: str | None = None, hint: str = "") -> None:
        meant = hint or (f"Did you mean {nearest}?" if nearest else "")
        super().__init__(f"{message}. {meant}" if meant else message)
        self.message, self.usage, self.nearest = message, usage, nearest


class InputError(Exception):
    """What was named cannot be used. `file` is where, `path` the dotted place in it ("" for all), `nearest` a valid word or None, and
    `line` the line of the file, where it is known. `more` is what else is wrong.
    """

    line: int | None = None
    more: tuple[InputError, ...] = ()

    def __init__(self, file: str | Path, message: str, path: str = "", nearest: str | None = None) -> None:
        super().__init__(message)
        self.file, self.path, self.message, self.nearest = str(file), path, message, nearest

    def __str__(self) -> str:
        location = f"{self.file}, line {self.line}" if self.line else self.file
        location += f": {self.path}" if self.path else ""
        return f"{location}: {self.account}"

    @property
    def account(self) -> str:
        """What is wrong, and the nearest valid word, without the place."""
        hint = f" Did you mean {self.nearest!r}?" if self.nearest else ""
        return f"{_sentence(self.message)}{hint}"


def _sentence(text: str) -> str:
    return text if text.endswith((".", "?", "!", ".)")) else f"{text}."


class PlaceError(Exception):
    """The bundle or the roster cannot be used here, and nothing was checked. The message has the remedy."""


class Parser(argparse.ArgumentParser):
    """Raises UsageError instead of ending the process, at the command that was misused.

    `unexpected_hint` is a sentence about words that are one too many: where the option is that takes them.
    """

    unexpected_hint = ""
    _arguments: Sequence[str] = ()

    def error(self, message: str) -> NoReturn:
        """Raise UsageError. An option that does not exist is named first: what is missing may be a consequence of it."""
        if not any(action.nargs in (argparse.PARSER, argparse.REMAINDER) for action in self._actions):
            own = self._words[: self._words.index("--")] if "--" in self._words else self._words
            # A word with one hyphen may be a value, such as a negative number.
            self._refuse_options(argument for argument in own if argument.startswith("--"))
        raise UsageError(message, self.format_usage().strip())

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> tuple[Any, list[str]]:
        """As argparse, but what is not known is refused here, and not by the command above with its usage."""
        self._words = sys.argv[1:] if args is None else list(args)
        parsed, rest = super().parse_known_args(args, namespace)
        if rest:
            self._refuse_options(rest)
            usage = self.format_usage().strip()
            raise UsageError(f"unexpected argument {quoted(rest[0])}", usage, hint=self.unexpected_hint)
        return parsed, rest

    def _refuse_options(self, arguments: Iterable[str]) -> None:
        for argument in arguments:
            name = argument.partition("=")[0]
            if len(name) > 1 and name.startswith("-") and name not in self._option_string_actions:
                own = [option for option in self._option_string_actions if option[:2] == "--"]
                usage = self.format_usage().strip()
                raise UsageError(f"unknown option {quoted(name)}", usage, nearest(name, own))

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Names the nearest choice; of a command that does not exist, the usage is that of the nearest one."""
        if action.choices is None or value in action.choices:
            return
        choices = [str(choice) for choice in action.choices]
        meant = nearest(str(value), choices)
        if isinstance(action.choices, dict):
            message, usage = f"unknown command {quoted(value)}", self.format_usage()
            if meant:
                usage = action.choices[meant].format_usage()
            else:
                message += ". The commands are: " + ", ".join(choices)
        else:
            name = "/".join(action.option_strings) or action.metavar or action.dest
            message, usage = f"{name}: {quoted(value)} is none of {', '.join(choices)}", self.format_usage()
        raise UsageError(message, usage.strip(), meant)


def quoted(value: object) -> str:
    """Inert: repr writes out what a terminal would act upon."""
    text = str(value)
    return repr(text) if len(text) <= 60 else f"{text[:60]!r}..."


def number(least: float, most: float, unit: str) -> Callable[[str], float]:
    """The type of an argument that is a number of this unit above 0, not below `least` and not above `most`."""

    def parsed(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not (0 < value and least <= value <= most):
            bounds = f"from {least:g} to {most:.8g}" if least else f"above 0, at most {most:.8g}"
            raise argparse.ArgumentTypeError(f"{text!r:.40} is not a number of {unit} {bounds}")
        return value

    return parsed
