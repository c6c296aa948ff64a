"""Combines a ModelTrainer's request with the gate's own. Pure.

The machines are the gate's: what was checked is what trains. If both name a machine and differ, nobody can tell which was meant,
and nothing is planned. How long the job may run comes from the gate file, because the SDK sets an hour if nobody set a time. The
trainer's keep-alive is left out, because nothing follows the training. All else is laid over the gate's own request.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tasks.launchers.base import LaunchRejected, Work
from tasks.launchers.sagemaker.request.difference import differences
from tasks.launchers.sagemaker.request.overrides import laid_over

WHOSE = "model_trainer"
MACHINES = (
    "RoleArn", "ResourceConfig", "VpcConfig", "EnableInterContainerTrafficEncryption", "EnableNetworkIsolation",
    "EnableManagedSpotTraining",
)  # fmt: skip
OF_THE_GATE = (
    *MACHINES,
    "TrainingJobName",
    "StoppingCondition",
    "OutputDataConfig",
    "AlgorithmSpecification",
)
# The image is the trainer's already, and its command comes behind the gate's agent.
STARTS = ("TrainingImage", "ContainerEntrypoint", "ContainerArguments")


def overlay(theirs: Mapping[str, Any], ours: Mapping[str, Any], work: Work) -> dict[str, object]:
    """The training's request. `ours` is what a plain command would have: entrypoint, channel, tags and machines.

    Raises LaunchRejected for what is the gate's own, and with both values where the trainer asks for other machines.
    """
    wrong = differences(_machines(theirs), ours)
    if wrong:
        text = "; ".join(f"{each.field} is {each.sent!r} there and {each.has!r} here" for each in wrong)
        message = f"the {WHOSE} asks for other machines than this gate checks: {text}. Let both say the same."
        raise LaunchRejected(message)
    rest = {key: value for key, value in theirs.items() if key not in OF_THE_GATE and value not in ({}, [])}
    rest["AlgorithmSpecification"] = _without(theirs.get("AlgorithmSpecification", {}), STARTS)
    return {**laid_over(ours, rest, work, WHOSE), "OutputDataConfig": _output(theirs, ours)}


def _machines(theirs: Mapping[str, Any]) -> dict[str, Any]:
    chosen = {key: theirs[key] for key in MACHINES if key in theirs}
    return {
        **chosen,
        "ResourceConfig": _without(theirs.get("ResourceConfig", {}), ("KeepAlivePeriodInSeconds",)),
    }


def _without(table: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {key: value for key, value in table.items() if key not in names}


def _output(theirs: Mapping[str, Any], ours: Mapping[str, Any]) -> dict[str, Any]:
    """The trainer's own output place. With network isolation the reports come by it, and are looked for in the gate's."""
    wanted, own = theirs.get("OutputDataConfig", {}), ours["OutputDataConfig"]
    if wanted.get("S3OutputPath") in (None, own["S3OutputPath"]):
        return {**wanted, **own}
    if ours.get("EnableNetworkIsolation"):
        raise LaunchRejected(
            f"the {WHOSE}'s output goes to {wanted['S3OutputPath']}, but with network isolation the reports come by it, and are"
            f" looked for in {own['S3OutputPath']}. Leave its OutputDataConfig.s3_output_path out."
        )
    return dict(wanted)
