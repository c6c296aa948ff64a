"""A local job's nodes in containers of docker or podman: the command that starts one, and the end of those that are left.

The container gets the job's folder, the checks of this installation, the folder of the machine's open findings and the kernel log. Of
the submitter's environment it gets only the job's own variables. A container of docker belongs to its daemon, so that a signal to
the client may leave it running: whoever ends the job also removes what bears its label.

Sources: docker-run(1) of Docker 27, podman-run(1) of Podman 4.3 and 5; NVIDIA Container Toolkit,
"Support for Container Device Interface".
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

LABEL = "dev.prelaunch.job"
# Run by the image's own Python, which is 3.10 or newer: what the image set for the training is put aside for it, as by every engine.
ENTER = """\
import os, sys
code, *command = sys.argv[1:]
sys.path.insert(0, code)
from checks.process.environment import for_checks
os.execvpe(command[0], command, for_checks(os.environ, code, {"OMP_NUM_THREADS": "1"}))
"""
REMOVE_S = 30.0
# podman fails once for a container whose conmon was killed, and then knows that it has ended. The last look finds none.
REMOVE_TRIES = 4


class ContainerEngine(StrEnum):
    """The program that starts containers. Others that take docker's options, such as nerdctl, were not tried."""

    DOCKER = "docker"
    PODMAN = "podman"


@dataclass(frozen=True)
class ContainerSettings:
    """What [cluster.options] says of containers."""

    engine: ContainerEngine
    image: str
    mounts: tuple[str, ...]
    arguments: tuple[str, ...]


@dataclass(frozen=True)
class Submitter:
    """Who starts the containers: the user and group, and the folder of this machine's state, None if there is none."""

    user: int
    group: int
    state: Path | None


def label_of(folder_name: str) -> str:
    """The value of the label that the containers of a job bear."""
    return f"{LABEL}={folder_name}"


def run_words(settings: ContainerSettings, submitter: Submitter, gpus: int) -> tuple[str, ...]:
    """The first words of every container, up to where it gets a name.

    An init is process 1, which hands signals on and reaps. The image is never pulled: a gate waits for no download. Shared memory is
    the machine's, for NCCL and data loaders want more than an engine's 64 MiB. The kernel log needs its device and a capability.
    SELinux would keep the job's folder from the container. The image's own entrypoint is left out, as by Kubernetes and pyxis: not
    every one starts the words that follow it.
    """
    root, docker = submitter.user == 0, settings.engine is ContainerEngine.DOCKER
    owner = f"{submitter.user}:{submitter.group}" if docker else "0:0"
    arguments = [settings.engine.value, "run", "--rm", "--init", "--pull", "never", "--user", owner]
    arguments += ["--ipc", "host", "--security-opt", "label=disable", "--entrypoint", ""]
    if root or docker:
        arguments += ["--device", "/dev/kmsg:/dev/kmsg:r", "--cap-add", "SYSLOG"]
    if gpus:
        arguments += ["--gpus", "all"] if docker else ["--device", "nvidia.com/gpu=all"]
        if root or docker:
            arguments += ["--ulimit", "memlock=-1:-1"]
    return tuple(arguments)


def operator_words(settings: ContainerSettings) -> tuple[str, ...]:
    """The operator's own words, which come last: of an option that is given twice the engines take the last."""
    mounts = (argument for mount in settings.mounts for argument in ("--volume", mount))
    return (*mounts, *settings.arguments)


def remove(engine: str, label: str) -> str:
    """End and remove every container with that label. Returns "" once there is none, else why it cannot be said or done."""
    if not engine:
        return ""
    if shutil.which(engine) is None:
        return f"its containers may be left: there is no {engine} on the PATH"
    problem = ""
    for _ in range(REMOVE_TRIES):
        try:
            done = called(
                (engine, "ps", "--all", "--quiet", "--filter", f"label={label_of(label)}"), REMOVE_S
            )
            if done.returncode == 0:
                left = done.stdout.split()
                if not left:
                    return ""
                # podman waits 10 s for the end of what ignores SIGTERM, docker kills at once.
                at_once = ("--time", "0") if engine == ContainerEngine.PODMAN else ()
                done = called((engine, "rm", "--force", *at_once, "--volumes", *left), REMOVE_S)
        except (OSError, subprocess.TimeoutExpired) as error:
            return f"its containers may be left: {engine}: {error}"
        problem = " ".join(done.stderr.split())[:300]
    return f"its containers may be left: {engine}: {problem}"


def called(
    argv: Sequence[str], seconds: float, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """What a command gave, away from the folder of whoever calls it. Raises OSError and TimeoutExpired."""
    return subprocess.run(
        argv,
        cwd="/",
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=seconds,
        check=False,
    )


def network_words(namespace: str, node: str, hosts: Path) -> tuple[str, ...]:
    """The network of a node's container: a namespace with a file of its own for names, or the machine's where that is ""."""
    if not namespace:
        return ("--network", "host")
    names = ("--hostname", node, "--volume", f"{hosts}:/etc/hosts:ro")
    return ("--network", f"ns:/run/netns/{namespace}", *names)


def mounted(path: Path, mode: str = "rw") -> tuple[str, str]:
    """A path that is the same in the container."""
    return "--volume", f"{path}:{path}:{mode}"
