"""The one strict reader of what comes from outside: JSON or TOML values -> frozen dataclasses.

Unknown keys are refused with their path and the nearest valid key, numbers must be finite, and nothing is
coerced: "8" is not 8, True is not 1.

DecodeError        what, where, and the nearest valid key
"""

from __future__ import annotations

import dataclasses
import difflib
import json
import math
import re
import types
import typing
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")
MAX_DEPTH = 32


@dataclasses.dataclass(frozen=True)
class Range:
    """Bounds of a number, both included: Annotated[int, Range(1, 8)]."""

    least: float
    most: float

    def check(self, value: object, path: str) -> None:
        """Raise DecodeError for a number outside."""
        if isinstance(value, (int, float)) and not self.least <= value <= self.most:
            raise DecodeError(f"{value!r:.40} is not between {self.least:g} and {self.most:g}", path)

    def __get_pydantic_json_schema__(self, core: Any, handler: Any) -> Any:
        """The same bounds for the generated JSON Schema (called by pydantic, which is not needed here)."""
        return {**handler(core), "minimum": self.least, "maximum": self.most}


@dataclasses.dataclass(frozen=True)
class Text:
    """The whole of a string matches `pattern` and has at most `most` characters."""

    pattern: str
    most: int

    def check(self, value: object, path: str) -> None:
        """Raise DecodeError for another string."""
        if isinstance(value, str) and (len(value) > self.most or not re.fullmatch(self.pattern, value)):
            raise DecodeError(f"{value!r:.80} is not of the form {self.pattern}", path)

    def __get_pydantic_json_schema__(self, core: Any, handler: Any) -> Any:
        """The same form for the generated JSON Schema."""
        return {**handler(core), "pattern": f"^({self.pattern})$", "maxLength": self.most}


class DecodeError(ValueError):
    """Input that is not what its schema says. `path` is dotted; `nearest` is a valid key or value, or None."""

    def __init__(self, message: str, path: str = "", nearest: str | None = None) -> None:
        hint = f" Did you mean {nearest!r}?" if nearest else ""
        super().__init__(f"{path or 'document'}: {message}.{hint}")
        self.path = path
        self.reason = message
        self.nearest = nearest


def nearest(word: str, choices: Sequence[str]) -> str | None:
    """The valid word that a misspelt one most likely means."""
    found = difflib.get_close_matches(word, choices, n=1, cutoff=0.5)
    return found[0] if found else None


def parse_json(text: str | bytes, max_bytes: int) -> object:
    """JSON -> plain values. Refuses NaN, duplicate keys, deep nesting and more than `max_bytes`."""
    if len(text) > max_bytes:
        raise DecodeError(f"{len(text)} bytes is more than the {max_bytes} that are read")
    try:
        if isinstance(text, bytes):
            text = text.decode("utf-8")
        value: object = json.loads(text, parse_constant=_no_constant, object_pairs_hook=_unique)
    except DecodeError:
        raise
    except (ValueError, RecursionError) as error:
        raise DecodeError(f"not valid JSON ({error})") from error
    _limit_depth(value)
    return value


def decode(kind: type[T], value: object, path: str = "") -> T:
    """A plain value -> `kind` (a dataclass, enum, union, mapping, tuple or scalar). Raises DecodeError."""
    return typing.cast(T, _decode(kind, value, path))


def _decode(kind: Any, value: object, path: str) -> object:
    origin = get_origin(kind)
    if origin is Annotated:
        return _decode_annotated(get_args(kind), value, path)
    if origin in (Union, types.UnionType):
        return _decode_union(get_args(kind), value, path)
    if origin is tuple:
        return _decode_tuple(get_args(kind), value, path)
    if origin is not None and isinstance(origin, type) and issubclass(origin, Mapping):
        return _decode_mapping(get_args(kind)[1], value, path)
    if dataclasses.is_dataclass(kind):
        return _decode_dataclass(kind, value, path)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return _decode_enum(kind, value, path)
    return _decode_scalar(kind, value, path)


