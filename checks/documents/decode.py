"""Reads JSON and TOML values from outside into frozen dataclasses. Everything that comes from outside is read here.

Unknown keys are refused with their path and the nearest valid key, but for documents of other programs (`Foreign`). Numbers must be
finite, and no value is converted to another type: "8" is not read as 8, and True is not read as 1. What is refused raises
`DecodeError` (checks.value_types).
"""

from __future__ import annotations

import dataclasses
import json
import math
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from functools import partial
from itertools import chain, islice, repeat
from operator import is_
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

from checks.documents.nearest import nearest
from checks.value_types import DecodeError, Range, required, shape

T = TypeVar("T")
MAX_DEPTH = 32
NESTED = frozenset((dict, list))
SCALARS: Mapping[object, str] = {str: "text", int: "a whole number", float: "a number", bool: "true or false"}


def parse_json(text: str | bytes, max_bytes: int) -> object:
    """JSON as plain values. Refuses NaN, duplicate keys, deep nesting and more than `max_bytes`."""
    if len(text) > max_bytes:
        raise DecodeError(f"{len(text)} bytes is more than the {max_bytes} that are read")
    try:
        if isinstance(text, bytes):
            text = text.decode("utf-8")
        value = _PARSER.decode(text)
    except DecodeError:
        raise
    except (ValueError, RecursionError) as error:
        raise DecodeError(f"not valid JSON ({error})") from error
    _limit_depth(value)
    return value


def decode(target: type[T], value: object, path: str = "") -> T:
    """A plain value as `target` (a dataclass, enum, union, mapping, tuple or scalar). Raises DecodeError."""
    return typing.cast(T, _decode(target, value, path))


class Foreign:
    """A part of another program's document, as a base of a dataclass: keys that are none of its fields are passed over."""


Read = Callable[[object, str], object]
# By identity: Union[int, float] and Union[float, int] are equal keys, but read 1 differently.
_READS: dict[int, tuple[Any, Read]] = {}


def _decode(target: Any, value: object, path: str) -> object:
    cached = _READS.get(id(target))
    if cached is None:
        cached = _READS[id(target)] = (target, _read_of(target))
    return cached[1](value, path)


def _read_of(target: Any) -> Read:
    origin, args = get_origin(target), get_args(target)
    if origin is Annotated:
        return partial(_decode_annotated, args)
    if origin in (Union, types.UnionType):
        scalars = [(option, _scalar_of(option)) for option in args if option is not type(None)]
        return partial(_decode_union, scalars, type(None) in args)
    if origin is tuple:
        return partial(_decode_tuple, args)
    if origin is not None and isinstance(origin, type) and issubclass(origin, Mapping):
        return partial(_decode_mapping, args[1])
    if dataclasses.is_dataclass(target):
        return partial(_decode_dataclass, target)
    if isinstance(target, type) and issubclass(target, Enum):
        return partial(_decode_enum, target)
    return partial(_decode_scalar, target)


def _decode_annotated(args: Sequence[Any], value: object, path: str) -> object:
    decoded = _decode(args[0], value, path)
    for rule in args[1:]:
        rule.check(decoded, path)
    return decoded


def _decode_dataclass(target: Any, value: object, path: str) -> object:
    if not isinstance(value, Mapping):
        raise _no_table(value, path)
    table: Mapping[str, object] = value
    hints, fields = shape(target)
    if issubclass(target, Foreign):
        table = {key: item for key, item in table.items() if key in hints}
    for key in table:
        if key not in hints:
            raise DecodeError("unknown key", _join(path, key), nearest(key, tuple(hints)))
    missing = [f.name for f in fields if f.name not in table and required(f)]
    if missing:
        raise DecodeError("missing key", _join(path, missing[0]))
    return target(**{key: _decode(hints[key], item, _join(path, key)) for key, item in table.items()})


