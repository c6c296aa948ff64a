"""JobSpec -> the processes of a local job. Pure: it reads neither disk, nor network, nor environment."""

from __future__ import annotations

import hashlib
import re
import sys
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated

from checks import bundle as bundles
from checks.exchange import secret_key
from checks.process.environment import CODE
from checks.value_types import DecodeError, Range, Text
from tasks.launchers.base import JobSpec, LaunchRejected, Plan, Request, Work
from tasks.launchers.job_rules import filled, require_end, require_files, require_name
from tasks.launchers.local import container
from tasks.launchers.local.container import ContainerEngine, ContainerSettings, Submitter

# A script by itself, which needs nothing of this package: the nodes' interpreter may be another one.
PACKAGES = Path(__file__).parents[3]
ENTER = str(Path(__file__).with_name("enter_namespace.py"))
JOB_NAME = r"[a-z0-9][a-z0-9-]{0,62}"
RESERVED = (
    "job.json",
    "code",
    "roster.json",
    "shepherd.json",
    "state.json",
    "shepherd.log",
    "hosts",
    "life",
    "out",
    "nodes",
)
MOUNT = r"(/|\{here\})[^:]*:(/|\{here\})[^:]*(:[a-zA-Z,]+)?"  # {here}: the gate file's folder, which the gate has put in
# What would take a container from its launcher. Short flags without a value can stand together, as in -dit.
LAUNCHER_WORDS = re.compile(r"(-[iPqt]*d[diPqt]*|--detach|--name|--restart|--cidfile)(=.*)?", re.DOTALL)
MAX_NODES = 240  # the last octets 10 to 249 of one /24


class LocalNetwork(StrEnum):
    """All nodes on 127.0.0.1, or each with a network, address and host name of its own."""

    LOOPBACK = "loopback"
    NAMESPACES = "namespaces"


@dataclass(frozen=True)
class LocalOptions:
    """`subnet` is three octets, tried first; `prepared` names a network that the caller made and keeps.

    A node gets SIGTERM `grace_s` before SIGKILL, and keeps `log_bytes` of its log. `python` is the nodes'
    interpreter, "" this one. With `in_job`, checks and training are one job: nobody else's check stands between them.

    With a `container_image` each node is a container of it, and `python` is the image's, "" its python3. The engine's client gets
    `container_mounts` (source:target, or source:target:ro) and `container_arguments` as further words.
    """

    network: LocalNetwork = LocalNetwork.LOOPBACK
    subnet: Annotated[str, Text(r"\d{1,3}\.\d{1,3}\.\d{1,3}", 11, "must be three numbers")] = "10.78.0"
    prepared: Annotated[str, Text(r"([a-z][a-z0-9-]*)?", 40, "must have only a-z, 0-9 and dashes")] = ""
    grace_s: Annotated[float, Range(0, 600)] = 5.0
    log_bytes: Annotated[int, Range(0, 1 << 40)] = 64 << 20
    python: str = ""
    in_job: bool = False
    container_image: Annotated[str, Text(r"([a-z0-9][^\s]*)?", 1000, "must be an image, without spaces")] = ""
    container_engine: ContainerEngine = ContainerEngine.DOCKER
    container_mounts: tuple[str, ...] = ()
    container_arguments: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Raise LaunchRejected for a prepared network that nobody uses, and for options that contradict."""
        if self.prepared and self.network != LocalNetwork.NAMESPACES:
            raise LaunchRejected(f"prepared = {self.prepared!r} needs network = 'namespaces'.")
        if (self.container_mounts or self.container_arguments) and not self.container_image:
            raise LaunchRejected("container_mounts and container_arguments need a container_image. Name one.")
        for argument in self.container_arguments:
            if LAUNCHER_WORDS.fullmatch(argument):
                raise LaunchRejected(
                    f"container_arguments: {argument!r:.80} is the launcher's own: a container has its name and ends with its job."
                )
        for mount in self.container_mounts:
            if not re.fullmatch(MOUNT, mount):
                message = f"container_mounts: {mount!r:.200} is not source:target or source:target:ro with two absolute paths."
                raise LaunchRejected(message)
        joins_namespaces = self.container_image and self.network == LocalNetwork.NAMESPACES
        if joins_namespaces and self.container_engine == ContainerEngine.DOCKER:
            raise LaunchRejected(
                "docker cannot join a network namespace that it did not make. "
                "Set network = 'loopback', or container_engine = 'podman'."
            )

    @property
    def interpreter(self) -> str:
        """The interpreter of the nodes."""
        return self.python or ("python3" if self.container_image else sys.executable)

    def settings_for(self, job: JobSpec) -> ContainerSettings:
        """What the job's containers are made of. A training may have an image of its own."""
        image = (job.image if job.work.trains else "") or self.container_image
        return ContainerSettings(
            ContainerEngine(self.container_engine), image, self.container_mounts, self.container_arguments
        )


