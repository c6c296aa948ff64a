"""Parses the compact JSON of a merged report, in which many columns have the same text. Pure.

Two thirds of the columns of a large report are lists of subjects, outcomes and empty reasons, and only a few of them differ. A list
whose text was parsed before is not parsed again: both places share one object, and `checks.documents.decode.decode_shared` decodes it
once. In any doubt `parse` returns None, and the caller's ordinary parser reads the text, or says what is wrong with it.
"""

from __future__ import annotations

from collections.abc import Callable
from json.decoder import scanstring  # type: ignore[attr-defined]

# The tables of a merged report: the file, its checks, a check, its metrics. Tables below these are parsed like any other value.
TABLES = 4
# Only lists of at least so many characters are shared. Those that begin alike are compared with each other, at most so many of them.
BEGINNING, CANDIDATES = 64, 4
SPACE = " \t\n\r"

Parse = Callable[[str, int], "tuple[object, int]"]
Require = Callable[[object, int], None]


class _Doubt(ValueError):
    """The text is not the compact JSON that Prelaunch writes, or not JSON at all."""


def parse(text: str, parse_value: Parse, require: Require) -> object | None:
    """The value of the whole text, or None.

    `parse_value(text, start)` returns the JSON value that begins at `start` and the index after it; it raises ValueError or
    RecursionError. `require(value, depth)` raises one of them for a value that may not stand so many tables below the top.
    """
    reader = _Reader(text, parse_value, require)
    try:
        value, end = reader.table(0, 1)
    except (ValueError, RecursionError, IndexError):
        return None
    return None if text[end:].strip(SPACE) else value


class _Reader:
    def __init__(self, text: str, parse_value: Parse, require: Require) -> None:
        self.text, self.parse_value, self.require = text, parse_value, require
        self.seen: dict[str, list[tuple[int, int, object]]] = {}
        self.compared = 0  # characters of lists that were not the same

    def table(self, start: int, depth: int) -> tuple[dict[str, object], int]:
        """The table that begins at `start`, and the index after it."""
        text, made, at = self.text, dict[str, object](), start + 1
        if text[start] != "{" or text[at] != '"':
            raise _Doubt
        while True:
            if text[at] != '"':
                raise _Doubt
            key, at = scanstring(text, at + 1, True)
            if text[at] != ":" or key in made:
                raise _Doubt
            made[key], at = self._value(at + 1, depth)
            if text[at] == "}":
                return made, at + 1
            if text[at] != ",":
                raise _Doubt
            at += 1

    def _value(self, start: int, depth: int) -> tuple[object, int]:
        first = self.text[start]
        if first == "{" and depth < TABLES and self.text[start + 1] == '"':
            return self.table(start, depth + 1)
        if first == "[":
            return self._list(start, depth)
        value, end = self.parse_value(self.text, start)
        self.require(value, depth)
        return value, end

    def _list(self, start: int, depth: int) -> tuple[object, int]:
        """The list that begins at `start`: the one that was parsed before, if the text is the same up to its closing bracket."""
        text = self.text
        alike = self.seen.setdefault(text[start : start + BEGINNING], [])
        for begun, ended, value in alike:
            end = start + ended - begun
            if text[end - 1 : end] != "]":
                continue
            if text[start:end] == text[begun:ended]:
                return value, end
            self.compared += end - start
            if self.compared > len(text):  # a file that was made to be compared for ever
                raise _Doubt
        value, end = self.parse_value(text, start)
        if not self._is_flat(start, end):
            self.require(value, depth)
        if len(alike) < CANDIDATES:
            alike.append((start, end, value))
        return value, end

    def _is_flat(self, start: int, end: int) -> bool:
        """Whether the list certainly holds only scalars, or lists of scalars: after the first two, every bracket that opens a list
        follows one that closes a list. Brackets in texts make it uncertain.
        """
        text = self.text
        if text.find("{", start, end) >= 0:
            return False
        opened = text.count("[", start, end)
        return opened == 1 or (text.startswith("[[", start) and opened == text.count("],[", start, end) + 2)
