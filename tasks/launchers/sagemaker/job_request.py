"""JobSpec -> one CreateTrainingJob request. Pure: it reads this installation's own files, no credentials, no network.

The requests of the training and of the health check agree in everything that a warm pool is matched by ("Matching training jobs" in
"Train using SageMaker-managed warm pools"; image, entrypoint, environment, hyperparameters and output may differ): both come from the
same options, and keys of [training.request] or of a ModelTrainer that would differ are refused. A container starts with the agent,
from the image or from the input channel, and the agent's settings are in the request.
"""

from __future__ import annotations

import dataclasses
import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from checks.exchange import secret_key
from tasks.launchers.base import ApiCall, JobSpec, LaunchRejected, Placement, Plan, Work
from tasks.launchers.job_rules import agent_arguments, filled, require_end, require_files
from tasks.launchers.node_code import code_archive, start_script
from tasks.launchers.sagemaker.options import ImageCode, SageMakerOptions
from tasks.launchers.sagemaker.request import image, locations, overrides
from tasks.launchers.sagemaker.request.locations import CHANNEL, Places, places_of
from tasks.launchers.sagemaker.request.validate import at, objections

FROM_IMAGE = ("python3", "-m", "container.agent")
FROM_CHANNEL = ("/bin/sh", locations.START)
# TrainingContainerArgument and TrainingContainerArguments, botocore 1.44.5: .* of at most 256 characters, 100 of them.
MOST_CHARACTERS, MOST_ITEMS = 256, 100
LINE_ENDS = re.compile("[\n\r\x85\u2028\u2029]")
OWN_FILES = ("command.json", "prelaunch.tar.gz", "start.sh", secret_key.FILE)
# Where the check image has the code: a PYTHONPATH of the training's own would hide it.
IN_IMAGE = "/opt/prelaunch"
PYTHON = "PRELAUNCH_PYTHON"
SERVICE, OPERATION = "sagemaker", "CreateTrainingJob"
# ResourceConfig, API reference: EC2's name behind this.
TYPE_PREFIX = "ml."
# "Train using SageMaker-managed warm pools", persistent cache: KeepAlivePeriodInSeconds above 0 is what mounts it.
AFTER_TRAINING_S = 60
ULTRASERVER = r"(?P<id>[^=]+)=(?P<instances>[1-9]\d{0,4})"


@dataclass(frozen=True)
class ContainerEntry:
    """The container's entrypoint and arguments, and the files of the input channel that these need."""

    entrypoint: tuple[str, ...]
    arguments: tuple[str, ...]
    files: Mapping[str, bytes]


def entry_of(job: JobSpec, options: SageMakerOptions, where: Places) -> ContainerEntry:
    """The start of one job's containers. Raises LaunchRejected for a file that cannot be given to them."""
    files = dict(job.files)
    require_files(job, OWN_FILES)
    # Whether the code comes by the input channel: asked for, or a training image of its own (AUTO).
    own_image = bool(job.image) and job.image != options.image
    by_channel = options.code == ImageCode.CHANNEL or (options.code == ImageCode.AUTO and own_image)
    if by_channel:
        files |= {"prelaunch.tar.gz": code_archive(), "start.sh": start_script()}
    arguments = _agent(job, options, where)
    if any(len(argument) > MOST_CHARACTERS for argument in arguments):
        raise LaunchRejected(
            f"{job.name}: prefix {options.prefix!r:.80} makes addresses of more than the {MOST_CHARACTERS} characters that "
            "SageMaker takes in an argument. Shorten it."
        )
    command = job.command if job.work is Work.COMMAND else _filled(job)
    if job.work is not Work.CHECK:
        if _fits(arguments, command):
            arguments = (*arguments, "--", *command)
        else:
            arguments = (*arguments, "--command-file", locations.COMMAND)
            files["command.json"] = json.dumps(list(command)).encode()
    return ContainerEntry(FROM_CHANNEL if by_channel else FROM_IMAGE, arguments, files)


def environment_of(job: JobSpec, options: SageMakerOptions) -> dict[str, str]:
    """The training's own environment variables, and those with the agent's settings."""
    variables = dict(job.environment)
    return {**variables, PYTHON: options.python} if options.python else variables


