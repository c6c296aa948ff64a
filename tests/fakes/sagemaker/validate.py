"""Requests against botocore's own shapes (sagemaker 2017-07-24), in the words that SageMaker's front end uses.

The words are AWS's ("3 validation errors detected: Value ... failed to satisfy constraint: Member must ..."). Stricter than AWS
in one place: a member that the model does not have is refused, where AWS drops it silently.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Any

KINDS = {"string": str, "list": list, "map": dict, "structure": dict, "boolean": bool}


@cache
def service() -> Any:
    """botocore's model of SageMaker."""
    from botocore.loaders import Loader
    from botocore.model import ServiceModel

    return ServiceModel(Loader().load_service_model("sagemaker", "service-2"))


def problems(operation: str, request: Any) -> str:
    """What is wrong with the request, as a ValidationException says it; "" where nothing is."""
    found = list(_problems(service().operation_model(operation).input_shape, request, ""))
    if not found:
        return ""
    plural = "s" if len(found) > 1 else ""
    return f"{len(found)} validation error{plural} detected: {'; '.join(found)}"


def _problems(shape: Any, value: Any, path: str) -> Iterator[str]:
    kind = shape.type_name
    if not _is_of(kind, value):
        yield _fails(path, value, f"Member must be a {kind}")
    elif kind == "structure":
        yield from _structure(shape, value, path)
    elif kind == "list":
        yield from _length(shape, value, path)
        for index, item in enumerate(value):
            yield from _problems(shape.member, item, f"{path}.{index + 1}.member")
    elif kind == "map":
        yield from _length(shape, value, path)
        for key, item in value.items():
            yield from _problems(shape.key, key, path)
            yield from _problems(shape.value, item, f"{path}.{key}.member")
    elif kind == "string":
        yield from _text(shape, value, path)
    elif kind in ("integer", "long"):
        yield from _range(shape, value, path, "value")


def _structure(shape: Any, value: dict[str, Any], path: str) -> Iterator[str]:
    for name in value:
        if name not in shape.members:
            yield f"Unknown member '{_join(path, name)}'"
    for name, member in shape.members.items():
        if value.get(name) is not None:
            yield from _problems(member, value[name], _join(path, name))
        elif name in shape.required_members:
            yield _fails(_join(path, name), None, "Member must not be null")


def _text(shape: Any, value: str, path: str) -> Iterator[str]:
    yield from _length(shape, value, path)
    if shape.enum and value not in shape.enum:
        yield _fails(path, value, f"Member must satisfy enum value set: [{', '.join(shape.enum)}]")
    pattern = shape.metadata.get("pattern")
    if pattern and not _compiled(pattern).fullmatch(value):
        yield _fails(path, value, f"Member must satisfy regular expression pattern: {pattern}")


def _length(shape: Any, value: Any, path: str) -> Iterator[str]:
    for problem in _bounds(shape, len(value), "length"):
        yield _fails(path, value, problem)


def _range(shape: Any, value: int, path: str, word: str) -> Iterator[str]:
    for problem in _bounds(shape, value, word):
        yield _fails(path, value, problem)


def _bounds(shape: Any, number: int, word: str) -> Iterator[str]:
    least, most = shape.metadata.get("min"), shape.metadata.get("max")
    if least is not None and number < least:
        yield f"Member must have {word} greater than or equal to {least}"
    if most is not None and number > most:
        yield f"Member must have {word} less than or equal to {most}"


def _is_of(kind: str, value: object) -> bool:
    if kind in ("integer", "long"):
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, KINDS.get(kind, object))


def _fails(path: str, value: object, constraint: str) -> str:
    said = "null" if value is None else f"'{value}'"
    return f"Value {said} at '{path}' failed to satisfy constraint: {constraint}"


def _join(path: str, name: str) -> str:
    """Member names in the messages begin with a small letter."""
    return f"{path}.{name[0].lower()}{name[1:]}".lstrip(".")


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    """Java's classes in Python's words. `.` is any character in both, but for the end of a line."""
    for java, python in (
        (r"\p{Alnum}", "a-zA-Z0-9"),
        (r"\p{L}", r"\w"),
        (r"\p{N}", r"\d"),
        (r"\p{Z}", r"\s"),
    ):
        pattern = pattern.replace(java, python)
    return re.compile(pattern)