def _scalar_of(target: Any) -> Any:
    """The scalar that the kind is, bounded or not; None for any other kind."""
    base = get_args(target)[0] if get_origin(target) is Annotated else target
    return base if base in SCALARS else None


def _decode_union(kinds: Sequence[tuple[Any, Any]], optional: bool, value: object, path: str) -> object:
    """The first alternative that accepts the value. Scalars of another type than its own are not tried, if others are left."""
    if optional and value is None:
        return None
    own = type(value)
    fitting = [
        type_
        for type_, scalar in kinds
        if scalar is None or scalar is own or (scalar is float and own is int)
    ]
    errors = []
    for type_ in fitting or [type_ for type_, _ in kinds]:
        try:
            return _decode(type_, value, path)
        except DecodeError as error:
            errors.append(error)
    raise max(errors, key=lambda error: len(error.path))


def _decode_tuple(kinds: Sequence[Any], value: object, path: str) -> object:
    if not isinstance(value, (list, tuple)):
        raise DecodeError(f"expected a list, found {_name(value)}", path)
    decoded = column(kinds[0], value)
    if decoded is None:
        decoded = tuple(_decode(kinds[0], item, f"{path}[{index}]") for index, item in enumerate(value))
    return decoded


def column(target: Any, items: Sequence[Any]) -> tuple[Any, ...] | None:
    """All items as `kind` by a few passes over the whole list, because a report of a fleet holds a million values. None in any doubt:
    then each item is read by itself, which says what is wrong and where.
    """
    if id(target) not in _COLUMNS:
        _COLUMNS[id(target)] = (target, dict(_column_readers(target)))
    readers, item_types = _COLUMNS[id(target)][1], set(map(type, items))
    if not item_types <= readers.keys():
        return None
    if len(item_types) == 1:
        return readers[item_types.pop()](items)
    rest: dict[type, Iterator[Any]] = {}
    for item_type in item_types:
        decoded = readers[item_type]([item for item in items if type(item) is item_type])
        if decoded is None:
            return None
        rest[item_type] = iter(decoded)
    return tuple([next(rest[type(item)]) for item in items])


Column = Callable[[Sequence[Any]], "tuple[Any, ...] | None"]
# By identity, as above.
_COLUMNS: dict[int, tuple[Any, dict[type, Column]]] = {}


def _column_readers(target: Any) -> Iterator[tuple[type, Column]]:
    """JSON type -> the reader of a list of it. None of them converts a value, so that the order of alternatives does not matter."""
    origin, args = get_origin(target), get_args(target)
    if origin in (Union, types.UnionType):
        readers_by_type: dict[type, list[Column]] = {}
        for alternative in args:
            for own, reader in _column_readers(alternative):
                readers_by_type.setdefault(own, []).append(reader)
        yield from ((own, partial(_first_fitting, readers)) for own, readers in readers_by_type.items())
    elif origin is Annotated and args[0] in (int, float) and isinstance(args[1], Range):
        yield args[0], partial(_numbers, args[1])
    elif origin is tuple:
        yield list, partial(_lists, args[0])
    elif isinstance(target, type) and issubclass(target, Enum):
        yield str, partial(_members, {member.value: member for member in target})
    elif target is float:
        yield float, partial(_numbers, None)
    elif target in (str, bool, int, type(None)):
        yield target, tuple


def _first_fitting(readers: Sequence[Column], items: Sequence[Any]) -> tuple[Any, ...] | None:
    return next((decoded for reader in readers if (decoded := reader(items)) is not None), None)


def _numbers(limit: Range | None, items: Sequence[Any]) -> tuple[Any, ...] | None:
    """Numbers within the limit. One NaN or infinity makes the sum no finite number; a sum that is too large only costs time."""
    try:
        fits = math.isfinite(sum(items)) and (
            limit is None or (limit.least <= min(items) and max(items) <= limit.most)
        )
    except OverflowError:
        return None
    return tuple(items) if fits else None


