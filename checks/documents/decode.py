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
        needed = frozenset(field.name for field in dataclasses.fields(target) if required(field))
        return partial(_decode_dataclass, target, needed)
    if isinstance(target, type) and issubclass(target, Enum):
        return partial(_decode_enum, {member.value: member for member in target})
    return partial(_decode_scalar, target)


def _decode_annotated(args: Sequence[Any], value: object, path: str) -> object:
    decoded = _decode(args[0], value, path)
    for rule in args[1:]:
        rule.check(decoded, path)
    return decoded


def _decode_dataclass(target: Any, needed: frozenset[str], value: object, path: str) -> object:
    if not isinstance(value, Mapping):
        raise _no_table(value, path)
    table: Mapping[str, object] = value
    hints, _ = shape(target)
    if not table.keys() <= hints.keys():
        if not issubclass(target, Foreign):
            unknown = next(key for key in table if key not in hints)
            raise DecodeError("unknown key", _join(path, unknown), nearest(unknown, tuple(hints)))
        table = {key: item for key, item in table.items() if key in hints}
    if not needed <= table.keys():
        raise DecodeError(
            "missing key", _join(path, next(name for name in hints if name in needed - table.keys()))
        )
    start = f"{path}." if path else ""
    return target(**{key: _decode(hints[key], item, f"{start}{key}") for key, item in table.items()})


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
    readers, item_types = _COLUMNS[id(target)][1], list(map(type, items))
    if not readers.keys() >= set(item_types):
        return None
    return _grouped(item_types, items, lambda item_type, group: readers[item_type](group))


def _grouped(
    keys: Sequence[Any], items: Sequence[Any], read: Callable[[Any, Sequence[Any]], tuple[Any, ...] | None]
) -> tuple[Any, ...] | None:
    """Items of one key are read together; None if a group cannot be read."""
    if len(kinds := set(keys)) == 1:
        return read(kinds.pop(), items)
    rest: dict[Any, Iterator[Any]] = {}
    for key in kinds:
        decoded = read(key, [item for own, item in zip(keys, items, strict=True) if own == key])
        if decoded is None:
            return None
        rest[key] = iter(decoded)
    return tuple([next(rest[key]) for key in keys])


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
    elif origin is Annotated and args[0] is str:
        yield str, partial(_texts, args[1:])
    elif dataclasses.is_dataclass(target):
        yield dict, partial(_tables, target)
    elif isinstance(origin, type) and issubclass(origin, Mapping):
        yield dict, partial(_mappings, args[1])
    elif origin is tuple:
        yield list, partial(_lists, args[0])
    elif isinstance(target, type) and issubclass(target, Enum):
        yield str, partial(_members, {member.value: member for member in target})
    elif target is float:
        yield float, partial(_numbers, None)
    elif target in (str, bool, int, type(None)):
        yield target, tuple


def _first_fitting(readers: Sequence[Column], items: Sequence[Any]) -> tuple[Any, ...] | None:
    """What the first reader that accepts them makes of all items. Lists of texts and lists of numbers are read apart."""
    decoded = next((decoded for reader in readers if (decoded := reader(items)) is not None), None)
    if decoded is not None or type(items[0]) is not list:
        return decoded
    keys = [frozenset(map(type, item)) for item in items]
    return (
        _grouped(keys, items, lambda _, group: _first_fitting(readers, group)) if len(set(keys)) > 1 else None
    )


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


def _texts(rules: Sequence[Any], items: Sequence[Any]) -> tuple[Any, ...] | None:
    try:
        for text in set(items):
            for rule in rules:
                rule.check(text, "")
    except DecodeError:
        return None
    return tuple(items)


def _tables(target: Any, items: Sequence[Any]) -> tuple[Any, ...] | None:
    """Dataclasses, a field at a time."""
    hints, fields = shape(target)
    needed = {field.name for field in fields if required(field)}

    def read(keys: Sequence[str], group: Sequence[Any]) -> tuple[Any, ...] | None:
        if not needed <= set(keys) <= hints.keys():
            return None
        columns = [column(hints[key], [item[key] for item in group]) for key in keys]
        if not keys or any(values is None for values in columns):
            return None
        return tuple(
            [target(**dict(zip(keys, values, strict=True))) for values in zip(*columns, strict=True)]
        )

    try:
        return _grouped(list(map(tuple, items)), items, read)
    except DecodeError:  # of the dataclass itself
        return None


def _mappings(target: Any, items: Sequence[Any]) -> tuple[Any, ...] | None:
    decoded = column(target, list(chain.from_iterable(item.values() for item in items)))
    if decoded is None:
        return None
    values = iter(decoded)
    return tuple([{key: next(values) for key in item} for item in items])


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


def _decode_enum(members: Mapping[object, Enum], value: object, path: str) -> object:
    if type(value) is str and value in members:
        return members[value]
    choices = list(map(str, members))
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
