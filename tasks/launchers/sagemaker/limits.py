"""What AWS' documentation says of a CreateTrainingJob request, and botocore's model does not carry. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from tasks.launchers.sagemaker.tagging import RESERVED

Body = Mapping[str, object]
MAX_RUNTIME_S = 28 * 86400
# Families with NVMe storage of their own, of those that train: EC2 DescribeInstanceTypes, InstanceStorageSupported, as
# getmoto/moto 5.2.5 records it.
LOCAL_STORAGE = (
    "g4dn", "g5", "g6", "g6e", "g7", "g7e", "p3dn", "p4d", "p4de", "p5", "p5e", "p5en", "p6-b200", "p6-b300", "r5d",
    "trn1", "trn1n", "trn2",
)  # fmt: skip


def beyond(body: Body) -> list[str]:
    """What is refused although every value by itself is right."""
    return [said for rule in RULES for said in rule(body)]


def at(body: Body, path: str) -> object:
    """The value at a dotted path, None where there is none."""
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
