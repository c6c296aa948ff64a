"""Whether CreateTrainingJob would take a request, by botocore's own model of it, before anything is sent.

The model comes with botocore and is read from disk on first use (120 ms, measured); no credentials, no network.
botocore's own validation knows names, types and the least lengths; patterns, enumerations and the greatest lengths are in
its model too, and are refused by AWS alone.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from checks.decode import nearest
from tasks.launchers.sagemaker.limits import beyond

SHOWN = 60
# By the name of the shape: limits that some version of botocore may lack. Source: CreateTrainingJob, API reference.
KNOWN: Mapping[str, Mapping[str, object]] = {
    "TrainingJobName": {"min": 1, "max": 63, "pattern": "[a-zA-Z0-9](-*[a-zA-Z0-9]){0,62}"},
    "TrainingEnvironmentMap": {"max": 100},
    "TrainingEnvironmentKey": {"max": 512, "pattern": "[a-zA-Z_][a-zA-Z0-9_]*"},
    "TrainingEnvironmentValue": {"max": 512},
    "TrainingContainerEntrypoint": {"min": 1, "max": 100},
    "TrainingContainerEntrypointString": {"max": 256},
    "TrainingContainerArguments": {"min": 1, "max": 100},
    "TrainingContainerArgument": {"max": 256},
    "HyperParameters": {"max": 100},
    "HyperParameterKey": {"max": 256},
    "HyperParameterValue": {"max": 2500},
}
# What the caller put in may be a secret: it is counted, never shown.
PRIVATE = ("TrainingEnvironmentValue", "HyperParameterValue")
# The model's patterns are Java's.
JAVA = {r"\p{Alnum}": "A-Za-z0-9", r"\p{L}": r"\w", r"\p{N}": r"\d", r"\p{Z}": "\\s"}


def objections(body: Mapping[str, object]) -> list[str]:
    """What AWS would refuse about the request, each with path, value and limit; [] where nothing is known."""
    shape = request_shape()
    return [*_look(shape, body, ""), *beyond(body)]


@functools.cache
def request_shape() -> Any:
    """botocore's model of the request."""
    from botocore.loaders import Loader
    from botocore.model import ServiceModel

    model = Loader().load_service_model("sagemaker", "service-2")
    return ServiceModel(model, "sagemaker").operation_model("CreateTrainingJob").input_shape


@functools.cache
def version() -> str:
    """Which botocore's model it is."""
    import botocore

    return str(botocore.__version__)


def translated(pattern: str) -> re.Pattern[str]:
    """A pattern of the model, as Python knows it."""
    for theirs, ours in JAVA.items():
        pattern = pattern.replace(theirs, ours)
    return re.compile(pattern)


def _look(shape: Any, value: object, path: str) -> Iterator[str]:
    kind = str(shape.type_name)
    fits, called = KINDS[kind]
    if not fits(value):
        yield f"{path or 'the request'}: {_shown(shape, value)} is not {called} {_by(shape)}"
        return
    limits = {**KNOWN.get(shape.name, {}), **shape.metadata}
    yield from _size(shape, value, path, limits)
    match kind:
        case "structure":
            yield from _members(shape, value, path)
        case "list":
            for index, item in enumerate(value):  # type: ignore[arg-type, var-annotated]
                yield from _look(shape.member, item, f"{path}[{index}]")
        case "map":
            for key, item in value.items():  # type: ignore[attr-defined]
                yield from _look(shape.key, key, f"{path}.{_cut(str(key))}")
                yield from _look(shape.value, item, f"{path}.{_cut(str(key))}")
        case "string":
            yield from _text(shape, str(value), path, limits)


def _members(shape: Any, value: Any, path: str) -> Iterator[str]:
    for key, item in value.items():
        where = f"{path}.{key}" if path else str(key)
        if key not in shape.members:
            near = nearest(str(key), tuple(shape.members))
            hint = f" Did you mean {near!r}?" if near else ""
            yield f"{_cut(where, 200)}: there is no such key {_by(shape)}.{hint}"
        else:
            yield from _look(shape.members[key], item, where)
    for key in shape.required_members:
        if key not in value:
            yield f"{f'{path}.{key}' if path else key}: it is missing {_by(shape)}"


def _size(shape: Any, value: Any, path: str, limits: Mapping[str, Any]) -> Iterator[str]:
    """Numbers by their value, everything else by its length."""
    kind = shape.type_name
    if kind in ("structure", "boolean"):
        return
    size: int = value if kind in ("integer", "long") else len(value)
    unit = {"string": " characters", "list": " items", "map": " entries"}.get(kind, "")
    if size < limits.get("min", size):
        yield f"{path}: {size}{unit}, at least {limits['min']} are taken {_by(shape)}"
    if size > limits.get("max", size):
        yield f"{path}: {size}{unit}, at most {limits['max']} are taken {_by(shape)}"


def _text(shape: Any, value: str, path: str, limits: Mapping[str, Any]) -> Iterator[str]:
    choices = tuple(shape.enum)
    if choices and value not in choices:
        near = nearest(value, choices)
        hint = f" Did you mean {near!r}?" if near else ""
        yield f"{path}: {_cut(value)!r} is none of the {len(choices)} choices {_by(shape)}.{hint}"
    pattern = limits.get("pattern")
    if pattern and translated(str(pattern)).fullmatch(value) is None:
        yield f"{path}: {_shown(shape, value)} is not of the form {pattern} {_by(shape)}"


def _is(*kinds: type) -> Callable[[object], bool]:
    return lambda value: isinstance(value, kinds)


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_number(bits: int) -> Callable[[object], bool]:
    most = 1 << (bits - 1)
    return lambda value: isinstance(value, int) and not isinstance(value, bool) and -most <= value < most


KINDS: Mapping[str, tuple[Callable[[object], bool], str]] = {
    "structure": (_is(Mapping), "a table"),
    "map": (_is(Mapping), "a table"),
    "list": (_is(list, tuple), "a list"),
    "string": (_is_text, "text"),
    "integer": (_is_number(32), "a whole number of 32 bits"),
    "long": (_is_number(64), "a whole number of 64 bits"),
    "boolean": (_is(bool), "true or false"),
}


def _by(shape: Any) -> str:
    return f"(botocore {version()}, {shape.name})"


def _shown(shape: Any, value: object) -> str:
    if shape.name in PRIVATE:
        return f"its value of {len(value)} characters" if isinstance(value, Sequence) else "its value"
    return _cut(repr(value))


def _cut(text: str, most: int = SHOWN) -> str:
    return text if len(text) <= most else text[: most - 3] + "..."
