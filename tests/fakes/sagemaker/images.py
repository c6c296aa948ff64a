"""What an image URI stands for: there is no Docker here, so an image is a PATH, an environment and an entrypoint."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
OURS = "123456789012.dkr.ecr.us-west-2.amazonaws.com/prelaunch"
SYSTEM = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True)
class Image:
    """`path` is put before the system's. The default is this repository's own image: its agent, by this interpreter."""

    path: tuple[str, ...] = (str(Path(sys.executable).parent),)
    environment: dict[str, str] = field(default_factory=lambda: {"PYTHONPATH": str(ROOT)})
    entrypoint: tuple[str, ...] = ("python3", "-m", "container.agent")
    working_directory: str = str(ROOT)

    def command(self, algorithm: dict[str, Any]) -> list[str]:
        """What runs. API reference, AlgorithmSpecification: ContainerEntrypoint and ContainerArguments override the image's;

        "How Amazon SageMaker runs your training image": without them `docker run <image> train`.
        """
        entrypoint, arguments = algorithm.get("ContainerEntrypoint"), algorithm.get("ContainerArguments")
        if entrypoint:
            return [*entrypoint, *(arguments or ())]
        return [*self.entrypoint, *(arguments or ("train",))]

    @property
    def search(self) -> str:
        """PATH inside."""
        return os.pathsep.join((*self.path, SYSTEM))


def images(given: dict[str, dict[str, Any]]) -> dict[str, Image]:
    """URI prefix -> image; ours is always there."""
    rows: dict[str, dict[str, Any]] = {OURS: {}, **given}
    return {prefix: Image(**row) for prefix, row in rows.items()}


def find(table: dict[str, Image], uri: str) -> Image | None:
    """The image with the longest prefix that fits."""
    fitting = [prefix for prefix in table if uri.startswith(prefix)]
    return table[max(fitting, key=len)] if fitting else None


def missing(uri: str, role: str) -> str:
    """FailureReason where ECR has no such image."""
    repository = uri.partition("/")[2].partition(":")[0].partition("@")[0] or uri
    return (
        f"ClientError: Cannot find repository: {repository} in registry ID: {uri.partition('.')[0]} Please check if your ECR "
        f"repository exists and role {role} has proper pull permissions for SageMaker: ecr:BatchCheckLayerAvailability, "
        "ecr:BatchGetImage, ecr:GetDownloadUrlForLayer"
    )
