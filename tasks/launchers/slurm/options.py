"""What a gate file's [cluster.options] may say if the launcher is "slurm". Pure.

Sources: sbatch(1), srun(1) of Slurm 22.05 and 24.11; the README of NVIDIA's pyxis; Amazon SageMaker AI developer guide, "Automatic
node recovery and auto-resume" of HyperPod with Slurm.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from checks.value_types import Range, Text
from tasks.launchers.base import REPLACED_S, RESUMED_TWICE, LaunchRejected, NodePlacement

# One word of a #SBATCH line: no blank, no quote, nothing that begins a comment.
SbatchWord = Annotated[str, Text(r"[^\s\"'\\#;$`]*", 1000, "must have no spaces, quotes, \\ # ; $ or `")]
# A path on a #SBATCH line, where % is a pattern of sbatch(1), and in pyxis' list of mounts.
FOLDER = r"/[^\s\"'\\,:#;$`%]+"
FOLDER_FORM = "must be an absolute path without spaces, quotes and any of \\ , : # ; $ ` %"
JOIN_S = 180.0


@dataclass(frozen=True)
class SlurmOptions:
    """`folder` is on a file system that the nodes share with this machine; "" is the store's own folder.

    The words of sbatch have their own names here (`gpus_per_node` 0 asks for none). `exclusive` asks for whole nodes with
    all of their memory. `sbatch_file` holds more #SBATCH lines. `python` runs the checks on the nodes, "" is the first
    python3 there. `container_*` need pyxis. `interface` is the network interface of the collectives.

    `requeue` lets Slurm start a job again after it lost a node, unless it trains on nodes that passed before (PINNED).
    Where checks and training are one job, `auto_resume` lets HyperPod replace the node instead. With `exclude_failed` a
    refused gate submits another job, without the nodes that failed ([training] max_attempts). `start_minutes` is how
    long a job may wait in the queue, `grace_s` how long a command may take to end after SIGTERM (below slurm.conf's KillWait).
    """

    placement: NodePlacement = NodePlacement.IN_JOB
    folder: Annotated[str, Text(rf"({FOLDER})?", 512, FOLDER_FORM)] = ""
    partition: SbatchWord = ""
    account: SbatchWord = ""
    qos: SbatchWord = ""
    reservation: SbatchWord = ""
    constraint: SbatchWord = ""
    exclude: SbatchWord = ""
    exclude_failed: bool = False
    gres: SbatchWord = ""
    gpus_per_node: Annotated[int, Range(0, 64)] = 0
    exclusive: bool = True
    sbatch_file: str = ""
    container_image: Annotated[str, Text(r"\S*", 1000, "must have no spaces")] = ""
    container_mounts: tuple[str, ...] = ()
    container_env: tuple[str, ...] = ()
    python: Annotated[str, Text(r"(/\S+)?", 512, "must be an absolute path without spaces")] = ""
    interface: Annotated[str, Text(r"[A-Za-z0-9_.-]*", 15, "must be the name of a network interface")] = ""
    requeue: bool = True
    auto_resume: bool = False
    grace_s: Annotated[float, Range(0, 600)] = 20.0
    start_minutes: Annotated[float, Range(0.01, 40320)] = 1440.0
    poll_seconds: Annotated[float, Range(0.1, 300)] = 5.0

    def __post_init__(self) -> None:
        """Raise LaunchRejected for contradictions."""
        if (self.container_mounts or self.container_env) and not self.container_image:
            raise LaunchRejected("container_mounts and container_env need a container_image. Name one.")
        if self.auto_resume and self.placement is not NodePlacement.IN_JOB:
            raise LaunchRejected(
                'auto_resume needs placement = "in_job": a replaced node was not among those that passed.'
            )
        if self.auto_resume and self.exclude_failed:
            raise LaunchRejected(RESUMED_TWICE)

    @property
    def joins_s(self) -> float:
        """How long the nodes of one start wait for each other."""
        return REPLACED_S if self.auto_resume else JOIN_S
