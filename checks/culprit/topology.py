"""Which switches a node hangs under, nearest first: as the operator or Slurm said, and as a report holds it (pure).

Each node looks itself up before it runs anything, and its identity keeps the answer under SWITCHES. There "" means that
somebody described switches and this node is under none of them; without the key nobody described any.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from checks.model import CLUSTER, Cause, Finding, Level, Report

SWITCHES = "switches"
COMMA = ","
MOST_LEVELS = 16
MOST_CHARACTERS = 253
CHECK = "topology"


@dataclass(frozen=True)
class Topology:
    """What a gate file says of the switches.

    `under` is switches (nearest first, comma-separated) -> the nodes under them, by any name that they are known by: the
    node's, the host's, the EC2 instance id. `names` is a regular expression with one group, found in names of nodes that
    `under` lacks; nodes for which the group is equal hang under one switch.
    """

    under: Mapping[str, tuple[str, ...]]
    names: str = ""

    def switches(self, known: Sequence[str]) -> tuple[str, ...]:
        """The switches of the node that is known by these names, nearest first; () where it is under none."""
        table = _by_name(self.under)
        for name in (*known, *map(_short, known)):
            if name.casefold() in table:
                return split(table[name.casefold()])
        return next(filter(None, (by_name(self.names, name) for name in known)), ())


def grouped(switches: Mapping[str, Sequence[str]]) -> dict[str, tuple[str, ...]]:
    """Node -> its switches, turned into `Topology.under`, which names each switch once."""
    under: dict[str, list[str]] = {}
    for node, own in switches.items():
        under.setdefault(COMMA.join(own), []).append(node)
    return {path: tuple(nodes) for path, nodes in under.items()}


def split(text: str) -> tuple[str, ...]:
    """Comma-separated switches, each once, without what is too long to be one."""
    found = dict.fromkeys(part.strip() for part in text.split(COMMA))
    return tuple(part for part in found if 0 < len(part) <= MOST_CHARACTERS)[:MOST_LEVELS]


def switches_of(report: Report) -> Mapping[str, tuple[str, ...]]:
    """Node name -> its switches, nearest first; () where they are not known."""
    return {node.name: split(node.identity.get(SWITCHES, "")) for node in report.nodes}


def judge(report: Report) -> tuple[Finding, ...]:
    """A WARN where switches were described and nodes are under none: then no switch can be told from its nodes."""
    asked = [node for node in report.nodes if SWITCHES in node.identity]
    lost = [node.name for node in asked if not split(node.identity[SWITCHES])]
    if not lost:
        return ()
    some = f"{', '.join(lost[:4])}" + (f" and {len(lost) - 4} more" if len(lost) > 4 else "")
    said = (
        f"the topology names none of the {len(asked)} nodes: a bad switch cannot be told from bad nodes"
        if len(lost) == len(report.nodes)
        else f"the topology leaves out {len(lost)} of {len(report.nodes)} nodes ({some})"
    )
    evidence = "\n".join(f"{node.name}: host {node.identity.get('host', '')}" for node in asked[:16])
    remedy = (
        "Correct [cluster] topology or topology_names: nodes are found by name, host name or EC2 instance id."
    )
    return (Finding(Level.WARN, Cause.EVIDENCE, CHECK, CLUSTER, said, evidence, remedy),)


def by_address(address: str, pattern: str, known: Iterable[str]) -> tuple[str, ...] | None:
    """SLURM_TOPOLOGY_ADDR and _PATTERN ("spine.leaf.node", "switch.switch.node") -> switches, nearest first.

    None where Slurm says nothing of switches ("node" alone), or speaks of another node: an environment that somebody
    forwarded from the first node would put all nodes under its switches. Several switches of one level stay one name, in
    Slurm's own brackets. Source: srun(1), "SLURM_TOPOLOGY_ADDR".
    """
    kinds = pattern.split(".")
    parts = address.split(".", len(kinds) - 1)  # a node's name may have dots of its own
    if len(parts) != len(kinds) or len(kinds) < 2 or kinds[-1] != "node":
        return None
    names = {name.casefold() for name in known}
    if parts[-1].casefold() not in names | {_short(name) for name in names}:
        return None
    return split(COMMA.join(part.replace(COMMA, "+") for part in reversed(parts[:-1])))


def by_name(expression: str, name: str) -> tuple[str, ...]:
    """The switch that a node's own name says: "rack(\\d+)" makes rack12 of gpu-rack12-3; () where it says none."""
    if not expression:
        return ()
    try:
        found = re.search(expression, name)
    except re.error:  # the gate's Python may know more than this node's
        return ()
    return (f"{_word(expression)}{found[1]}",) if found and found.re.groups and found[1] else ()


def why_no_expression(expression: str) -> str:
    """Why this cannot be a `Topology.names`, or ""."""
    try:
        groups = re.compile(expression).groups
    except re.error as error:
        return f"{expression!r:.80} is no regular expression: {error}"
    return (
        ""
        if groups == 1
        else f"{expression!r:.80} has {groups} groups; the one that names the switch is wanted"
    )


def _word(expression: str) -> str:
    """The letters right before the group, as they stand there, so that a switch is called rack12 and not 12."""
    found = re.match(r"[^\\\[(|]*?([A-Za-z]+)\((?!\?)", expression)
    return found[1] if found else ""


def _by_name(under: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Any name -> switches. A host's first label stands for it only where no other host has the same."""
    table = {name.casefold(): path for path, nodes in under.items() for name in nodes}
    short: dict[str, set[str]] = {}
    for name, path in table.items():
        short.setdefault(_short(name), set()).add(path)
    return {**{name: paths.pop() for name, paths in short.items() if len(paths) == 1}, **table}


def _short(name: str) -> str:
    return name.partition(".")[0]
