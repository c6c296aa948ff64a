"""How a value of a TOML file is written where another form of it was found: `exclude = "n1"` for `exclude = ["n1"]` (pure)."""

from __future__ import annotations

import dataclasses
import json
import re
import shlex
import types
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from checks.value_types import DecodeError, required, shape

MOST_LETTERS = 80
_MISSING = object()
_SCALARS: Mapping[object, object] = {str: "text", int: 1, float: 1.5, bool: True}


def form_of(path: str, kind: Any, found: object = _MISSING, key: str = "") -> str:
    """A sentence that shows the right form of the key at the dotted path, with the operator's own value where it fits, or an
    example; "" for a kind that has none. Pass no `found` where it may be a secret, and `key` where it has dots of its own.
    """
    kind = _plain(kind)
    if _is_table(kind) or _mapping(kind) is not None:
        return _table_form(path, kind, found)
    key, written = key or path.rpartition(".")[2], _literal(kind, found)
    verb = "Write for example" if kind in _SCALARS and _converted(kind, found) is None else "Write"
    if key.isdigit() or key.endswith("]"):  # an element of a list has no line of its own
        return f" {verb} {written}." if written else ""
    return f" {verb} {_key(key)} = {written}." if written else ""


def option_form(path: str, kind: Any, found: object = _MISSING) -> str:
    """The same for a value that `--set` changes: "--set cluster.declared.nodes=1"; "" for a table, of which one key is set."""
    written = _literal(_plain(kind), found)
    if not written:
        return ""
    value = json.loads(written)
    return f"--set {shlex.quote(f'{path}={value if isinstance(value, str) else written}')}"


def reason_of(error: DecodeError) -> str:
    """What is wrong with a value of a TOML file, with the right form, where another one was found; without a full stop at its end."""
    form = "" if error.wanted is None else form_of(error.path, error.wanted, error.found)
    return f"{error.reason}.{form}".rstrip(".")


def kind_at(loc: Sequence[str], model: Any) -> Any:
    """The type of the value at `loc` in a file for `model`, or None."""
    kind = model
    for part in loc:
        kind = _plain(kind)
        inner = _mapping(kind)
        if inner is not None:
            kind = inner
        elif part in getattr(kind, "model_fields", {}):
            kind = kind.model_fields[part].annotation
        elif get_origin(kind) in (tuple, list):
            kind = get_args(kind)[0]
        else:
            return None
    return kind


def _table_form(path: str, kind: Any, found: object) -> str:
    inner = _mapping(kind)
    name = (
        next((one for one in found if isinstance(one, str)), "NAME")
        if isinstance(found, (list, tuple))
        else "NAME"
    )
    name = found if isinstance(found, str) and inner is not None else name
    if inner is None:
        line = _first_line(kind)
    elif _is_table(_plain(inner)):
        path, line = f"{path}.{_key(name)}", _first_line(_plain(inner))
    else:
        line = f"{_key(name)} = {_literal(inner, _MISSING)}"
    header = ".".join(_key(part) for part in _parts(path))
    return f" Write [{header}] on a line of its own and its keys below it, such as {line}." if line else ""


def _parts(path: str) -> Sequence[str]:
    """The keys of a path: the names of checks have dots of their own."""
    head, _, rest = path.partition(".")
    return (head, rest.strip('"')) if head == "checks" and "." in rest else path.split(".")


def _key(name: str) -> str:
    return name if re.fullmatch(r'[A-Za-z0-9_-]+|"[^"]*"', name) else json.dumps(name)


def _first_line(kind: Any) -> str:
    """A key that must be there, otherwise the first one with a plain value."""
    lines = [(must, name, text) for must, name, inner in _fields(kind) if (text := _literal(inner, _MISSING))]
    chosen = next((line for line in lines if line[0]), lines[0] if lines else None)
    return f"{chosen[1]} = {chosen[2]}" if chosen else ""


def _fields(kind: Any) -> Sequence[tuple[bool, str, Any]]:
    if dataclasses.is_dataclass(kind):
        hints, fields = shape(kind)
        return [(required(one), one.name, hints[one.name]) for one in fields]
    return [(one.is_required(), name, one.annotation) for name, one in kind.model_fields.items()]


def _literal(kind: Any, found: object) -> str:
    """The value as TOML: what was found in the other form, otherwise an example; "" for a table."""
    kind = _plain(kind)
    if get_origin(kind) in (tuple, list):
        inner = get_args(kind)[0]
        one = (
            _literal(inner, found)
            if not isinstance(found, (list, tuple, Mapping))
            else _literal(inner, _MISSING)
        )
        return f"[{one}]" if one else ""
    if isinstance(kind, type) and issubclass(kind, Enum):
        values = [member.value for member in kind]
        return json.dumps(found if found in values else values[0])
    if get_origin(kind) is Literal:
        return json.dumps(get_args(kind)[0])
    if kind not in _SCALARS:
        return ""
    own = _converted(kind, found)
    return json.dumps(_SCALARS[kind] if own is None or len(json.dumps(own)) > MOST_LETTERS else own)


def _converted(kind: Any, found: object) -> object | None:
    """The same value as another type, where that is certain."""
    if isinstance(found, (list, tuple)) and len(found) == 1:
        return _converted(kind, found[0])
    if (
        isinstance(found, (list, tuple))
        and kind is str
        and found
        and all(isinstance(one, str) for one in found)
    ):
        return ",".join(found)
    if kind is str and isinstance(found, (str, int, float)) and not isinstance(found, bool):
        return str(found)
    if kind is bool and found in ("true", "false"):
        return found == "true"
    if isinstance(found, bool) or not isinstance(found, (str, int, float)):
        return None
    number = re.fullmatch(r"-?[0-9]{1,15}(\.[0-9]{1,6})?", str(found))
    if kind is int and number and float(number[0]).is_integer():
        return int(float(number[0]))
    return float(number[0]) if kind is float and number else None


def _plain(kind: Any) -> Any:
    """Without what is annotated, and of a union the first kind that is no None."""
    while True:
        if get_origin(kind) is Annotated:
            kind = get_args(kind)[0]
        elif get_origin(kind) in (Union, types.UnionType):
            kind = next(one for one in get_args(kind) if one is not type(None))
        else:
            return kind


def _is_table(kind: Any) -> bool:
    """A dataclass, or a model of pydantic, which is slow to import and is not needed here."""
    return dataclasses.is_dataclass(kind) or hasattr(kind, "model_fields")


def _mapping(kind: Any) -> Any | None:
    """The type of the values of a table whose keys are free; None for everything else."""
    origin = get_origin(kind)
    return get_args(kind)[1] if isinstance(origin, type) and issubclass(origin, Mapping) else None
