"""Finds out which hosts take part, and which one this is: from a person's list, a pod's settings, SageMaker's
file, Slurm, or this host alone.

PlaceUnknown      there are several nodes, and nothing says which; the message has the remedy
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from checks.bundle import Bundle
from checks.documents.hostlist import HostListError, expand
from checks.model import NODE_NAME
from container.agent import sagemaker
from container.agent.settings import Settings


class PlaceUnknown(Exception):
    """Nothing usable says which hosts take part."""


@dataclass(frozen=True)
class Hosts:
    """The nodes in rank order, this one's name, and the interface.

    `addresses` are what their names resolve by, () where the names themselves do.
    """

    names: tuple[str, ...]
    node: str
    interface: str = ""
    addresses: tuple[str, ...] = ()

    @property
    def first(self) -> str:
        """The first host, which keeps the roll."""
        return self.names[0]

    @property
    def is_first(self) -> bool:
        """Whether this host is the first one."""
        return self.node == self.first

    def resolvable(self, name: str) -> str:
        """What to resolve for the address of the node of that name."""
        return self.addresses[self.names.index(name)] if self.addresses else name


def find(settings: Settings, bundle: Bundle | None) -> Hosts:
    """The hosts of this job. Raises PlaceUnknown."""
    if settings.hosts:
        names = tuple(settings.hosts.split(","))
        if len(set(names)) < len(names) or not all(re.fullmatch(NODE_NAME, name) for name in names):
            raise PlaceUnknown(f"PRELAUNCH_HOSTS is no list of different names: {settings.hosts:.200}.")
        if settings.node not in names:
            raise PlaceUnknown(
                f"{settings.node or 'this host'} is not among {', '.join(names[:8])}. Correct PRELAUNCH_NODE."
            )
        return Hosts(names, settings.node, settings.interface)
    if settings.pods:
        return _of_pods(settings)
    path = settings.root / "input" / "config" / "resourceconfig.json"
    try:
        resources = sagemaker.parse_resources(path.read_text())
    except (FileNotFoundError, NotADirectoryError):
        return _of_slurm(os.environ, settings.interface) or _single_host(path, bundle)
    except (OSError, UnicodeDecodeError, sagemaker.ResourceError) as error:
        raise PlaceUnknown(f"{path} cannot be used: {error}") from error
    return Hosts(resources.hosts, resources.current, resources.interface)


def _of_pods(settings: Settings) -> Hosts:
    """The pods of a job of Kubernetes, whose headless service gives each of them a name of its own. Raises PlaceUnknown."""
    number = settings.pod.rpartition("-")[2]  # operators number their pods at the end of the name
    if not number.isdecimal() or int(number) >= settings.pods or "%" not in settings.pod_address:
        raise PlaceUnknown(
            f"PRELAUNCH_POD is {settings.pod!r:.40} of {settings.pods} pods, whose names are {settings.pod_address!r:.80}. "
            "The launcher sets all three."
        )
    numbers = list(map(str, range(settings.pods)))
    names = tuple(f"node-{number}" for number in numbers)
    addresses = tuple(settings.pod_address.replace("%", number) for number in numbers)
    return Hosts(names, names[int(number)], settings.interface, addresses=addresses)


def _of_slurm(environment: Mapping[str, str], interface: str) -> Hosts | None:
    """The nodes of this step of a Slurm job, as Slurm has them now: after a requeue or a replacement they are others.

    None outside of Slurm. Sources: srun(1), "OUTPUT ENVIRONMENT VARIABLES". Raises PlaceUnknown.
    """
    listed = environment.get("SLURM_STEP_NODELIST") or environment.get("SLURM_JOB_NODELIST", "")
    if not listed:
        return None
    try:
        names = tuple(expand(listed))
    except HostListError as error:
        raise PlaceUnknown(f"SLURM_STEP_NODELIST cannot be used: {error}") from error
    node, index = environment.get("SLURMD_NODENAME", ""), environment.get("SLURM_NODEID", "")
    if not node and index.isdecimal() and int(index) < len(names):
        node = names[int(index)]
    if node not in names or not all(re.fullmatch(NODE_NAME, name) for name in names):
        message = f"SLURMD_NODENAME {node!r:.80} is not among the nodes of this step, {listed:.200}. Start the agent with srun."
        raise PlaceUnknown(message)
    return Hosts(names, node, interface)


def _single_host(path: Path, bundle: Bundle | None) -> Hosts:
    declared = bundle.declared if bundle else None
    if declared is not None and declared.nodes != 1:
        raise PlaceUnknown(
            f"{declared.nodes} nodes are declared, and nothing names them: there is no {path}, and "
            "PRELAUNCH_HOSTS is not set."
        )
    wanted = next(iter(declared.node_names if declared else ()), "") or socket.gethostname()
    name = wanted if re.fullmatch(NODE_NAME, wanted) else "node-0"
    return Hosts((name,), name)
