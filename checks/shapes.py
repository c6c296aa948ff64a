"""The keys of a dataclass and the types of their values, looked up once a class."""

from __future__ import annotations

import dataclasses
from typing import Any, get_type_hints

_SHAPES: dict[Any, tuple[dict[str, Any], tuple[Any, ...]]] = {}


def shape(kind: Any) -> tuple[dict[str, Any], tuple[Any, ...]]:
    """Key -> type, and the fields in their order."""
    if kind not in _SHAPES:
        _SHAPES[kind] = (get_type_hints(kind, include_extras=True), dataclasses.fields(kind))
    return _SHAPES[kind]


def required(field: Any) -> bool:
    """Whether the key must be there."""
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
