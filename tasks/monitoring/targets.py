"""The nodes that Prometheus scrapes: those that were declared, in a file for its file-based discovery.

TargetsError     the declaration does not say which nodes there are; carries the remedy
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from checks.documents.hostlist import HostListError, expand
from checks.facts.builtin import builtin
from checks.model import NODE_NAME, Declared
from tasks.gate_file.model import Gate
from tasks.launchers.base import LaunchRejected
from tasks.launchers.registry import launcher_for

ADDRESS = r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\]"
LOOPBACK = "127.0.0.1"
# Commas and blanks that are outside of brackets.
BETWEEN = r"[,\s](?![^\[\]]*\])"
NAME_THEM = '--nodes NAME[=ADDRESS],... or Slurm\'s: --nodes "$(sinfo --all -h -N -o %N -p PARTITION | sort -u | paste -sd, -)".'


class TargetsError(Exception):
    """There are no targets. The message says why, and what to do."""


@dataclass(frozen=True)
class Target:
    """One declared node, and where its exporters answer (a host without a port).

    `gpus` are NVIDIA GPUs, None if the table of instance types does not say; `efa` is False if the node has no exporter for EFA.
    """

    address: str
    cluster: str
    node: str
    instance_type: str = ""
    gpus: int | None = None
    efa: bool = True


def targets_of(gate: Gate, nodes: str = "", without_efa: bool = False) -> tuple[Target, ...]:
    """The targets of a gate file's cluster; `nodes` is a list of names, each with "=ADDRESS" where the name does not resolve.

    `without_efa`: no exporter for EFA runs there. Raises TargetsError.
    """
    declared = gate.cluster.declared
    addresses = _targets(nodes) if nodes else _launchers_own(gate)
    if len(addresses) < declared.nodes:
        raise TargetsError(
            f"the gate file declares {declared.nodes} nodes of cluster {gate.cluster.name}, and --nodes names {len(addresses)}. "
            "Name every node that should be there, also one that is down: what is not named is not missed."
        )
    gpus, efa = _hardware(gate.declared(()))
    return tuple(
        Target(address, gate.cluster.name, node, declared.instance_type, gpus, efa and not without_efa)
        for node, address in addresses.items()
    )


def document(targets: Sequence[Target]) -> str:
    """The file for Prometheus' file_sd_configs, ordered by cluster and node. Labels that begin with __ end in its relabelling."""
    by_node: dict[tuple[str, str], Target] = {}
    for target in targets:
        other = by_node.setdefault((target.cluster, target.node), target)
        if other != target:
            message = f"node {target.node} of cluster {target.cluster} is declared twice, and differently."
            raise TargetsError(message)
    groups = [
        {
            "targets": [target.address],
            "labels": {
                "cluster": target.cluster,
                "node": target.node,
                "instance_type": target.instance_type,
                "__gpus": "" if target.gpus is None else str(target.gpus),
                "__efa": "yes" if target.efa else "no",
            },
        }
        for _, target in sorted(by_node.items())
    ]
    return json.dumps(groups, indent=1) + "\n"


def _targets(nodes: str) -> dict[str, str]:
    addresses: dict[str, str] = {}
    for entry in filter(None, re.split(BETWEEN, nodes)):
        names, equals, address = entry.partition("=")
        try:
            expanded = expand(names)
        except HostListError as error:
            raise TargetsError(f"--nodes: {error}.") from error
        if equals and len(expanded) > 1:
            raise TargetsError(f"--nodes: {entry!r:.80} gives {len(expanded)} nodes one address.")
        for name in expanded:
            where = address if equals else name
            if not re.fullmatch(NODE_NAME, name[:300]):
                raise TargetsError(f"--nodes: {name!r:.80} is not the name of a node.")
            if not re.fullmatch(ADDRESS, where[:300]):
                raise TargetsError(
                    f"--nodes: {where!r:.80} is not an address without a port, such as 10.0.0.7 or [fd00::7]."
                )
            if addresses.setdefault(name, where) != where:
                raise TargetsError(f"--nodes: {name} has two addresses.")
    if not addresses:
        raise TargetsError("--nodes names no node.")
    return addresses


def _launchers_own(gate: Gate) -> dict[str, str]:
    cluster = gate.cluster
    if cluster.launcher != "local":
        raise TargetsError(
            f"the gate file does not say which nodes cluster {cluster.name} has, because {cluster.launcher} chooses them. Name them: "
            f"{NAME_THEM}"
        )
    try:
        names = launcher_for(cluster.launcher, cluster.options, Path()).node_names(gate.declared(()).nodes)
    except LaunchRejected as error:
        raise TargetsError(str(error)) from error
    return dict.fromkeys(names, LOOPBACK)


def _hardware(declared: Declared) -> tuple[int | None, bool]:
    """The GPUs of a node, and whether it may have devices of EFA."""
    instance = builtin().merged(declared).instances.get(declared.instance_type)
    gpus = declared.gpus_per_node or (instance.gpus if instance and not instance.neuron_devices else 0)
    return gpus, not instance or instance.efa_devices != 0
