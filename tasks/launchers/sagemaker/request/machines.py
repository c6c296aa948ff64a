"""Which machines a job gets, and for how long: the same for the health check and the training. Pure.

SageMaker gives a job the kept machines of a warm pool only if everything that it matches by is equal. Source: "Matching training
jobs" in "Train using SageMaker-managed warm pools", AWS documentation. Image, entrypoint, environment, hyperparameters and
output may differ, so that a training image can follow the check image.
"""

from __future__ import annotations

import math
import re

from tasks.launchers.base import JobSpec, LaunchRejected, Placement, Work
from tasks.launchers.sagemaker.options import SageMakerOptions

# ResourceConfig, API reference: EC2's name behind this.
TYPE_PREFIX = "ml."
# "Train using SageMaker-managed warm pools", persistent cache: KeepAlivePeriodInSeconds above 0 is what mounts it.
AFTER_TRAINING_S = 60
ULTRASERVER = r"(?P<id>[^=]+)=(?P<instances>[1-9]\d{0,4})"


def resources(job: JobSpec, options: SageMakerOptions) -> dict[str, object]:
    """ResourceConfig. The check job of a warm pool asks that its machines are kept for the training.

    So does the training, for as short as makes sense: the pool's cache folder, with the token that proves the machine, is
    there for jobs that keep one. When the training ends while the gate waits, its machines are released at once.
    """
    made: dict[str, object] = {
        "InstanceType": f"{TYPE_PREFIX}{job.instance_type}",
        "InstanceCount": job.nodes,
        "VolumeSizeInGB": options.volume_gb,
    }
    if options.volume_kms_key:
        made["VolumeKmsKeyId"] = options.volume_kms_key
    if keeps(job, options):
        made["KeepAlivePeriodInSeconds"] = options.keep_alive_s
    elif job.work is Work.CONFIRM and options.placement is Placement.POOLED:
        made["KeepAlivePeriodInSeconds"] = AFTER_TRAINING_S
    if options.training_plan_arn:
        made["TrainingPlanArn"] = options.training_plan_arn
    if options.ultraservers:
        made["InstancePlacementConfig"] = {"PlacementSpecifications": ultraservers(job, options)}
    return made


def keeps(job: JobSpec, options: SageMakerOptions) -> bool:
    """Whether the job's machines are kept for the next one."""
    return job.work is Work.CHECK and options.placement is Placement.POOLED


def network(options: SageMakerOptions) -> dict[str, object]:
    """VpcConfig, isolation and encryption; {} where AWS' own defaults are meant."""
    made: dict[str, object] = {}
    if options.subnets:
        made["VpcConfig"] = {
            "SecurityGroupIds": list(options.security_group_ids),
            "Subnets": list(options.subnets),
        }
    if options.network_isolation:
        made["EnableNetworkIsolation"] = True
    if options.encrypt_traffic:
        made["EnableInterContainerTrafficEncryption"] = True
    return made


def times(job: JobSpec, options: SageMakerOptions) -> dict[str, object]:
    """StoppingCondition, and Spot, whose wait counts from the request on (StoppingCondition, API reference)."""
    run_s = math.ceil(job.max_runtime_s)
    condition: dict[str, object] = {"MaxRuntimeInSeconds": run_s}
    if options.max_pending_minutes:
        condition["MaxPendingTimeInSeconds"] = math.ceil(options.max_pending_minutes * 60)
    if not options.spot:
        return {"StoppingCondition": condition}
    condition["MaxWaitTimeInSeconds"] = run_s + math.ceil(options.spot_wait_minutes * 60)
    return {"EnableManagedSpotTraining": True, "StoppingCondition": condition}


def ultraservers(job: JobSpec, options: SageMakerOptions) -> list[dict[str, object]]:
    """The placement on UltraServers ("id=instances"). Raises LaunchRejected if the instances do not add up."""
    named = [re.fullmatch(ULTRASERVER, text) for text in options.ultraservers]
    placed = [(found["id"], int(found["instances"])) for found in named if found]
    if len(placed) != len(named) or sum(count for _, count in placed) != job.nodes:
        raise LaunchRejected(
            f"ultraservers: {job.nodes} nodes cannot be spread over {', '.join(options.ultraservers)}. "
            'Write "id=instances" for each, so that they add up to [cluster.declared] nodes.'
        )
    return [{"UltraServerId": name, "InstanceCount": count} for name, count in placed]
