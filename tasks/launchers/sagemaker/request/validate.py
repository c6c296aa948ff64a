"""Whether CreateTrainingJob would accept a request, by botocore's own model of it, before anything is sent.

The model comes with botocore and is read from disk on first use (120 ms, measured); no credentials, no network.
botocore's own validation knows names, types and the least lengths; patterns, enumerations and the greatest lengths are in
its model too, but only AWS enforces them. Rules that AWS documents and that are not in the model are added here.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from checks.documents.decode import nearest
from tasks.launchers.sagemaker.request.tags import RESERVED

Body = Mapping[str, object]
MAX_RUNTIME_S = 28 * 86400
# Families with NVMe storage of their own, of those that train: EC2 DescribeInstanceTypes, InstanceStorageSupported, as
# getmoto/moto 5.2.5 records it.
LOCAL_STORAGE = (
    "g4dn", "g5", "g6", "g6e", "g7", "g7e", "p3dn", "p4d", "p4de", "p5", "p5e", "p5en", "p6-b200", "p6-b300", "r5d",
    "trn1", "trn1n", "trn2",
)  # fmt: skip
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


def beyond(body: Body) -> list[str]:
    """What is refused although every value by itself is right."""
    return [said for rule in RULES for said in rule(body)]


def at(body: Body, path: str) -> object:
    """The value at a dotted path, None if there is none."""
    value: object = body
    for key in path.split("."):
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def _image(body: Body) -> Iterator[str]:
    """AlgorithmSpecification, API reference: either an image or an algorithm of the Marketplace."""
    said = [key for key in ("TrainingImage", "AlgorithmName") if at(body, f"AlgorithmSpecification.{key}")]
    if len(said) != 1:
        yield "AlgorithmSpecification: say either TrainingImage or AlgorithmName (AlgorithmSpecification, API reference)"


def _times(body: Body) -> Iterator[str]:
    """StoppingCondition, API reference: 28 days; a wait is at least as long as the run, and for Spot alone."""
    run = at(body, "StoppingCondition.MaxRuntimeInSeconds")
    wait = at(body, "StoppingCondition.MaxWaitTimeInSeconds")
    spot = at(body, "EnableManagedSpotTraining") is True
    source = "(StoppingCondition, API reference)"
    if _number(run) > MAX_RUNTIME_S:
        yield f"StoppingCondition.MaxRuntimeInSeconds: {run} is more than 28 days, {MAX_RUNTIME_S} {source}"
    if wait is not None and not spot:
        yield f"StoppingCondition.MaxWaitTimeInSeconds: it is for Spot alone {source}"
    if spot and _number(wait) < _number(run):
        yield f"StoppingCondition.MaxWaitTimeInSeconds: {wait} is less than MaxRuntimeInSeconds, {run} {source}"


def _machines(body: Body) -> Iterator[str]:
    """ResourceConfig, InstancePreference and PlacementSpecification, API reference."""
    said = at(body, "ResourceConfig")
    resources = said if isinstance(said, Mapping) else {}
    ways = [key for key in ("InstanceType", "InstanceGroups", "InstancePreferences") if resources.get(key)]
    if len(ways) != 1:
        yield (
            "ResourceConfig: say exactly one of InstanceType, InstanceGroups and InstancePreferences "
            "(ResourceConfig, API reference)"
        )
    if "InstanceType" in ways and _number(resources.get("InstanceCount")) < 1:
        yield "ResourceConfig.InstanceCount: at least 1 (ResourceConfig, API reference)"
    for key in ("SelectedInstanceType", "SelectedInstanceCount"):
        if key in resources:
            yield f"ResourceConfig.{key}: it is only ever answered (ResourceConfig, API reference)"
    placed = at(body, "ResourceConfig.InstancePlacementConfig.PlacementSpecifications")
    for index, one in enumerate(placed if isinstance(placed, list | tuple) else ()):
        if isinstance(one, Mapping) and _number(one.get("InstanceCount")) < 1:
            yield (
                f"ResourceConfig.InstancePlacementConfig.PlacementSpecifications[{index}].InstanceCount: at least 1 "
                "(PlacementSpecification, API reference)"
            )


def _pool(body: Body) -> Iterator[str]:
    """ "Considerations" of "Train using SageMaker-managed warm pools": no Spot, no heterogeneous cluster."""
    if _number(at(body, "ResourceConfig.KeepAlivePeriodInSeconds")) < 1:
        return
    source = "(Train using SageMaker-managed warm pools)"
    if at(body, "EnableManagedSpotTraining") is True:
        yield f"ResourceConfig.KeepAlivePeriodInSeconds: Spot machines are not kept in a warm pool {source}"
    if at(body, "ResourceConfig.InstanceGroups"):
        yield f"ResourceConfig.KeepAlivePeriodInSeconds: a heterogeneous cluster is not kept in a warm pool {source}"


def _disks(body: Body) -> Iterator[str]:
    """VolumeKmsKeyId of ResourceConfig, API reference: a machine's own storage is encrypted by hardware, with no key of yours."""
    kind = str(at(body, "ResourceConfig.InstanceType"))
    if (
        at(body, "ResourceConfig.VolumeKmsKeyId")
        and kind.split(".")[1:2]
        and kind.split(".")[1] in LOCAL_STORAGE
    ):
        yield (
            f"ResourceConfig.VolumeKmsKeyId: {kind} has storage of its own, which its hardware encrypts: leave the key out "
            "(ResourceConfig, API reference)"
        )


def _labels(body: Body) -> Iterator[str]:
    """ "Tag naming limits and requirements", AWS General Reference; channels of one name: Channel, API reference."""
    for path, word in (("Tags", "Key"), ("InputDataConfig", "ChannelName")):
        listed = at(body, path)
        rows = [row for row in listed if isinstance(row, Mapping)] if isinstance(listed, list | tuple) else []
        names = [str(row.get(word)) for row in rows]
        for name in sorted({name for name in names if names.count(name) > 1}):
            yield f"{path}: {word} {name!r:.60} is there twice"
        for name in names:
            if word == "Key" and name.lower().startswith(RESERVED):
                yield f"{path}: AWS keeps keys that begin with {RESERVED}, as {name!r:.60} does"


def _number(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


RULES: tuple[Callable[[Body], Iterator[str]], ...] = (_image, _times, _machines, _pool, _disks, _labels)


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
