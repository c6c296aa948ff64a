"""Whether CreateTrainingJob takes a request that its shapes allow: rules between members, quotas, the role. Raises ApiError."""

from __future__ import annotations

from collections.abc import Sequence

from tests.fakes.sagemaker import errors, quotas
from tests.fakes.sagemaker.dials import Dials
from tests.fakes.sagemaker.errors import invalid
from tests.fakes.sagemaker.job import FINAL, Job


def admit(job: Job, others: Sequence[Job], dials: Dials) -> None:
    """Nothing is returned for a request that AWS would take."""
    _members(job)
    _keep_alive(job, dials)
    _plan(job, dials)
    role = job.request["RoleArn"]
    if role in dials.unassumable:
        raise invalid(
            f"Could not assume role {role}. Please ensure that the role exists and allows principal "
            "'sagemaker.amazonaws.com' to assume the role."
        )
    _limits(job, dials)
    _quotas(job, others, dials)


def _members(job: Job) -> None:
    """API reference, CreateTrainingJob: which members exclude, need or bound each other. The words are ours."""
    algorithm, stopping = job.request["AlgorithmSpecification"], job.request.get("StoppingCondition") or {}
    if ("TrainingImage" in algorithm) == ("AlgorithmName" in algorithm):
        raise invalid("Specify either TrainingImage or AlgorithmName in AlgorithmSpecification, not both.")
    given = [
        key for key in ("InstanceType", "InstanceGroups", "InstancePreferences") if job.resources.get(key)
    ]
    if len(given) != 1:
        raise invalid(
            "ResourceConfig needs one of InstanceType, InstanceGroups or InstancePreferences, and only one."
        )
    if any(group.count < 1 for group in job.groups):
        raise invalid("ResourceConfig: InstanceCount must be at least 1.")
    if job.request.get("EnableManagedSpotTraining"):
        wait, run = stopping.get("MaxWaitTimeInSeconds"), stopping.get("MaxRuntimeInSeconds", 86400)
        if wait is None or wait < run:
            raise invalid(
                f"Invalid MaxWaitTimeInSeconds. It must be present and be greater than or equal to MaxRuntimeInSeconds: {run}"
            )
    elif "MaxWaitTimeInSeconds" in stopping:
        raise invalid(
            "MaxWaitTimeInSeconds above 0 is not supported for training jobs without managed spot training."
        )


def _keep_alive(job: Job, dials: Dials) -> None:
    """ "Train using SageMaker-managed warm pools": at most 3600 s; neither Spot nor heterogeneous clusters. The words are ours."""
    seconds = job.keep_alive_s
    if seconds > dials.keep_alive_most_s:
        raise invalid(f"KeepAlivePeriodInSeconds must be at most {dials.keep_alive_most_s}, it is {seconds}.")
    if seconds and job.request.get("EnableManagedSpotTraining"):
        raise invalid("KeepAlivePeriodInSeconds is not supported with managed spot training.")
    if seconds and len(job.groups) > 1:
        raise invalid("KeepAlivePeriodInSeconds is not supported for heterogeneous clusters.")


def _plan(job: Job, dials: Dials) -> None:
    """ "Training plans": a plan must be Scheduled or Active. The words are ours."""
    arn = job.resources.get("TrainingPlanArn", "")
    if not arn:
        return
    status = dials.training_plans.get(arn.rpartition("/")[2], {"Status": "absent"}).get("Status", "Active")
    if status not in ("Scheduled", "Active"):
        raise invalid(f"Training plan {arn} cannot be used: its status is {status}.")


def _limits(job: Job, dials: Dials) -> None:
    """ "Amazon SageMaker AI endpoints and quotas": limits of one job. That they are refused as the others are is supposed."""
    count = sum(group.count for group in job.groups)
    if count > dials.most_instances:
        raise errors.quota(quotas.SIZE, dials.most_instances, 0, count)
    run_s = (job.request.get("StoppingCondition") or {}).get("MaxRuntimeInSeconds", 86_400)
    if run_s > dials.longest_run_s:
        raise errors.quota(quotas.TIME, dials.longest_run_s, 0, run_s, "Seconds")


def _quotas(job: Job, others: Sequence[Job], dials: Dials) -> None:
    spot = bool(job.request.get("EnableManagedSpotTraining"))
    limits, words = (
        (dials.spot_quotas, "spot training job usage") if spot else (dials.quotas, "training job usage")
    )
    for group in job.groups:
        limit = limits.get(group.type)
        used = sum(
            other.count
            for o in others
            if o.status not in FINAL
            for other in o.groups
            if other.type == group.type
        )
        if limit is not None and used + group.count > limit and dials.meant in job.name:
            raise errors.quota(f"{group.type} for {words}", limit, used, group.count)
