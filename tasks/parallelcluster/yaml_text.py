"""Writes a document as YAML of which every text is quoted, so that no value changes the structure (pure)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

# What YAML 1.1 takes for another thing than a text.
_WORDS = ("y", "n", "yes", "no", "on", "off", "true", "false", "null")
Value: TypeAlias = "str | bool | int | Sequence[Value] | Mapping[str, Value]"


def yaml_text(document: Mapping[str, Value], heading: str = "") -> str:
    """The document, below its heading as comments. Every YAML 1.1 parser reads the same document from it."""
    comments = [f"# {_printable(line)}".rstrip() for line in heading.splitlines()]
    return "".join(f"{line}\n" for line in (*comments, *_lines(document, "")))


def _lines(value: Value, indent: str) -> Iterator[str]:
    """The lines of a table or a list that is not empty."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _entry(f"{indent}{_key(key)}:", item, f"{indent}  ")
    elif isinstance(value, Sequence) and not isinstance(value, str):
        for item in value:
            yield from _item(item, indent)


def _entry(head: str, value: Value, indent: str) -> Iterator[str]:
    if isinstance(value, str | bool | int) or not value:
        yield f"{head} {_scalar(value)}"
        return
    yield head
    yield from _lines(value, indent)


def _item(value: Value, indent: str) -> Iterator[str]:
    """An item of a list; a table in it begins on the line of the dash."""
    if isinstance(value, str | bool | int) or not value:
        yield f"{indent}- {_scalar(value)}"
        return
    first, *others = _lines(value, f"{indent}  ")
    yield f"{indent}- {first[len(indent) + 2 :]}"
    yield from others


def _scalar(value: Value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, str):
        return f'"{"".join(map(_escaped, value))}"'
    return "{}" if isinstance(value, Mapping) else "[]"


def _key(name: str) -> str:
    """Plain if no parser could take it for anything but this text."""
    plain = name.isascii() and name.isalnum() and name[0].isalpha() and name.lower() not in _WORDS
    return name if plain else _scalar(name)


def _escaped(character: str) -> str:
    code = ord(character)
    if character in ('"', "\\"):
        return f"\\{character}"
    if 0x20 <= code < 0x7F:
        return character
    if code <= 0xFF:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def _printable(line: str) -> str:
    return "".join(character if 0x20 <= ord(character) < 0x7F else "?" for character in line)
