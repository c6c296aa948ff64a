"""Combines a ModelTrainer's request with the gate's own. Pure.

The machines are the gate's: what was checked is what trains. The run is the trainer's: image, channels, hyperparameters,
environment, output, checkpoints. If both name a machine and differ, nobody can tell which was meant, and nothing is planned.
How long it may run comes from the gate file, because the SDK sets an hour if nobody set a time. The trainer's keep-alive is left
out, because nothing follows the training.
"""

from __future__ import annotations

from collections.abc import Mapping

from tasks.launchers.base import LaunchRejected
from tasks.launchers.sagemaker.request.validate import at

Body = Mapping[str, object]
# Where the gate file says the same. Besides what a warm pool is found by (poolkey): how the machines are bought and placed.
MACHINES: Mapping[str, str] = {
    "RoleArn": "[cluster.options] role_arn",
    "ResourceConfig.InstanceType": "[cluster.declared] instance_type",
    "ResourceConfig.InstanceCount": "[cluster.declared] nodes",
    "ResourceConfig.VolumeSizeInGB": "[cluster.options] volume_gb",
    "ResourceConfig.VolumeKmsKeyId": "[cluster.options] volume_kms_key",
    "ResourceConfig.TrainingPlanArn": "[cluster.options] training_plan_arn",
    "ResourceConfig.InstancePlacementConfig": "[cluster.options] ultraservers",
    "VpcConfig.SecurityGroupIds": "[cluster.options] security_group_ids",
    "VpcConfig.Subnets": "[cluster.options] subnets",
    "EnableInterContainerTrafficEncryption": "[cluster.options] encrypt_traffic",
    "EnableNetworkIsolation": "[cluster.options] network_isolation",
    "EnableManagedSpotTraining": "[cluster.options] spot",
}
OF_THE_GATE = (
    "TrainingJobName",
    "RoleArn",
    "ResourceConfig",
    "VpcConfig",
    "EnableInterContainerTrafficEncryption",
    "EnableNetworkIsolation",
    "EnableManagedSpotTraining",
)
CANNOT: Mapping[str, str] = {
    "ResourceConfig.InstanceGroups": "a heterogeneous cluster cannot be checked: its machines are of several types. Use one type",
    "ResourceConfig.InstancePreferences": "checks and training could get different types. Give it one instance_type",
    "SessionChainingConfig": "session tags are part of what a warm pool is found by, and the health check has none. Leave it out",
    "AlgorithmSpecification.AlgorithmName": "nothing can be started before an algorithm of the Marketplace. Use training_image",
}


def overlay(theirs: Body, ours: Body) -> dict[str, object]:
    """The training's request. `ours` is what a plain command would have: entrypoint, channel, tags and machines.

    Raises LaunchRejected with both values where the trainer asks for other machines than the gate checks.
    """
    _possible(theirs)
    wrong = differences(theirs, ours)
    if wrong:
        raise LaunchRejected(
            f"the model_trainer asks for other machines than this gate checks: {'; '.join(wrong)}. Let both say the same."
        )
    made = {**ours, **{key: value for key, value in theirs.items() if key not in OF_THE_GATE}}
    made["AlgorithmSpecification"] = {**_table(theirs, "AlgorithmSpecification"), **_start(ours)}
    made["InputDataConfig"] = _joined(theirs, ours, "InputDataConfig", "ChannelName")
    made["Tags"] = _joined(theirs, ours, "Tags", "Key")
    made["OutputDataConfig"] = _output(theirs, ours)
    for key in ("Environment", "StoppingCondition"):
        made[key] = {**_table(theirs, key), **_table(ours, key)}
    return {key: value for key, value in made.items() if value not in ({}, [])}


def differences(theirs: Body, ours: Body) -> list[str]:
    """Where the trainer's machines differ from the gate's. What the trainer leaves open the gate decides."""
    found = []
    for path, where in MACHINES.items():
        said, checked = _plain(at(theirs, path)), _plain(at(ours, path))
        if at(theirs, path) not in (None, [], "") and said != checked:
            found.append(f"{path} is {_text(said)} there and {_text(checked)} here ({where})")
    return found


def _possible(theirs: Body) -> None:
    for path, reason in CANNOT.items():
        if at(theirs, path):
            raise LaunchRejected(f"the model_trainer's {path}: {reason}.")


def _output(theirs: Body, ours: Body) -> dict[str, object]:
    """The trainer's own output place. With network isolation the reports come by it, and are looked for in the gate's."""
    said, own = _table(theirs, "OutputDataConfig"), _table(ours, "OutputDataConfig")
    elsewhere = said.get("S3OutputPath") not in (None, own.get("S3OutputPath"))
    if elsewhere and at(ours, "EnableNetworkIsolation"):
        raise LaunchRejected(
            f"the model_trainer's output goes to {said['S3OutputPath']}, but with network isolation the reports come by it, and are"
            f" looked for in {own.get('S3OutputPath')}. Leave its OutputDataConfig.s3_output_path out."
        )
    return said if elsewhere else {**said, **own}


def _joined(theirs: Body, ours: Body, key: str, name: str) -> list[object]:
    """The trainer's rows, then ours; a row of the trainer's with the name of one of ours is refused."""
    said, own = _rows(theirs, key), _rows(ours, key)
    names = {row.get(name) for row in own}
    for row in said:
        if row.get(name) in names:
            raise LaunchRejected(
                f"the model_trainer's {key} has {row.get(name)!r}, which is the gate's own. Name it otherwise."
            )
    return [*said, *own]


def _start(ours: Body) -> dict[str, object]:
    own = _table(ours, "AlgorithmSpecification")
    return {key: own[key] for key in ("ContainerEntrypoint", "ContainerArguments") if key in own}


def _table(body: Body, key: str) -> dict[str, object]:
    found = body.get(key)
    return dict(found) if isinstance(found, Mapping) else {}


def _rows(body: Body, key: str) -> list[Body]:
    found = body.get(key)
    return [row for row in found if isinstance(row, Mapping)] if isinstance(found, list | tuple) else []


def _plain(value: object) -> object:
    return sorted(map(str, value)) if isinstance(value, list | tuple) else value or None


def _text(value: object) -> str:
    return "not set" if value is None else f"{value!r}"
