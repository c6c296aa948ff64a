"""What SageMaker finds a warm pool by: a job gets kept machines only if all of it is equal. Pure.

Source: "Matching training jobs" in "Train using SageMaker-managed warm pools", AWS documentation. Image, entrypoint,
environment, hyperparameters and output may differ, so that a training image follows the check image.
"""

from __future__ import annotations

from collections.abc import Mapping

from tasks.launchers.sagemaker.limits import at

PATHS = (
    "RoleArn",
    "ResourceConfig.InstanceType",
    "ResourceConfig.InstanceCount",
    "ResourceConfig.VolumeSizeInGB",
    "ResourceConfig.VolumeKmsKeyId",
    "VpcConfig.SecurityGroupIds",
    "VpcConfig.Subnets",
    "EnableInterContainerTrafficEncryption",
    "EnableNetworkIsolation",
    "SessionChainingConfig.EnableSessionTagChaining",
)


def pool_key(body: Mapping[str, object]) -> dict[str, object]:
    """Path -> value, None where it is absent; lists have no order, and false is what absent means."""
    return {path: _plain(at(body, path)) for path in PATHS}


def _plain(value: object) -> object:
    return tuple(sorted(map(str, value))) if isinstance(value, list | tuple) else value or None
