"""Whether CreateTrainingJob would accept a request, before anything is sent: no credentials, no network.

botocore's own validator knows names, types and the least lengths. Patterns, enumerations and the greatest lengths are in its
model too, and are read from there. What else AWS refuses, it says when the job is created.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping
from typing import Any

Body = Mapping[str, object]
# What the caller put in may be a secret: it is counted, never shown.
PRIVATE = ("TrainingEnvironmentValue", "HyperParameterValue")
# The model's patterns are Java's.
JAVA = {r"\p{Alnum}": "A-Za-z0-9", r"\p{L}": r"\w", r"\p{N}": r"\d", r"\p{Z}": "\\s"}
LINE_CHARACTERS, VALUE_CHARACTERS = 250, 60


def objections(body: Body) -> list[str]:
    """What AWS would refuse about the request, each with path, value and limit; [] where nothing is known."""
    from botocore.validate import ParamValidator

    shape = request_shape()
    problems = [*_private_values(body)]
    if not problems:
        problems = ParamValidator().validate(body, shape).generate_report().splitlines()
    # Only a request of the right form can be examined further.
    problems = problems or [*_beyond_limits(shape, body, "")]
    return [_short(line, LINE_CHARACTERS) for line in problems]


@functools.cache
def request_shape() -> Any:
    """botocore's model of the request, which is read from disk on first use (120 ms, measured)."""
    from botocore.loaders import Loader
    from botocore.model import ServiceModel

    model = Loader().load_service_model("sagemaker", "service-2")
    return ServiceModel(model, "sagemaker").operation_model("CreateTrainingJob").input_shape


def at(body: Body, path: str) -> object:
    """The value at a dotted path, None if there is none."""
    value: object = body
    for key in path.split("."):
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def translated(pattern: str) -> re.Pattern[str]:
    """A pattern of the model, as Python knows it."""
    for theirs, ours in JAVA.items():
        pattern = pattern.replace(theirs, ours)
    return re.compile(pattern)


def _private_values(body: Body) -> Iterator[str]:
    """botocore would show a value that is no text."""
    for path in ("Environment", "HyperParameters"):
        values = body.get(path)
        for key, value in values.items() if isinstance(values, Mapping) else ():
            if not isinstance(value, str):
                yield f"{path}.{key}: its value is not text"


def _beyond_limits(shape: Any, value: Any, path: str) -> Iterator[str]:
    match shape.type_name:
        case "structure":
            for key, item in value.items():
                yield from _beyond_limits(shape.members[key], item, f"{path}.{key}".lstrip("."))
            return
        case "list":
            for index, item in enumerate(value):
                yield from _beyond_limits(shape.member, item, f"{path}[{index}]")
        case "map":
            for key, item in value.items():
                yield from _beyond_limits(shape.key, key, f"{path}.{_short(key)}")
                yield from _beyond_limits(shape.value, item, f"{path}.{_short(key)}")
        case "string":
            yield from _text(shape, value, path)
        case "integer" if isinstance(value, bool) or not -(1 << 31) <= value < 1 << 31:
            yield f"{path}: {value} is not a whole number of 32 bits ({shape.name})"
    size = len(value) if hasattr(value, "__len__") else value
    if size > shape.metadata.get("max", size):
        yield f"{path}: {size}, at most {shape.metadata['max']} are taken ({shape.name})"


def _text(shape: Any, value: str, path: str) -> Iterator[str]:
    if shape.enum and value not in shape.enum:
        yield f"{path}: {_short(value)!r} is none of the {len(shape.enum)} choices ({shape.name})"
    pattern = str(shape.metadata.get("pattern", ""))
    if pattern and translated(pattern).fullmatch(value) is None:
        text = f"its value of {len(value)} characters" if shape.name in PRIVATE else repr(_short(value))
        yield f"{path}: {text} is not of the form {pattern} ({shape.name})"


def _short(text: str, most: int = VALUE_CHARACTERS) -> str:
    return text if len(text) <= most else text[: most - 3] + "..."