def found_first(body: Mapping[str, object]) -> dict[str, object]:
    """The request, changed so that no PYTHONPATH hides the agent that the image has."""
    environment, path = body.get("Environment"), at(body, "Environment.PYTHONPATH")
    from_image = at(body, "AlgorithmSpecification.ContainerEntrypoint") == list(FROM_IMAGE)
    if not from_image or not isinstance(environment, Mapping) or path is None:
        return dict(body)
    return {**body, "Environment": {**environment, "PYTHONPATH": f"{IN_IMAGE}:{path}"}}


def _agent(job: JobSpec, options: SageMakerOptions, where: Places) -> tuple[str, ...]:
    """Verb and options of the agent. With network isolation no container reaches S3, so nothing is copied there or awaited."""
    upload = () if options.network_isolation else ("--upload", where.reports)
    if job.work is Work.COMMAND:
        return ("exec", *upload)
    keep = ("--keep",) if keeps(job, options) else ()
    pooled = ("--pooled",) if options.placement is Placement.POOLED else ()
    common = ("--bundle", locations.BUNDLE, *upload, *keep)
    return agent_arguments(job, common, (locations.PASS, *pooled), ("--answers", where.answers))


def _filled(job: JobSpec) -> tuple[str, ...]:
    """The training's command with the container's folders filled in; a ModelTrainer's own command stays unchanged."""
    if job.trainer:
        return job.training
    return filled(job.training, {"{job}": locations.FOLDER, "{out}": locations.OUT})


def _fits(arguments: tuple[str, ...], command: tuple[str, ...]) -> bool:
    short = all(len(argument) <= MOST_CHARACTERS and not LINE_ENDS.search(argument) for argument in command)
    return short and len(arguments) + 1 + len(command) <= MOST_ITEMS


def make_plan(job: JobSpec, options: SageMakerOptions) -> Plan:
    """The request, and what is written to S3 before it. Raises LaunchRejected with the remedy."""
    # Raise LaunchRejected for a request that contradicts itself, before anything is examined or billed.
    require_end(job)
    for problem in _contradictions(job, options):
        raise LaunchRejected(f"{job.name}: {problem}")
    where = places_of(options, job.name)
    if job.trainer:
        return _of_trainer(job, options, where)
    entry = entry_of(job, options, where)
    body = _body(job, options, where, entry)
    if job.work.trains and job.request:
        body = overrides.laid_over(body, job.request, job.work)
    return _plan(job, options, body, _uploads(where, entry))


def _contradictions(job: JobSpec, options: SageMakerOptions) -> Iterator[str]:
    pooled = options.placement is Placement.POOLED
    if not job.instance_type:
        yield "no instance type is declared. Set [cluster.declared] instance_type."
    if job.work.trains and not (job.training or job.trainer):
        yield "there is no training command. Set [training] command or model_trainer."
    if pooled and not options.keep_alive_s:
        yield 'placement pooled with keep_alive_s = 0 keeps no machines. Raise keep_alive_s, or set placement = "in_job".'
    # "Considerations" of "Train using SageMaker-managed warm pools".
    if pooled and options.spot:
        yield 'Spot machines are not kept in a warm pool. Leave spot out, or set placement = "in_job".'
    if options.placement is Placement.PINNED and not options.ultraservers:
        yield 'placement pinned needs ultraservers: nothing else places a training job. Name them, or set placement = "in_job".'
    if options.ultraservers and options.placement in (Placement.POOLED, Placement.NONE):
        placement = options.placement.value
        yield f'ultraservers cannot be used with placement {placement}. Set placement = "pinned" or "in_job".'
    if bool(options.subnets) != bool(options.security_group_ids):
        yield "subnets and security_group_ids are only useful together. Set both, or neither."
    if options.spot_wait_minutes and not options.spot:
        yield "spot_wait_minutes is for spot = true. Leave it out, or set spot = true."
    # EnableNetworkIsolation, CreateTrainingJob API reference: no calls but those between the job's own containers.
    if job.ask_s and options.network_isolation:
        yield 'with network_isolation no answer reaches the nodes. Set on_warn to "go" or "refuse", or leave network_isolation out.'


