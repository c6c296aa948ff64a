"""JobSpec -> the processes of a local job. Pure: it reads neither disk, nor network, nor environment."""

from __future__ import annotations

import hashlib
import re
import sys
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path, PurePath
from typing import Annotated

from checks.documents.decode import nearest
from checks.exchange import secret_key
from checks.process.environment import CODE
from checks.value_types import Range, Text
from tasks.launchers.base import JobSpec, LaunchRejected, Plan, Request, Work

# A script by itself, which needs nothing of this package: the nodes' interpreter may be another one.
ENTER = str(Path(__file__).with_name("enter_namespace.py"))
JOB_NAME = r"[a-z0-9][a-z0-9-]{0,62}"
FILE_NAME = r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}"
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
MAX_NODES = 240  # the last octets 10 to 249 of one /24
SECRET = re.compile("KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL", re.IGNORECASE)


class LocalNetwork(StrEnum):
    """All nodes on 127.0.0.1, or each with a network, address and host name of its own."""

    LOOPBACK = "loopback"
    NAMESPACES = "namespaces"


@dataclass(frozen=True)
class LocalOptions:
    """`subnet` is three octets, tried first; `prepared` names a network that the caller made and keeps.

    A node gets SIGTERM `grace_s` before SIGKILL, and keeps `log_bytes` of its log. `python` is the nodes'
    interpreter, "" this one. With `in_job`, checks and training are one job: nobody else's check stands between them.
    """

    network: LocalNetwork = LocalNetwork.LOOPBACK
    subnet: Annotated[str, Text(r"\d{1,3}\.\d{1,3}\.\d{1,3}", 11)] = "10.78.0"
    prepared: Annotated[str, Text(r"([a-z][a-z0-9-]*)?", 40)] = ""
    grace_s: Annotated[float, Range(0, 600)] = 5.0
    log_bytes: Annotated[int, Range(0, 1 << 40)] = 64 << 20
    python: str = ""
    in_job: bool = False

    def __post_init__(self) -> None:
        """Raise LaunchRejected for a network of another name, or one prepared that nobody uses."""
        kinds = tuple(kind.value for kind in LocalNetwork)
        if self.network not in kinds:
            near = nearest(self.network, kinds) or kinds[0]
            raise LaunchRejected(
                f"network {self.network!r} is none of {', '.join(kinds)}. Did you mean {near!r}?"
            )
        if self.prepared and self.network != LocalNetwork.NAMESPACES:
            raise LaunchRejected(f"prepared = {self.prepared!r} needs network = 'namespaces'.")


def node_names(nodes: int) -> tuple[str, ...]:
    """node-0, node-1, ..."""
    return tuple(f"node-{index}" for index in range(nodes))


def network_name(folder: Path, options: LocalOptions) -> str:
    """The name that the job's namespaces begin with; "" on loopback. One job folder, one name."""
    if options.network == LocalNetwork.LOOPBACK:
        return ""
    return options.prepared or f"pl-{hashlib.sha256(str(folder).encode()).hexdigest()[:8]}"


def make_plan(job: JobSpec, folder: Path, options: LocalOptions) -> Plan:
    """One process per node. PRELAUNCH_ATTEMPT is known only at the start, so it reads "{attempt}" here.

    Raises LaunchRejected. The process also gets the submitter's environment, cleaned (see nodes.py).
    """
    _check(job)
    python = options.python or sys.executable
    words = {"{job}": str(folder), "{out}": str(folder / "out"), "{python}": python}
    command = tuple(
        re.sub(r"\{(job|out|python)\}", lambda found: words[found[0]], part) for part in job.command
    )
    network = network_name(folder, options)
    requests = []
    for index, node in enumerate(node_names(job.nodes)):
        argv = (*_enter(python, f"{network}-{index}", node, folder), *command) if network else command
        requests.append(
            Request(
                "process", job.name, node, argv, _environment(job, node, folder), str(folder / "nodes" / node)
            )
        )
    return Plan(job, tuple(requests))


def _enter(python: str, namespace: str, node: str, folder: Path) -> tuple[str, ...]:
    return (python, "-I", ENTER, namespace, node, str(folder / "hosts"))


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
    if not re.fullmatch(JOB_NAME, job.name):
        raise LaunchRejected(
            f"job name {job.name!r:.80} is not of the form {JOB_NAME}. Use lower case and dashes."
        )
    if not job.command:
        raise LaunchRejected(f"{job.name} has no command. Set the command that every node runs.")
    if not 1 <= job.nodes <= MAX_NODES:
        raise LaunchRejected(f"{job.name} asks for {job.nodes} nodes; this machine plays 1 to {MAX_NODES}.")
    if not 0 < job.max_runtime_s < float("inf"):
        raise LaunchRejected(f"{job.name} may run for {job.max_runtime_s} s. Give a time above 0 that ends.")
    for name in job.files:
        if not re.fullmatch(FILE_NAME, name) or name in RESERVED or PurePath(name).name != name:
            raise LaunchRejected(f"{job.name}: a file cannot be named {name!r:.80}. Use a plain, free name.")
    for name, value in job.environment.items():
        if not name or "=" in name or "\0" in name + value:
            raise LaunchRejected(f"{job.name}: {name!r:.80} cannot be an environment variable.")
