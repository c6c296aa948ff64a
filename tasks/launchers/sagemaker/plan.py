"""JobSpec -> one CreateTrainingJob request. Pure: it reads this installation's own files, no credentials, no network.

The request of the training is the health check's in all that a warm pool is found by: both come from the same options, and
keys of [training.request] or of a ModelTrainer that would differ are refused.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from tasks.launchers.base import ApiCall, JobSpec, LaunchRejected, Placement, Plan, Work
from tasks.launchers.sagemaker import images, machines
from tasks.launchers.sagemaker.entry import PYTHON, Entry, entry_of, environment_of, found_first
from tasks.launchers.sagemaker.options import SageMakerOptions
from tasks.launchers.sagemaker.places import CHANNEL, Places, places_of
from tasks.launchers.sagemaker.requested import Body, laid_over, require_agents_own, require_own_folders
from tasks.launchers.sagemaker.shapes import objections
from tasks.launchers.sagemaker.tagging import tags_of

SERVICE, OPERATION = "sagemaker", "CreateTrainingJob"


def make_plan(job: JobSpec, options: SageMakerOptions) -> Plan:
    """The request, and what is written to S3 before it. Raises LaunchRejected with the remedy."""
    require_possible(job, options)
    where = places_of(options, job.name)
    if job.trainer:
        return _of_trainer(job, options, where)
    entry = entry_of(job, options, where)
    body = _body(job, options, where, entry)
    if job.work.trains and job.request:
        body = laid_over(body, job.request, job.work)
    return _plan(job, options, body, _uploads(where, entry))


def require_possible(job: JobSpec, options: SageMakerOptions) -> None:
    """Raise LaunchRejected for what contradicts itself, before anything is looked at or paid for."""
    for wrong, said in _contradictions(job, options):
        if wrong:
            raise LaunchRejected(f"{job.name}: {said}")


def _contradictions(job: JobSpec, options: SageMakerOptions) -> tuple[tuple[bool, str], ...]:
    pooled = options.strength is Placement.POOLED
    in_job = options.strength is Placement.IN_JOB
    return (
        (not job.instance_type, "no instance type is declared. Say [cluster.declared] instance_type."),
        (
            job.work is Work.COMMAND and not job.command,
            "it has no command. Say what every node runs.",
        ),
        (
            job.work.trains and not (job.behind or job.trainer),
            "there is no training command. Say [training] command or model_trainer.",
        ),
        (
            not 0 < job.max_runtime_s < float("inf"),
            f"it may run for {job.max_runtime_s} s. Give a time above 0 that ends.",
        ),
        (
            in_job != (job.work is Work.GATE) and job.work is not Work.COMMAND,
            "placement in_job is one job of checks and training, every other placement is two.",
        ),
        (
            pooled and not options.keep_alive_s,
            "placement pooled with keep_alive_s = 0 keeps no machines. Raise it, or say placement in_job.",
        ),
        # "Considerations" of "Train using SageMaker-managed warm pools".
        (
            pooled and options.spot,
            "Spot machines are not kept in a warm pool. Leave spot out, or say placement in_job.",
        ),
        (
            options.strength is Placement.PINNED and not options.ultraservers,
            "placement pinned needs ultraservers: training jobs can be placed on nothing else. Name them, or say in_job.",
        ),
        (
            bool(options.ultraservers) and options.strength in (Placement.POOLED, Placement.NONE),
            f"ultraservers are not for placement {options.strength.value}. Say placement pinned or in_job.",
        ),
        (
            bool(options.subnets) != bool(options.security_group_ids),
            "subnets and security_group_ids come together. Say both, or neither.",
        ),
        (
            bool(options.spot_wait_minutes) and not options.spot,
            "spot_wait_minutes is for spot = true. Leave it out, or say spot.",
        ),
        # EnableNetworkIsolation, CreateTrainingJob API reference: no calls but those between the job's own containers.
        (
            bool(job.ask_s) and options.network_isolation,
            "with network_isolation no answer reaches nodes that ask. Say on_warn go or refuse, or leave isolation out.",
        ),
    )


def _body(job: JobSpec, options: SageMakerOptions, where: Places, entry: Entry) -> Body:
    """The whole request of a job, in the order in which the API's documentation has its keys."""
    body: Body = {
        "TrainingJobName": job.name,
        "AlgorithmSpecification": {
            "TrainingImage": job.image or options.image,
            "TrainingInputMode": "File",
            "ContainerEntrypoint": list(entry.entrypoint),
            "ContainerArguments": list(entry.arguments),
        },
        "RoleArn": options.role_arn,
    }
    if entry.files or job.nodes > 1:  # the key of the exchange comes by it
        body["InputDataConfig"] = [_channel(where)]
    output = {"S3OutputPath": where.output}
    body["OutputDataConfig"] = (
        {**output, "KmsKeyId": options.output_kms_key} if options.output_kms_key else output
    )
    body |= {"ResourceConfig": machines.resources(job, options), **machines.network(options)}
    body |= machines.times(job, options)
    if environment := environment_of(job, options):
        body["Environment"] = environment
    if options.retries:
        body["RetryStrategy"] = {"MaximumRetryAttempts": options.retries}
    if options.infra_check:
        body["InfraCheckConfig"] = {"EnableInfraCheck": True}
    if tags := tags_of(job.tags, options.tags):
        body["Tags"] = tags
    return body


def _channel(where: Places) -> dict[str, object]:
    """The input channel: every host gets all of it, as files, whatever the training's own mode is."""
    source = {"S3DataType": "S3Prefix", "S3Uri": where.inputs, "S3DataDistributionType": "FullyReplicated"}
    return {"ChannelName": CHANNEL, "DataSource": {"S3DataSource": source}, "InputMode": "File"}


def _uploads(where: Places, entry: Entry) -> dict[str, bytes]:
    return {f"{where.inputs}{name}": data for name, data in sorted(entry.files.items())}


def _of_trainer(job: JobSpec, options: SageMakerOptions, where: Places) -> Plan:
    """The request that the SDK makes of a ModelTrainer, behind the gate's own entrypoint."""
    from tasks.launchers.sagemaker.trainer import request_of, words_of
    from tasks.launchers.sagemaker.trainer_overlay import overlay

    taken = request_of(job.trainer, where, options)
    behind = words_of(taken.body)
    own = dataclasses.replace(job, behind=behind, image=images.image_of(taken.body))
    entry = entry_of(own, options, where)
    ours = _body(job, options, where, entry)
    body = overlay(taken.body, ours)
    return _plan(job, options, body, {**taken.uploads, **_uploads(where, entry)})


def _plan(job: JobSpec, options: SageMakerOptions, body: Body, uploads: Mapping[str, bytes]) -> Plan:
    body = found_first(body)
    require_agents_own(body, {PYTHON: options.python} if options.python else {})
    require_own_folders(body)
    if said := objections(body):
        raise LaunchRejected(f"{job.name}: AWS would refuse this request. {'; '.join(said)}")
    checked = images.checked_in(job, images.image_of(body))
    unlooked = tuple(images.unlabelled(one, "nobody looked inside") for one in checked)
    return Plan(job, (ApiCall(SERVICE, OPERATION, job.name, body),), uploads, unlooked)