def node_names(nodes: int) -> tuple[str, ...]:
    """node-0, node-1, ..."""
    return tuple(f"node-{index}" for index in range(nodes))


def network_name(folder: Path, options: LocalOptions) -> str:
    """The name that the job's namespaces begin with; "" on loopback. One job folder, one name."""
    return "" if options.network == LocalNetwork.LOOPBACK else options.prepared or f"pl-{_digest(folder)}"


def label_value(folder: Path, options: LocalOptions) -> str:
    """The label of the job's containers; "" where nodes are processes."""
    return f"pl-{_digest(folder)}" if options.container_image else ""


def make_plan(job: JobSpec, folder: Path, options: LocalOptions, submitter: Submitter) -> Plan:
    """One process per node, be it the node or the client of its container. PRELAUNCH_ATTEMPT is known only at the start, so it reads
    "{attempt}" here.

    Raises LaunchRejected. The process also gets the submitter's environment, cleaned (see nodes.py); a container does not.
    """
    _check(job)
    values = {"{job}": str(folder), "{out}": str(folder / "out"), "{python}": options.interpreter}
    command = filled(job.command, values)
    requests, form = [], "container" if options.container_image else "process"
    for index, node in enumerate(node_names(job.nodes)):
        environment = _environment(job, node, folder)
        if options.container_image:
            environment.pop(CODE, None)  # the container finds it by the words that start the checks
            argv = _container_command(job, folder, options, submitter, index, command, tuple(environment))
        else:
            argv = (*_namespace_words(options, folder, index), *command)
        requests.append(Request(form, job.name, node, argv, environment, str(folder / "nodes" / node)))
    return Plan(job, tuple(requests))


def _namespace_words(options: LocalOptions, folder: Path, index: int) -> tuple[str, ...]:
    """The words before a process that is to run in a namespace of its own."""
    if not (network := network_name(folder, options)):
        return ()
    node = node_names(index + 1)[index]
    return (options.interpreter, "-I", ENTER, f"{network}-{index}", node, str(folder / "hosts"))


def _container_command(
    job: JobSpec,
    folder: Path,
    options: LocalOptions,
    submitter: Submitter,
    index: int,
    command: tuple[str, ...],
    variables: tuple[str, ...],
) -> tuple[str, ...]:
    if any(":" in str(path) for path in (folder, PACKAGES, submitter.state)):
        raise LaunchRejected(
            f"{folder}: docker and podman mount no path with a colon. Choose another [store] path or work."
        )
    node, network = node_names(index + 1)[index], network_name(folder, options)
    label, settings = label_value(folder, options), options.settings_for(job)
    arguments = [
        *container.run_words(settings, submitter, declared_gpus(job)),
        *("--name", f"{label}-{index}", "--label", container.label_of(label)),
        *container.network_words(f"{network}-{index}" if network else "", node, folder / "hosts"),
        *container.mounted(folder),
        *container.mounted(PACKAGES / "checks", "ro"),
        *(() if submitter.state is None else container.mounted(submitter.state)),
        *("--workdir", str(folder / "nodes" / node)),
    ]
    # The client takes the values from its own environment, so that no list of processes shows them.
    for name in variables:
        arguments += ["--env", name]
    start = (
        () if job.work is Work.COMMAND else (options.interpreter, "-c", container.ENTER, str(folder / "code"))
    )
    return (*arguments, *container.operator_words(settings), settings.image, *start, *command)


def declared_gpus(job: JobSpec) -> int:
    """The GPUs of a node that the gate declares; 0 for a job without a bundle."""
    try:
        return bundles.load(job.files["bundle.json"]).declared.gpus_per_node
    except (KeyError, DecodeError):
        return 0


def _digest(folder: Path) -> str:
    return hashlib.sha256(str(folder).encode()).hexdigest()[:8]


def _environment(job: JobSpec, node: str, folder: Path) -> dict[str, str]:
    ours = {
        "PRELAUNCH_NODE": node,
        "PRELAUNCH_ROSTER": str(folder / "roster.json"),
        "PRELAUNCH_ATTEMPT": "{attempt}",
        secret_key.VARIABLE: str(folder / "nodes" / node / secret_key.FILE),
        **({} if job.work is Work.COMMAND else {CODE: str(folder / "code")}),
    }
    return dict(sorted({**job.environment, **ours}.items()))


def _check(job: JobSpec) -> None:
    require_name(job, JOB_NAME, "Use lower case and dashes.")
    if not job.command:
        raise LaunchRejected(f"{job.name} has no command. Set the command that every node runs.")
    if not 1 <= job.nodes <= MAX_NODES:
        raise LaunchRejected(f"{job.name} asks for {job.nodes} nodes; this machine plays 1 to {MAX_NODES}.")
    require_end(job)
    require_files(job, RESERVED)
    for name, value in job.environment.items():
        if not name or "=" in name or "\0" in name + value:
            raise LaunchRejected(f"{job.name}: {name!r:.80} cannot be an environment variable.")
