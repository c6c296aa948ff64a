"""Whether CreateTrainingJob would accept a request, before anything is sent: no credentials, no network.

botocore's own validator knows names, types and the least lengths. Patterns, enumerations and the greatest lengths are in its
model too, but only AWS enforces them. Rules that AWS documents and that are not in the model are added here.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from checks.documents.decode import nearest

Body = Mapping[str, object]
MAX_RUNTIME_S = 28 * 86400
# Families with NVMe storage of their own, of those that train: EC2 DescribeInstanceTypes, InstanceStorageSupported, as
# getmoto/moto 5.2.5 records it.
LOCAL_STORAGE = (
    "g4dn", "g5", "g6", "g6e", "g7", "g7e", "p3dn", "p4d", "p4de", "p5", "p5e", "p5en", "p6-b200", "p6-b300", "r5d",
    "trn1", "trn1n", "trn2",
)  # fmt: skip
# What the caller put in may be a secret: it is counted, never shown.
PRIVATE = ("TrainingEnvironmentValue", "HyperParameterValue")
# "Tag naming limits and requirements", AWS General Reference: keys that begin with aws: are AWS' own.
RESERVED = "aws:"
# The model's patterns are Java's.
JAVA = {r"\p{Alnum}": "A-Za-z0-9", r"\p{L}": r"\w", r"\p{N}": r"\d", r"\p{Z}": "\\s"}
LINE_CHARACTERS, VALUE_CHARACTERS = 250, 60


def objections(body: Body) -> list[str]:
    """What AWS would refuse about the request, each with path, value and limit; [] where nothing is known."""
    from botocore.validate import ParamValidator

    shape = request_shape()
    found = [*_private_values(body)]
    if not found:
        found = ParamValidator().validate(body, shape).generate_report().splitlines()
    # Only a request of the right form can be examined further.
    found = found or [*_beyond_limits(shape, body, ""), *(line for rule in RULES for line in rule(body))]
    return [_short(line, LINE_CHARACTERS) for line in found]


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
        near = nearest(value, tuple(shape.enum))
        hint = f" Did you mean {near!r}?" if near else ""
        yield f"{path}: {_short(value)!r} is none of the {len(shape.enum)} choices ({shape.name}).{hint}"
    pattern = str(shape.metadata.get("pattern", ""))
    if pattern and translated(pattern).fullmatch(value) is None:
        shown = f"its value of {len(value)} characters" if shape.name in PRIVATE else repr(_short(value))
        yield f"{path}: {shown} is not of the form {pattern} ({shape.name})"


def _short(text: str, most: int = VALUE_CHARACTERS) -> str:
    return text if len(text) <= most else text[: most - 3] + "..."


def _times(body: Body) -> Iterator[str]:
    """StoppingCondition, API reference: 28 days; a wait is for Spot alone."""
    run, source = at(body, "StoppingCondition.MaxRuntimeInSeconds"), "(StoppingCondition, API reference)"
    if isinstance(run, int) and run > MAX_RUNTIME_S:
        yield f"StoppingCondition.MaxRuntimeInSeconds: {run} is more than 28 days, {MAX_RUNTIME_S} {source}"
    if at(body, "StoppingCondition.MaxWaitTimeInSeconds") is not None and not at(
        body, "EnableManagedSpotTraining"
    ):
        yield f"StoppingCondition.MaxWaitTimeInSeconds: it is for Spot alone {source}"


def _disks(body: Body) -> Iterator[str]:
    """VolumeKmsKeyId of ResourceConfig, API reference: a machine's own storage is encrypted by hardware, with no key of yours."""
    kind = str(at(body, "ResourceConfig.InstanceType"))
    if at(body, "ResourceConfig.VolumeKmsKeyId") and kind.split(".")[1] in LOCAL_STORAGE:
        yield (
            f"ResourceConfig.VolumeKmsKeyId: {kind} has storage of its own, which its hardware encrypts: leave the key out "
            "(ResourceConfig, API reference)"
        )


def _labels(body: Body) -> Iterator[str]:
    """ "Tag naming limits and requirements", AWS General Reference; channels of one name: Channel, API reference."""
    for path, word in (("Tags", "Key"), ("InputDataConfig", "ChannelName")):
        rows: Any = body.get(path, ())
        names = [row[word] for row in rows]
        for name in sorted({name for name in names if names.count(name) > 1}):
            yield f"{path}: {word} {name!r:.60} is there twice. Leave one out"
        for name in names:
            if word == "Key" and name.lower().startswith(RESERVED):
                yield f"{path}: AWS keeps keys that begin with {RESERVED}, as {name!r:.60} does"


RULES: tuple[Callable[[Body], Iterator[str]], ...] = (_times, _disks, _labels)
