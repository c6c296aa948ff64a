"""Decodes a whole list at once, by a few fast passes, if all of it clearly fits its type. Pure.

A report of a fleet holds a million values. What `taken` returns equals the result of the element-wise reader of
`checks.documents.decode` for the same list. In any doubt it returns None, and that reader reads the list, and says what is wrong and
where.
"""

from __future__ import annotations

import dataclasses
import math
import re
import types
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from itertools import chain, compress, islice
from operator import itemgetter, not_
from typing import Annotated, Any, Union, get_args, get_origin

from checks.value_types import Range, Text, required, shape

NONE = type(None)
Reader = Callable[[Sequence[Any]], "tuple[Any, ...] | None"]


def taken(kind: Any, items: Sequence[Any]) -> tuple[Any, ...] | None:
    """All items as `kind`, or None if the element-wise reader has to read them."""
    if not items:
        return ()
    readers = _readers(kind)
    found = set(map(type, items))
    if readers is None or not found <= readers.keys():
        return None
    if len(found) == 1:
        return readers[found.pop()](items)
    return _mixed(readers, items, found)


def _mixed(readers: Mapping[type, Reader], items: Sequence[Any], found: set[type]) -> tuple[Any, ...] | None:
    """Items of several JSON types: the items of each type are read together and put back into their places."""
    made: dict[type, Any] = {}
    for kind in found:
        part = readers[kind]([item for item in items if type(item) is kind])
        if part is None:
            return None
        made[kind] = iter(part)
    return tuple([next(made[type(item)]) for item in items])


# By identity: Union[int, float] and Union[float, int] are equal keys, but read 1 differently.
_READERS: dict[int, tuple[Any, dict[type, Reader] | None]] = {}


def _readers(kind: Any) -> dict[type, Reader] | None:
    if id(kind) not in _READERS:
        _READERS[id(kind)] = (kind, _compiled(kind))
    return _READERS[id(kind)][1]


def _compiled(kind: Any) -> dict[type, Reader] | None:
    """JSON type -> reader; None for a type that only the element-wise reader can read."""
    if kind is NONE:
        return {NONE: tuple}
    origin, args = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return _union(args)
    if origin is Annotated:
        return _bounded(args[0], args[1:])
    if origin is tuple:
        return {list: lambda items: _lists(args[0], items), tuple: lambda items: _lists(args[0], items)}
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return {dict: lambda items: _tables(args[1], items)}
    if dataclasses.is_dataclass(kind):
        return {dict: lambda items: _records(kind, items)}
    if isinstance(kind, type) and issubclass(kind, Enum):
        return _enum(kind)
    if kind in (str, bool):
        return {kind: tuple}
    if kind is int:
        return {int: tuple}
    if kind is float:
        return {float: _finite, int: _widened}
    return None


def _union(kinds: Sequence[Any]) -> dict[type, Reader] | None:
    """The first alternative that accepts a JSON type reads it; two kinds of list are tried in turn."""
    readers: dict[type, Reader] = {}
    for kind in kinds:
        more = _readers(kind)
        if more is None:
            return None
        for json, reader in more.items():
            first = readers.get(json)
            if first is None:
                readers[json] = reader
            elif json in (list, tuple):
                readers[json] = _either(first, reader)
            elif (
                json is not int
            ):  # a whole number that the first one refuses is left to the element-wise reader
                return None
    return readers


def _either(first: Reader, second: Reader) -> Reader:
    """Two kinds of list. If both occur, the second reads the lists of which the first accepts none."""

    def read(items: Sequence[Any]) -> tuple[Any, ...] | None:
        made = first(items)
        if made is None:
            made = second(items)
        if made is not None:
            return made
        texts = [bool(item) and type(item[0]) is str for item in items]
        apart = list(compress(items, texts))
        ours = first(list(compress(items, map(not_, texts))))
        theirs = second(apart) if all(first([item]) is None for item in apart) else None
        if ours is None or theirs is None:
            return None
        rest, other = iter(ours), iter(theirs)
        return tuple([next(other) if text else next(rest) for text in texts])

    return read


def _bounded(kind: Any, limits: Sequence[Any]) -> dict[type, Reader] | None:
    inner = _readers(kind)
    if inner is None or len(limits) != 1:
        return None
    limit = limits[0]
    if isinstance(limit, Range) and kind in (int, float):
        return {json: _between(reader, limit) for json, reader in inner.items()}
    if isinstance(limit, Text) and kind is str:
        return {str: _formed(limit)}
    return None


def _between(reader: Reader, limit: Range) -> Reader:
    def read(items: Sequence[Any]) -> tuple[Any, ...] | None:
        made = reader(items)
        fits = made is not None and (not made or (limit.least <= min(made) and max(made) <= limit.most))
        return made if fits else None

    return read


def _formed(limit: Text) -> Reader:
    matches = re.compile(limit.pattern).fullmatch

    def read(items: Sequence[Any]) -> tuple[Any, ...] | None:
        fits = max(map(len, items), default=0) <= limit.most and all(map(matches, items))
        return tuple(items) if fits else None

    return read


def _enum(kind: type[Enum]) -> dict[type, Reader]:
    members = {member.value: member for member in kind}

    def read(items: Sequence[Any]) -> tuple[Any, ...] | None:
        try:
            return tuple(map(members.__getitem__, items))
        except KeyError:
            return None

    return {str: read}


def _finite(items: Sequence[Any]) -> tuple[Any, ...] | None:
    # A single infinite value or NaN makes the sum infinite or NaN. A sum of large values may be infinite, too: that only costs time.
    return tuple(items) if math.isfinite(sum(items)) else None


def _widened(items: Sequence[Any]) -> tuple[Any, ...] | None:
    try:
        return tuple(map(float, items))
    except OverflowError:
        return None


def _lists(kind: Any, items: Sequence[Any]) -> tuple[Any, ...] | None:
    flat = list(chain.from_iterable(items))
    made = taken(kind, flat)
    if made is None:
        return None
    rest, lengths = iter(made), set(map(len, items))
    if len(lengths) == 1 and 0 not in lengths:
        return tuple(zip(*[rest] * lengths.pop(), strict=True))
    return tuple([tuple(islice(rest, len(item))) for item in items])


def _tables(kind: Any, items: Sequence[Any]) -> tuple[Any, ...] | None:
    made = taken(kind, list(chain.from_iterable(item.values() for item in items)))
    if made is None:
        return None
    rest = iter(made)
    return tuple([dict(zip(item, rest, strict=False)) for item in items])


def _records(kind: Any, items: Sequence[Any]) -> tuple[Any, ...] | None:
    """Tables that all have the same keys, read by columns."""
    hints, fields = shape(kind)
    keys = items[0].keys()
    if not keys <= hints.keys() or any(item.keys() != keys for item in items):
        return None
    if any(required(f) and f.name not in keys for f in fields) or not all(f.init for f in fields):
        return None
    columns = []
    for f in fields:
        if f.name in keys:
            column = taken(hints[f.name], list(map(itemgetter(f.name), items)))
            if column is None:
                return None
            columns.append((f.name, column))
    names = [name for name, _ in columns]
    if len(columns) == len(fields):
        return tuple(map(kind, *(column for _, column in columns)))
    rows = zip(*(column for _, column in columns), strict=True)
    return tuple([kind(**dict(zip(names, row, strict=True))) for row in rows])
