"""What a gate file's [cluster.options] may say if the launcher is "sagemaker". Pure.

Sources: AWS, CreateTrainingJob API reference and botocore 1.44.5's own shapes; "Train using SageMaker-managed warm pools".
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from checks.value_types import Range, Text
from tasks.launchers.base import Placement

# "KeepAlivePeriodInSeconds": the documentation allows 3600 s, the API's model 21600.
KEEP_ALIVE_S = 3600


class ImageCode(StrEnum):
    """Where a container finds the checks: in its image, or in an input channel, as the gate has them.

    AUTO takes the image's for the check image, and a channel for a training image of its own.
    """

    AUTO = "auto"
    IMAGE = "image"
    CHANNEL = "channel"


@dataclass(frozen=True)
class SageMakerOptions:
    """`prefix` is s3://bucket/prefix: bundles, reports, output and SageMaker's own archives lie below it.

    `keep_alive_s` is how long a warm pool waits for the training (POOLED). A pool is found by the role, the type, count and
    volume of the instances, their VPC, encryption and isolation: `role_arn` or `volume_gb` that nobody else uses keep it
    ours. `ultraservers` are "id=instances" (PINNED). `tags` are "key=value". `python` runs the checks in the
    containers, "" is the agent's own. `start_minutes` is how long a job may take until it runs.
    """

    region: Annotated[str, Text(r"[a-z]{2}(-[a-z]+)+-\d", 32, "must be a region, such as us-east-1")]
    image: Annotated[str, Text(r"\S+", 255, "must be an image, without spaces")]
    role_arn: Annotated[str, Text(r"arn:aws[a-z-]*:iam::\d{12}:role/\S+", 2048, "must be the ARN of a role")]
    prefix: Annotated[str, Text(r"s3://[a-z0-9][a-z0-9.-]+(/\S*)?", 900, "must be s3://bucket/prefix")]
    placement: Placement = Placement.POOLED
    code: ImageCode = ImageCode.AUTO
    volume_gb: Annotated[int, Range(1, 16384)] = 100
    keep_alive_s: Annotated[int, Range(0, KEEP_ALIVE_S)] = KEEP_ALIVE_S
    subnets: tuple[str, ...] = ()
    security_group_ids: tuple[str, ...] = ()
    volume_kms_key: str = ""
    output_kms_key: str = ""
    network_isolation: bool = False
    encrypt_traffic: bool = False
    spot: bool = False
    spot_wait_minutes: Annotated[float, Range(0, 40320)] = 0.0
    training_plan_arn: str = ""
    ultraservers: tuple[str, ...] = ()
    max_pending_minutes: Annotated[float, Range(0, 40320)] = 0.0
    start_minutes: Annotated[float, Range(0.01, 40320)] = 60.0
    poll_seconds: Annotated[float, Range(0.1, 300)] = 5.0
    retries: Annotated[int, Range(0, 30)] = 0
    infra_check: bool = True
    tags: tuple[str, ...] = ()
    python: str = ""

    @property
    def offers(self) -> dict[Placement, float]:
        """The placements that these options allow, with the seconds for which a pool is kept: none for Spot ("Considerations"
        of "Train using SageMaker-managed warm pools"), and no UltraServer without its name.
        """
        pooled = {} if self.spot or self.ultraservers else {Placement.POOLED: float(self.keep_alive_s)}
        pinned = {Placement.PINNED: 0.0} if self.ultraservers else {}
        anywhere = {} if self.ultraservers else {Placement.NONE: 0.0}
        return {Placement.IN_JOB: 0.0, **pooled, **pinned, **anywhere}
