"""Bounds and patterns for values from outside, and the error that refuses a value.

    DecodeError        what is wrong, where, and the nearest valid key
    MeasurementError   what a check and the reader of a tool's output raise

Also: the keys of a dataclass and the types of their values, looked up once per class; the natural order of names.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, get_type_hints

# The version of a driver, compared as a tuple of whole numbers: 550.163.01 is older than 565.
Version = tuple[int, ...]
VERSION = re.compile(r"[1-9]\d{0,4}(?:\.\d{1,4}){0,3}")
_DIGITS = re.compile(r"([0-9]+)")
# The metadata of a field that JSON has only where it differs from its default, so that documents without it keep their bytes.
SPARSE = {"sparse": True}


def natural(name: str) -> tuple[tuple[int, str, str], ...]:
    """The key of the natural order of names: node-2 before node-13. Numbers of any length are compared without being converted."""
    return tuple(
        (len(number := piece.lstrip("0")), number, piece) if index % 2 else (0, piece, "")
        for index, piece in enumerate(_DIGITS.split(name))
    )


@dataclasses.dataclass(frozen=True)
class Range:
    """Bounds of a number, both included: Annotated[int, Range(1, 8)]."""

    least: float
    most: float

    def check(self, value: object, path: str) -> None:
        """Raises DecodeError for a number outside the range."""
        if isinstance(value, (int, float)) and not self.least <= value <= self.most:
            raise DecodeError(f"{value!r:.40} is not between {self.least:g} and {self.most:g}", path)

    def __get_pydantic_json_schema__(self, core: Any, handler: Any) -> Any:
        """The generated JSON Schema gets the same bounds. Pydantic calls the method, and is not needed here."""
        return {**handler(core), "minimum": self.least, "maximum": self.most}


MOST_S = 1e9
Seconds = Annotated[float, Range(0.0, MOST_S)]


@dataclasses.dataclass(frozen=True)
class Text:
    """The whole of a string matches `pattern` and has at most `most` characters. `form` says so in words."""

    pattern: str
    most: int
    form: str = ""

    def check(self, value: object, path: str) -> None:
        """Raises DecodeError for a string that does not match."""
        if isinstance(value, str) and (len(value) > self.most or not re.fullmatch(self.pattern, value)):
            raise DecodeError(f"{value!r:.80} {self.form or f'is not of the form {self.pattern}'}", path)

    def __get_pydantic_json_schema__(self, core: Any, handler: Any) -> Any:
        """The generated JSON Schema gets the same form."""
        return {**handler(core), "pattern": f"^({self.pattern})$", "maxLength": self.most}


class MeasurementError(Exception):
    """What a check wants could not be measured, or an output not be read. The message says why."""


class DecodeError(ValueError):
    """Input that does not fit its schema. `path` is dotted; `nearest` is a valid key or value, or None."""

    def __init__(self, message: str, path: str = "", nearest: str | None = None) -> None:
        hint = f" Did you mean {nearest!r}?" if nearest else ""
        super().__init__(f"{path or 'document'}: {message}.{hint}")
        self.path = path
        self.reason = message
        self.nearest = nearest


def version_of(text: object) -> Version | None:
    """ "550.163.01" -> (550, 163, 1); None if the text is not a version."""
    if not isinstance(text, str) or not VERSION.fullmatch(text):
        return None
    return tuple(map(int, text.split(".")))


@functools.lru_cache(maxsize=1024)
def require_version(text: str) -> Version:
    """The version. Raises DecodeError."""
    version = version_of(text)
    if version is None:
        raise DecodeError(f"{text!r:.40} is not a driver version such as 570 or 550.163.01")
    return version


_SHAPES: dict[Any, tuple[dict[str, Any], tuple[Any, ...]]] = {}


def shape(model: Any) -> tuple[dict[str, Any], tuple[Any, ...]]:
    """The keys with their types, and the fields in their order."""
    if model not in _SHAPES:
        _SHAPES[model] = (get_type_hints(model, include_extras=True), dataclasses.fields(model))
    return _SHAPES[model]


def required(field: Any) -> bool:
    """Whether the key must be there."""
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def listed(values: Mapping[str, object]) -> str:
    """Names and values for people: "hardware_errors 7, draw_w 652.3"."""
    return ", ".join(
        f"{name} {round(value, 6) if isinstance(value, float) else value}" for name, value in values.items()
    )


def listed_names(names: Sequence[str], most: int = 4) -> str:
    """The first `most` of them and the number of the others: "a, b and 3 more"."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def age_text(seconds: float) -> str:
    """In the largest unit of which there are two: "35 min", "2 days". What is negative, because of another clock, counts as 0."""
    for unit, size in (("days", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{max(0.0, seconds):.0f} s"


def byte_size(count: float, digits: int = 4) -> str:
    """In the largest binary unit of which there is one: "1.862 GiB"."""
    power = min(4, int(math.log2(abs(count)) / 10)) if abs(count) >= 1024 else 0
    return f"{count / 1024**power:.{digits}g} {('B', 'KiB', 'MiB', 'GiB', 'TiB')[power]}"