def _body(job: JobSpec, options: SageMakerOptions, where: Places, entry: ContainerEntry) -> overrides.Body:
    """The whole request of a job, in the order in which the API's documentation has its keys."""
    body: overrides.Body = {
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
    body |= {"ResourceConfig": resources(job, options), **network(options)}
    body |= times(job, options)
    if environment := environment_of(job, options):
        body["Environment"] = environment
    if options.retries:
        body["RetryStrategy"] = {"MaximumRetryAttempts": options.retries}
    if options.infra_check:
        body["InfraCheckConfig"] = {"EnableInfraCheck": True}
    if tags := overrides.tags_of(job.tags, options.tags):
        body["Tags"] = tags
    return body


def _channel(where: Places) -> dict[str, object]:
    """The input channel: every host gets all of it, as files, whatever the training's own mode is."""
    source = {"S3DataType": "S3Prefix", "S3Uri": where.inputs, "S3DataDistributionType": "FullyReplicated"}
    return {"ChannelName": CHANNEL, "DataSource": {"S3DataSource": source}, "InputMode": "File"}


def _uploads(where: Places, entry: ContainerEntry) -> dict[str, bytes]:
    return {f"{where.inputs}{name}": data for name, data in sorted(entry.files.items())}


def _of_trainer(job: JobSpec, options: SageMakerOptions, where: Places) -> Plan:
    """The request that the SDK makes of a ModelTrainer, behind the gate's own entrypoint."""
    from tasks.launchers.sagemaker.model_trainer.overlay import overlay
    from tasks.launchers.sagemaker.model_trainer.request import request_of, words_of

    trainer = request_of(job.trainer, where, options)
    command = words_of(trainer.body)
    own = dataclasses.replace(job, training=command, image=image.image_of(trainer.body))
    entry = entry_of(own, options, where)
    body = overlay(trainer.body, _body(own, options, where, entry), job.work)
    return _plan(job, options, body, {**trainer.uploads, **_uploads(where, entry)})


def _plan(
    job: JobSpec, options: SageMakerOptions, body: overrides.Body, uploads: Mapping[str, bytes]
) -> Plan:
    body = found_first(body)
    overrides.require_agents_own(body, {PYTHON: options.python} if options.python else {})
    overrides.require_own_folders(body)
    if problems := objections(body):
        raise LaunchRejected(f"{job.name}: AWS would refuse this request. {'; '.join(problems)}")
    unverified = tuple(map(image.unknown_tools, image.checked_in(job, image.image_of(body))))
    return Plan(job, (ApiCall(SERVICE, OPERATION, job.name, body),), uploads, unverified)


def resources(job: JobSpec, options: SageMakerOptions) -> dict[str, object]:
    """ResourceConfig. The check job of a warm pool asks that its machines are kept for the training.

    So does the training, for as short as makes sense: the pool's cache folder, with the token that proves the machine, is
    there for jobs that keep one. When the training ends while the gate waits, its machines are released at once.
    """
    config: dict[str, object] = {
        "InstanceType": f"{TYPE_PREFIX}{job.instance_type}",
        "InstanceCount": job.nodes,
        "VolumeSizeInGB": options.volume_gb,
    }
    if options.volume_kms_key:
        config["VolumeKmsKeyId"] = options.volume_kms_key
    if keeps(job, options):
        config["KeepAlivePeriodInSeconds"] = options.keep_alive_s
    elif job.work is Work.CONFIRM and options.placement is Placement.POOLED:
        config["KeepAlivePeriodInSeconds"] = AFTER_TRAINING_S
    if options.training_plan_arn:
        config["TrainingPlanArn"] = options.training_plan_arn
    if options.ultraservers:
        config["InstancePlacementConfig"] = {"PlacementSpecifications": ultraservers(job, options)}
    return config


def keeps(job: JobSpec, options: SageMakerOptions) -> bool:
    """Whether the job's machines are kept for the next one."""
    return job.work is Work.CHECK and options.placement is Placement.POOLED


def network(options: SageMakerOptions) -> dict[str, object]:
    """VpcConfig, isolation and encryption; {} where AWS' own defaults are meant."""
    config: dict[str, object] = {}
    if options.subnets:
        config["VpcConfig"] = {
            "SecurityGroupIds": list(options.security_group_ids),
            "Subnets": list(options.subnets),
        }
    if options.network_isolation:
        config["EnableNetworkIsolation"] = True
    if options.encrypt_traffic:
        config["EnableInterContainerTrafficEncryption"] = True
    return config


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
    matches = [re.fullmatch(ULTRASERVER, text) for text in options.ultraservers]
    placed = [(match["id"], int(match["instances"])) for match in matches if match]
    if len(placed) != len(matches) or sum(count for _, count in placed) != job.nodes:
        raise LaunchRejected(
            f"ultraservers: {job.nodes} nodes cannot be spread over {', '.join(options.ultraservers)}. "
            'Write "id=instances" for each, so that they add up to [cluster.declared] nodes.'
        )
    return [{"UltraServerId": name, "InstanceCount": count} for name, count in placed]