def _decode_annotated(args: Sequence[Any], value: object, path: str) -> object:
    made = _decode(args[0], value, path)
    for rule in args[1:]:
        rule.check(made, path)
    return made


def _decode_dataclass(kind: Any, value: object, path: str) -> object:
    table = _table(value, path)
    hints, fields = _shape(kind)
    for key in table:
        if key not in hints:
            raise DecodeError("unknown key", _join(path, key), nearest(key, tuple(hints)))
    missing = [f.name for f in fields if f.name not in table and _required(f)]
    if missing:
        raise DecodeError("missing key", _join(path, missing[0]))
    return kind(**{key: _decode(hints[key], item, _join(path, key)) for key, item in table.items()})


_SHAPES: dict[Any, tuple[dict[str, Any], tuple[Any, ...]]] = {}


def _shape(kind: Any) -> tuple[dict[str, Any], tuple[Any, ...]]:
    if kind not in _SHAPES:
        _SHAPES[kind] = (get_type_hints(kind, include_extras=True), dataclasses.fields(kind))
    return _SHAPES[kind]


def _required(field: Any) -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def _decode_union(kinds: Sequence[Any], value: object, path: str) -> object:
    if value is None and type(None) in kinds:
        return None
    errors = []
    for kind in kinds:
        if kind is type(None):
            continue
        try:
            return _decode(kind, value, path)
        except DecodeError as error:
            errors.append(error)
    raise max(errors, key=lambda error: len(error.path))


def _decode_tuple(kinds: Sequence[Any], value: object, path: str) -> object:
    if not isinstance(value, (list, tuple)):
        raise DecodeError(f"expected a list, found {_name(value)}", path)
    return tuple(_decode(kinds[0], item, f"{path}[{index}]") for index, item in enumerate(value))


def _decode_mapping(kind: Any, value: object, path: str) -> object:
    return {key: _decode(kind, item, _join(path, key)) for key, item in _table(value, path).items()}


def _decode_enum(kind: type[Enum], value: object, path: str) -> object:
    for member in kind:
        if type(value) is str and member.value == value:
            return member
    choices = [str(member.value) for member in kind]
    raise DecodeError(f"{value!r:.80} is none of {', '.join(choices)}", path, nearest(str(value), choices))


def _decode_scalar(kind: Any, value: object, path: str) -> object:
    if kind is float and type(value) is int:
        value = _finite_int(value, path)
    if kind is object:
        return value
    if type(value) is not kind:
        raise DecodeError(f"expected {kind.__name__}, found {_name(value)}", path)
    if isinstance(value, float) and not math.isfinite(value):
        raise DecodeError(f"{value} is not a finite number", path)
    return value


def _finite_int(value: int, path: str) -> float:
    try:
        return float(value)
    except OverflowError:
        raise DecodeError("the number is out of range", path) from None


def _table(value: object, path: str) -> Mapping[str, object]:
    if not isinstance(value, Mapping):
        raise DecodeError(f"expected a table, found {_name(value)}", path)
    return value


def _name(value: object) -> str:
    return "nothing (null)" if value is None else f"{type(value).__name__} {value!r:.60}"


def _join(path: str, key: str) -> str:
    return f"{path}.{key}" if path else str(key)


def _no_constant(word: str) -> object:
    raise DecodeError(f"{word} is not a number that JSON has")


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    table = dict(pairs)
    if len(table) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise DecodeError("duplicate key", key)
            seen.add(key)
    return table


def _limit_depth(value: object) -> None:
    level: list[object] = [value]
    for _ in range(MAX_DEPTH):
        level = [item for outer in level for item in _children(outer)]
        if not level:
            return
    raise DecodeError(f"nested deeper than {MAX_DEPTH} levels")


def _children(value: object) -> list[object]:
    if isinstance(value, dict):
        return [item for item in value.values() if isinstance(item, (dict, list))]
    if isinstance(value, list):
        return [item for item in value if isinstance(item, (dict, list))]
    return []
