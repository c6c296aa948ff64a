"""Keys of CreateTrainingJob that replace or extend the gate's own: [training.request], or what a ModelTrainer asks for. Pure."""

from __future__ import annotations

import copy
import posixpath
from collections.abc import Mapping, Sequence

from tasks.launchers.base import LaunchRejected, Work
from tasks.launchers.job_rules import KNOBS
from tasks.launchers.sagemaker.request.locations import CHANNEL, FOLDER
from tasks.launchers.sagemaker.request.validate import at

Body = dict[str, object]
SECTION = "training.request"
OUR_TAGS = "prelaunch:"
# Whose key it is, and where to say it. All that a warm pool is found by is here, so that check and training cannot differ.
OURS: Mapping[str, str] = {
    "TrainingJobName": "the gate names its jobs, so that a retry finds them",
    "RoleArn": "set [cluster.options] role_arn, which checks and training share",
    "ResourceConfig": "set [cluster.declared] and [cluster.options]: the training gets the machines that were checked",
    "VpcConfig": "set [cluster.options] subnets and security_group_ids",
    "EnableNetworkIsolation": "set [cluster.options] network_isolation",
    "EnableInterContainerTrafficEncryption": "set [cluster.options] encrypt_traffic",
    "EnableManagedSpotTraining": "set [cluster.options] spot",
    "StoppingCondition": "set [training] max_runtime_minutes, [cluster.options] max_pending_minutes or spot_wait_minutes",
    "InfraCheckConfig": "set [cluster.options] infra_check",
    "RetryStrategy": "set [cluster.options] retries",
    "ServerlessJobConfig": "a serverless job has no machines that could be checked",
    "OutputDataConfig.S3OutputPath": "it is PREFIX/output, below [cluster.options] prefix, where reports are looked for",
    "OutputDataConfig.KmsKeyId": "set [cluster.options] output_kms_key",
    "AlgorithmSpecification.TrainingImage": "set [training] image",
    "AlgorithmSpecification.AlgorithmName": "nothing can be started before an algorithm of the Marketplace",
    "AlgorithmSpecification.ContainerEntrypoint": "the gate's agent is the entry point: write yours as [training] command",
    "AlgorithmSpecification.ContainerArguments": "the gate's agent gets them: write yours in [training] command",
}
# "Matching training jobs", Train using SageMaker-managed warm pools: session tags are part of it.
TWO_JOBS: Mapping[str, str] = {
    "SessionChainingConfig": "the health check has no session tags, so that no warm pool would match; IN_JOB allows it"
}
# What an operator may tell the agent; the rest of PRELAUNCH_* would say what it does, and whom it believes.
AGENT = "PRELAUNCH_"
LOCAL_PATHS = (
    "CheckpointConfig.LocalPath", "TensorBoardOutputConfig.LocalPath", "DebugHookConfig.LocalPath",
)  # fmt: skip
# What the agent is told and told by, what it leaves, and the token of a machine that was kept.
FOLDERS = (f"{FOLDER}/", "/opt/ml/input/config/", "/opt/ml/output/", "/opt/ml/sagemaker/")


def laid_over(
    body: Mapping[str, object], request: Mapping[str, object], work: Work, whose: str = SECTION
) -> Body:
    """The body with these keys of somebody else's. Raises LaunchRejected for one that is the gate's own, by its path."""
    for path, reason in (OURS if work is Work.GATE else {**OURS, **TWO_JOBS}).items():
        if at(request, path) is not None:
            raise LaunchRejected(f"{whose}.{path} is the gate's own: {reason}.")
    joined = _merge(body, request)
    for key in ("InputDataConfig", "Tags"):
        if key in request:
            joined[key] = _joined(request[key], body.get(key), f"{whose}.{key}")
    if "Environment" in request:
        _require_once(request["Environment"], body.get("Environment"), whose)
    return joined


def require_agents_own(body: Mapping[str, object], ours: Mapping[str, str]) -> None:
    """Raise LaunchRejected if the environment would tell the agent what to do (container.agent.settings)."""
    variables = body.get("Environment")
    for key, value in (variables if isinstance(variables, Mapping) else {}).items():
        name = str(key).upper()
        if name.startswith(AGENT) and name not in KNOBS and ours.get(str(key)) != value:
            raise LaunchRejected(
                f"Environment.{key}: it would tell the gate's agent what to do. Name it otherwise."[:300]
            )


def require_own_folders(body: Mapping[str, object]) -> None:
    """Raise LaunchRejected if SageMaker would bring files of another job to where the agent's lie.

    What CheckpointConfig.S3Uri holds is restored below LocalPath on every host before the container starts.
    """
    for path in LOCAL_PATHS:
        value = at(body, path)
        folder = f"{posixpath.normpath(value)}/" if isinstance(value, str) and value else ""
        for own in FOLDERS:
            if folder.startswith(own) or (folder and own.startswith(folder)):
                raise LaunchRejected(
                    f"{path}: {value!r:.80} is where the gate's own files lie. Use a folder beside {own}, like "
                    "/opt/ml/checkpoints."
                )


def _merge(ours: Mapping[str, object], theirs: Mapping[str, object]) -> Body:
    merged: Body = dict(ours)
    for key, value in theirs.items():
        mine = merged.get(key)
        both = isinstance(mine, Mapping) and isinstance(value, Mapping)
        merged[key] = _merge(mine, value) if both else copy.deepcopy(value)  # type: ignore[arg-type]
    return merged


def _joined(theirs: object, ours: object, where: str) -> object:
    """Somebody else's list before the gate's; a value that is no list is left for the validation of shapes to refuse."""
    if not isinstance(theirs, list | tuple):
        return theirs
    for item in theirs:
        if isinstance(item, Mapping):
            require_free(item, where)
    return [*theirs, *(ours if isinstance(ours, list) else ())]


def _require_once(theirs: object, ours: object, whose: str) -> None:
    twice = (
        sorted(set(theirs) & set(ours)) if isinstance(theirs, Mapping) and isinstance(ours, Mapping) else []
    )
    if twice:
        message = f"{whose}.Environment.{twice[0]} is set in [training] environment too. Leave one out."
        raise LaunchRejected(message)


def tags_of(ours: Mapping[str, str], options: Sequence[str]) -> list[dict[str, str]]:
    """The gate's own tags, then those of [cluster.options] tags ("key=value"). Raises LaunchRejected."""
    tags = [{"Key": key, "Value": value} for key, value in ours.items()]
    for text in options:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise LaunchRejected(f'tags: {text!r:.80} is not of the form "key=value".')
        require_free({"Key": key}, "tags")
        tags.append({"Key": key, "Value": value})
    return tags


def require_free(item: Mapping[str, object], where: str) -> None:
    """Raise LaunchRejected for a channel or a tag with a name of the gate's own."""
    if item.get("ChannelName") == CHANNEL or str(item.get("Key", "")).lower().startswith(OUR_TAGS):
        message = f"{where}: the channel {CHANNEL!r} and tags that begin with {OUR_TAGS} are the gate's own. Name yours otherwise."
        raise LaunchRejected(message)
