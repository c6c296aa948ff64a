"""The switches to which a node is connected, the nearest first: from the operator or from Slurm, and in a report. Pure.

Each node looks itself up before it runs anything, and its identity holds the answer under SWITCHES. There "" means that switches are
described and this node is connected to none of them; without the key no switches are described.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from checks.model import CLUSTER, Cause, Finding, Level, Report
from checks.value_types import listed_names

SWITCHES = "switches"
COMMA = ","
MOST_LEVELS = 16
MOST_CHARACTERS = 253
CHECK = "topology"


@dataclass(frozen=True)
class Topology:
    """The gate file's description of the switches.

    `under` is switches (nearest first, comma-separated) -> the nodes that are connected to them, by any of their names: the node's,
    the host's, the EC2 instance id. `names` is a regular expression with one group, searched in the names of nodes that `under`
    lacks; nodes for which the group is equal are connected to the same switch.
    """

    under: Mapping[str, tuple[str, ...]]
    names: str = ""

    def switches(self, names: Sequence[str]) -> tuple[str, ...]:
        """The switches of the node with these names, the nearest first; () if it is connected to none."""
        table = _by_name(self.under)
        for name in (*names, *map(_short, names)):
            if name.casefold() in table:
                return split(table[name.casefold()])
        return next(filter(None, (by_name(self.names, name) for name in names)), ())


def grouped(switches: Mapping[str, Sequence[str]]) -> dict[str, tuple[str, ...]]:
    """Makes `Topology.under`, which names each switch once, from node -> its switches."""
    under: dict[str, list[str]] = {}
    for node, own in switches.items():
        under.setdefault(COMMA.join(own), []).append(node)
    return {path: tuple(nodes) for path, nodes in under.items()}


def split(text: str) -> tuple[str, ...]:
    """Comma-separated switches, each once, without texts that are too long to be a name."""
    names = dict.fromkeys(name.strip() for name in text.split(COMMA))
    return tuple(name for name in names if 0 < len(name) <= MOST_CHARACTERS)[:MOST_LEVELS]


def switches_of(report: Report) -> Mapping[str, tuple[str, ...]]:
    """Node name -> its switches, the nearest first; () if they are unknown."""
    return {node.name: split(node.identity.get(SWITCHES, "")) for node in report.nodes}


def judge(report: Report) -> tuple[Finding, ...]:
    """A WARN if switches are described and some nodes are connected to none: then a bad switch looks like bad nodes."""
    described = [node for node in report.nodes if SWITCHES in node.identity]
    lost = [node.name for node in described if not split(node.identity[SWITCHES])]
    if not lost:
        return ()
    message = (
        f"the topology names none of the {len(described)} nodes: a bad switch cannot be distinguished from bad nodes"
        if len(lost) == len(report.nodes)
        else f"the topology leaves out {len(lost)} of {len(report.nodes)} nodes ({listed_names(lost)})"
    )
    evidence = "\n".join(f"{node.name}: host {node.identity.get('host', '')}" for node in described[:16])
    remedy = (
        "Correct [cluster] topology or topology_names: nodes are found by name, host name or EC2 instance id."
    )
    return (Finding(Level.WARN, Cause.EVIDENCE, CHECK, CLUSTER, message, evidence, remedy),)


def by_address(address: str, pattern: str, own_names: Iterable[str]) -> tuple[str, ...] | None:
    """SLURM_TOPOLOGY_ADDR and _PATTERN ("spine.leaf.node", "switch.switch.node") -> switches, the nearest first.

    None if Slurm names no switches ("node" alone) or describes another node: an environment that was forwarded from the first node
    would connect all nodes to its switches. Several switches of one level stay one name, in Slurm's own brackets. Source: srun(1),
    "SLURM_TOPOLOGY_ADDR".
    """
    kinds = pattern.split(".")
    levels = address.split(".", len(kinds) - 1)  # the name of a node may contain dots
    if len(levels) != len(kinds) or len(kinds) < 2 or kinds[-1] != "node":
        return None
    names = {name.casefold() for name in own_names}
    if levels[-1].casefold() not in names | {_short(name) for name in names}:
        return None
    return split(COMMA.join(level.replace(COMMA, "+") for level in reversed(levels[:-1])))


def by_name(expression: str, name: str) -> tuple[str, ...]:
    r"""The switch in a node's own name: with "rack(\d+)" it is rack12 for gpu-rack12-3; () if the name contains none."""
    if not expression:
        return ()
    try:
        match = re.search(expression, name)
    except re.error:  # the gate's Python may support more than this node's
        return ()
    return (f"{_prefix(expression)}{match[1]}",) if match and match.re.groups and match[1] else ()


def why_no_expression(expression: str) -> str:
    """Why this text cannot be a `Topology.names`, or ""."""
    try:
        groups = re.compile(expression).groups
    except re.error as error:
        return f"{expression!r:.80} is no regular expression: {error}"
    if groups == 1:
        return ""
    return f"{expression!r:.80} has {groups} groups; the one that names the switch is wanted"


def _prefix(expression: str) -> str:
    """The letters right before the group, so that a switch is called rack12 and not 12."""
    match = re.match(r"[^\\\[(|]*?([A-Za-z]+)\((?!\?)", expression)
    return match[1] if match else ""


def _by_name(under: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Any name -> switches. The first label of a host's name is used if no other host has the same one."""
    table = {name.casefold(): path for path, nodes in under.items() for name in nodes}
    short: dict[str, set[str]] = {}
    for name, path in table.items():
        short.setdefault(_short(name), set()).add(path)
    return {**{name: paths.pop() for name, paths in short.items() if len(paths) == 1}, **table}


def _short(name: str) -> str:
    return name.partition(".")[0]
