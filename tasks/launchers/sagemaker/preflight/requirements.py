"""What the requests of a gate need from an AWS account, read from the requests themselves. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from checks.facts.builtin import builtin
from tasks.launchers.base import Placement, Plan
from tasks.launchers.sagemaker.options import SageMakerOptions
from tasks.launchers.sagemaker.request.image import image_of
from tasks.launchers.sagemaker.request.locations import bucket_of, key_of


@dataclass(frozen=True)
class Requirements:
    """All requests are for one role, one network and as many machines of one type: those of the options.

    `bodies` are the requests, in their order. `instance_type` is as SageMaker names it, `run_s` the longest time that one job may run.
    """

    options: SageMakerOptions
    bodies: tuple[Mapping[str, Any], ...]
    images: tuple[str, ...]
    instance_type: str
    nodes: int
    run_s: int

    @property
    def region(self) -> str:
        """The region of the jobs."""
        return self.options.region

    @property
    def account(self) -> str:
        """The account of the execution role."""
        return self.options.role_arn.split(":")[4]

    @property
    def role(self) -> str:
        """The name of the execution role."""
        return self.options.role_arn.rpartition("/")[2]

    @property
    def root(self) -> str:
        """The address below which the gate writes everything, without a slash at its end."""
        return self.options.prefix.rstrip("/")

    @property
    def bucket(self) -> str:
        """The bucket of everything that the gate writes."""
        return bucket_of(self.root)

    @property
    def prefix(self) -> str:
        """The key below which it writes, "" for the bucket itself."""
        return key_of(self.root)

    @property
    def jobs(self) -> tuple[str, ...]:
        """The names of the jobs."""
        return tuple(body["TrainingJobName"] for body in self.bodies)

    @property
    def pooled(self) -> bool:
        """Whether the machines are to be kept."""
        return self.options.placement is Placement.POOLED

    @property
    def efa(self) -> bool:
        """Whether machines of a type with EFA devices (facts) are to talk to each other."""
        facts = builtin().instances.get(self.instance_type.removeprefix("ml."))
        return self.nodes > 1 and bool(facts and facts.efa_devices)


def requirements_of(plans: tuple[Plan, ...], options: SageMakerOptions) -> Requirements:
    """The requirements of all plans together, of which there is one."""
    bodies: tuple[Mapping[str, Any], ...] = tuple(call.body for plan in plans for call in plan.calls)
    return Requirements(
        options=options,
        bodies=bodies,
        images=tuple(dict.fromkeys(image for body in bodies if (image := image_of(body)))),
        instance_type=bodies[0]["ResourceConfig"]["InstanceType"],
        nodes=bodies[0]["ResourceConfig"]["InstanceCount"],
        run_s=max(body["StoppingCondition"]["MaxRuntimeInSeconds"] for body in bodies),
    )
