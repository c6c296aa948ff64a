"""What the requests of a gate need from an AWS account, read from the requests themselves. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from checks.facts.builtin import builtin
from tasks.launchers.base import Plan
from tasks.launchers.sagemaker.options import PlacementOption, SageMakerOptions
from tasks.launchers.sagemaker.request import image as images
from tasks.launchers.sagemaker.request.image import Checked
from tasks.launchers.sagemaker.request.locations import bucket_of, key_of

T = TypeVar("T")
DEFAULT_RUN_S = 86_400  # StoppingCondition, API reference: one day where the request says nothing
ROLE = re.compile(
    r"arn:(?P<partition>aws[a-z-]*):iam::(?P<account>\d{12}):role/(?P<path>.*/)?(?P<name>[^/]+)"
)


@dataclass(frozen=True)
class Network:
    """A VpcConfig, and how many machines it must hold."""

    groups: tuple[str, ...]
    subnets: tuple[str, ...]
    nodes: int


@dataclass(frozen=True)
class Role:
    """An execution role, read from its ARN."""

    arn: str
    account: str
    name: str


@dataclass(frozen=True)
class Fleet:
    """Machines of one type. `spot` and `pooled` are of the whole gate: they have quotas of their own."""

    kind: str
    nodes: int
    spot: bool
    pooled: bool


@dataclass(frozen=True)
class Requirements:
    """All that is asked; empty where nothing of the kind is. `bodies` are the requests, in their order; `checked` are the images
    in which checks run.

    `efa` says that machines of a type with EFA devices (facts) are to talk to each other; `nodes` is the most machines of
    one job, and `run_s` the longest time that one may run.
    """

    region: str
    root: str
    jobs: tuple[str, ...]
    roles: tuple[Role, ...]
    images: tuple[str, ...]
    checked: tuple[Checked, ...]
    fleets: tuple[Fleet, ...]
    networks: tuple[Network, ...]
    keys: tuple[str, ...]
    plan: str
    pooled: bool
    keep_alive_s: int
    isolated: bool
    efa: bool
    nodes: int
    run_s: int
    check_s: float
    start_s: float
    bodies: tuple[Mapping[str, Any], ...]

    @property
    def bucket(self) -> str:
        """The bucket of everything that the gate writes."""
        return bucket_of(self.root)

    @property
    def prefix(self) -> str:
        """The key below which it writes, "" for the bucket itself."""
        return key_of(self.root)


def requirements_of(plans: tuple[Plan, ...], options: SageMakerOptions) -> Requirements:
    """The requirements of all plans together."""
    bodies: tuple[Mapping[str, Any], ...] = tuple(call.body for plan in plans for call in plan.calls)
    resources = [body.get("ResourceConfig", {}) for body in bodies]
    sizes = [size for one in resources for size in _sizes(one)]
    nodes = max((sum(count for _, count in _sizes(one)) for one in resources), default=0)
    pooled = options.placement == PlacementOption.POOLED
    return Requirements(
        region=options.region,
        root=options.prefix.rstrip("/"),
        jobs=_each(body["TrainingJobName"] for body in bodies),
        roles=_each(_role(body["RoleArn"]) for body in bodies),
        images=_each(image for body in bodies if (image := images.image_of(body))),
        checked=images.together(
            one
            for plan in plans
            for call in plan.calls
            for one in images.checked_in(plan.job, images.image_of(call.body))
        ),
        fleets=_fleets(sizes, any(body.get("EnableManagedSpotTraining") for body in bodies), pooled),
        networks=_each(_networks(bodies)),
        keys=_each(key for body in bodies for key in _keys(body)),
        plan=next((one["TrainingPlanArn"] for one in resources if one.get("TrainingPlanArn")), ""),
        pooled=pooled,
        keep_alive_s=max((one.get("KeepAlivePeriodInSeconds", 0) for one in resources), default=0),
        isolated=any(body.get("EnableNetworkIsolation") for body in bodies),
        efa=nodes > 1 and any(has_efa(kind) for kind, _ in sizes),
        nodes=nodes,
        run_s=max((_run_s(body) for body in bodies), default=0),
        check_s=plans[0].job.max_runtime_s if plans else 0.0,
        start_s=options.start_minutes * 60,
        bodies=bodies,
    )


def has_efa(kind: str) -> bool:
    """Whether the facts give "ml.p5.48xlarge" and its like an EFA device."""
    known = builtin().instances.get(kind.removeprefix("ml."))
    return bool(known and known.efa_devices)


def _run_s(body: Mapping[str, Any]) -> int:
    return int(body.get("StoppingCondition", {}).get("MaxRuntimeInSeconds", DEFAULT_RUN_S))


def _sizes(resources: Mapping[str, Any]) -> list[tuple[str, int]]:
    groups = resources.get("InstanceGroups") or [resources]
    return [(one["InstanceType"], one["InstanceCount"]) for one in groups if "InstanceType" in one]


def _fleets(sizes: list[tuple[str, int]], spot: bool, pooled: bool) -> tuple[Fleet, ...]:
    most = {kind: max(count for other, count in sizes if other == kind) for kind, _ in sizes}
    return tuple(Fleet(kind, count, spot, pooled) for kind, count in most.items())


def _role(arn: str) -> Role:
    found = ROLE.fullmatch(arn)
    return Role(arn, found["account"] if found else "", found["name"] if found else "")


def _networks(bodies: Iterable[Mapping[str, Any]]) -> Iterator[Network]:
    for body in bodies:
        vpc = body.get("VpcConfig")
        if vpc:
            nodes = sum(count for _, count in _sizes(body.get("ResourceConfig", {})))
            yield Network(tuple(vpc["SecurityGroupIds"]), tuple(vpc["Subnets"]), nodes)


def _keys(body: Mapping[str, Any]) -> list[str]:
    found = (
        body.get("ResourceConfig", {}).get("VolumeKmsKeyId"),
        body.get("OutputDataConfig", {}).get("KmsKeyId"),
    )
    return [key for key in found if key]


def _each(values: Iterable[T]) -> tuple[T, ...]:
    """Each value once, in the order of first appearance."""
    return tuple(dict.fromkeys(values))