def _members(members: Mapping[str, object], items: Sequence[Any]) -> tuple[Any, ...] | None:
    return tuple(map(members.__getitem__, items)) if members.keys() >= set(items) else None


def _lists(target: Any, items: Sequence[Any]) -> tuple[Any, ...] | None:
    if all(map(is_, items, repeat(items[0]))):  # one list, repeated
        decoded = column(target, items[0])
        return None if decoded is None else (decoded,) * len(items)
    decoded = column(target, list(chain.from_iterable(items)))
    if decoded is None:
        return None
    rest, lengths = iter(decoded), set(map(len, items))
    if len(lengths) == 1 and 0 not in lengths:
        return tuple(zip(*[rest] * lengths.pop(), strict=True))
    return tuple([tuple(islice(rest, len(item))) for item in items])


def _decode_mapping(target: Any, value: object, path: str) -> object:
    if not isinstance(value, Mapping):
        raise _no_table(value, path)
    return {key: _decode(target, item, _join(path, key)) for key, item in value.items()}


def _decode_enum(target: type[Enum], value: object, path: str) -> object:
    for member in target:
        if type(value) is str and member.value == value:
            return member
    choices = [str(member.value) for member in target]
    raise DecodeError(f"{value!r:.80} is none of {', '.join(choices)}", path, nearest(str(value), choices))


def _decode_scalar(target: Any, value: object, path: str) -> object:
    if target is float and type(value) is int:
        value = _finite_int(value, path)
    if target is object:
        return value
    if type(value) is not target:
        raise DecodeError(f"expected {SCALARS.get(target, target.__name__)}, found {_name(value)}", path)
    if isinstance(value, float) and not math.isfinite(value):
        raise DecodeError(f"{value} is not a finite number", path)
    return value


def _finite_int(value: int, path: str) -> float:
    try:
        return float(value)
    except OverflowError:
        raise DecodeError("the number is out of range", path) from None


def _no_table(value: object, path: str) -> DecodeError:
    return DecodeError(f"expected a table, found {_name(value)}", path)


def _name(value: object) -> str:
    """What somebody wrote, in the words of TOML and JSON."""
    if value is None or isinstance(value, bool):
        return "nothing (null)" if value is None else f"{value}".lower()
    kinds = {
        str: "text",
        list: "the list",
        tuple: "the list",
        dict: "the table",
        int: "the number",
        float: "the number",
    }
    return f"{kinds.get(type(value), type(value).__name__)} {value!r:.60}"


def _join(path: str, key: str) -> str:
    return f"{path}.{key}" if path else str(key)


def _no_constant(constant: str) -> object:
    raise DecodeError(f"{constant} is not a number that JSON has")


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    table = dict(pairs)
    if len(table) != len(pairs):
        keys: set[str] = set()
        for key, _ in pairs:
            if key in keys:
                raise DecodeError("duplicate key", key)
            keys.add(key)
    return table


_PARSER = json.JSONDecoder(parse_constant=_no_constant, object_pairs_hook=_unique)


def _limit_depth(value: object) -> None:
    """Raises DecodeError if something in the value is too deep."""
    level: Sequence[Iterable[object]] = [(value,)]
    for _ in range(MAX_DEPTH + 1):
        if NESTED.isdisjoint(map(type, chain.from_iterable(level))):
            return
        level = list(chain.from_iterable(map(_children, level)))
    raise DecodeError(f"nested deeper than {MAX_DEPTH} levels")


def _children(items: Any) -> Sequence[Iterable[object]]:
    """The contents of the tables and lists among the items. A column of numbers has none; a column of lists is returned as it is."""
    kinds = set(map(type, items))
    if kinds == {list}:
        return items  # type: ignore[no-any-return]
    if NESTED.isdisjoint(kinds):
        return ()
    return [item.values() if type(item) is dict else item for item in items if type(item) in NESTED]
