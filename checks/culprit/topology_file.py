"""Reads a description of switches, in any of four formats, into node -> its switches, the nearest first. Pure.

    AWS        `aws ec2 describe-instance-topology` (JSON)
    Slurm      topology.conf, or what `scontrol show topology` prints
    CSV        node,switch[,switch...], the nearest first
    names      need no file: see checks.culprit.topology

A text that cannot be used raises TopologyError, which says what is wrong and in which line.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from checks.culprit.topology import COMMA, MOST_CHARACTERS, MOST_LEVELS
from checks.documents import hostlist
from checks.documents.decode import parse_json
from checks.documents.hostlist import MOST_NODES, HostListError
from checks.value_types import DecodeError

FILE_BYTES = 4 << 20
Switches = dict[str, tuple[str, ...]]


class TopologyError(Exception):
    """The text describes no switches that can be used."""


def parse(text: str) -> Switches:
    """Node -> switches, the nearest first, from any of the formats. Raises TopologyError."""
    if text.lstrip().startswith(("{", "[")):
        by_node = parse_instances(text)
    elif any(_key(line) in ("switchname", "blockname") for line in text.splitlines()):
        by_node = parse_slurm(text)
    else:
        by_node = parse_csv(text)
    if not by_node:
        raise TopologyError("it names no node")
    if len(by_node) > MOST_NODES:
        raise TopologyError(f"it names {len(by_node)} nodes, more than the {MOST_NODES} that are read")
    for node, switches in by_node.items():
        if len(switches) > MOST_LEVELS:
            raise TopologyError(f"{node:.80} is under {len(switches)} switches; {MOST_LEVELS} are read")
        for name in (node, *switches):
            if not name.isprintable() or COMMA in name or len(name) > MOST_CHARACTERS:
                raise TopologyError(f"{name!r:.80} cannot be the name of a node or switch")
    return by_node


def parse_instances(text: str) -> Switches:
    """EC2's own answer: NetworkNodes lead from the top layer down to the one to which the instance is connected.

    Source: Amazon EC2 User Guide, "How Amazon EC2 topology works" (three or four layers, by instance type), and the API reference of
    DescribeInstanceTopology (NextToken is there if there are more pages).
    """
    try:
        value = parse_json(text, FILE_BYTES)
    except DecodeError as error:
        raise TopologyError(str(error)) from error
    instances = value.get("Instances") if isinstance(value, dict) else None
    if not isinstance(instances, list):
        raise TopologyError('it has no list "Instances", as aws ec2 describe-instance-topology prints it')
    if isinstance(value, dict) and value.get("NextToken"):
        raise TopologyError("it is only a part (it has a NextToken): fetch it without --max-items")
    by_node: Switches = {}
    for index, item in enumerate(instances):
        entry = item if isinstance(item, dict) else {}
        name, nodes = entry.get("InstanceId"), entry.get("NetworkNodes")
        texts = [node for node in nodes if isinstance(node, str)] if isinstance(nodes, list) else []
        if not isinstance(name, str) or not isinstance(nodes, list) or len(texts) != len(nodes) or not texts:
            raise TopologyError(f"Instances[{index}] has no InstanceId with NetworkNodes")
        by_node[name] = tuple(dict.fromkeys(reversed(texts)))
    return by_node


def parse_slurm(text: str) -> Switches:
    """topology.conf or `scontrol show topology`, of topology/tree or topology/block.

    The switches in Switches= are below the switch of that line; Nodes=, which scontrol adds for upper switches, names the nodes
    below them. A node on two leaf switches is connected to both. Source: topology.conf(5); scontrol's lines were taken from Slurm
    22.05.8.
    """
    nodes_of: dict[str, list[str]] = {}
    parents: dict[str, list[str]] = {}
    for number, line in _slurm_lines(text):
        table = _keys_of(line, number)
        name = table.get("switchname") or table.get("blockname")
        if not name and table.keys() & {"blocksizes"}:
            continue
        if not name:
            raise TopologyError(f"line {number}: neither SwitchName= nor BlockName= is in {line!r:.80}")
        below = expand(table.get("switches", ""), number)
        for child in below:
            parents.setdefault(child, []).append(name)
        for node in () if below else expand(table.get("nodes", ""), number):
            nodes_of.setdefault(node, []).append(name)
    return {node: _upwards(leaves, parents) for node, leaves in nodes_of.items()}


def parse_csv(text: str) -> Switches:
    """node,switch[,switch...], the nearest first. Lines that begin with # and a heading "node,..." are ignored."""
    by_node: Switches = {}
    for number, line in enumerate(text.splitlines(), 1):
        cells = [cell.strip().strip('"') for cell in line.partition("#")[0].split(COMMA)]
        if not any(cells) or (not by_node and cells[0].casefold() == "node"):
            continue
        name, switches = cells[0], tuple(dict.fromkeys(filter(None, cells[1:])))
        if not name or not switches:
            raise TopologyError(f"line {number}: {line!r:.80} is not of the form node,switch[,switch...]")
        if by_node.get(name, switches) != switches:
            raise TopologyError(f"line {number}: {name} was under {', '.join(by_node[name])} before")
        by_node[name] = switches
    return by_node


def expand(text: str, number: int = 0) -> list[str]:
    """Slurm's list of hosts as names. Raises TopologyError with the number of the line."""
    try:
        return hostlist.expand(text)
    except HostListError as error:
        raise TopologyError(f"line {number}: {error}") from error


def _slurm_lines(text: str) -> Iterator[tuple[int, str]]:
    """The lines without comments, joined if a backslash ends one."""
    whole, begun = "", 0
    for number, line in enumerate(text.splitlines(), 1):
        bare = line.partition("#")[0].strip()
        begun = begun or number
        if bare.endswith("\\"):
            whole += bare[:-1] + " "
            continue
        if whole + bare:
            yield begun, whole + bare
        whole, begun = "", 0
    if whole:
        yield begun, whole


def _keys_of(line: str, number: int) -> dict[str, str]:
    table: dict[str, str] = {}
    for pair in line.split():
        key, equals, value = pair.partition("=")
        if not equals:
            raise TopologyError(f"line {number}: {pair!r:.80} is not of the form Key=value")
        table[key.casefold()] = "" if value == "(null)" else value
    return table


def _upwards(leaves: Sequence[str], parents: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """The switches level by level. In a ring of switches this ends where it began."""
    switches, level = dict.fromkeys(leaves), list(leaves)
    while level:
        level = [above for name in level for above in parents.get(name, ()) if above not in switches]
        switches.update(dict.fromkeys(level))
    return tuple(switches)


def _key(line: str) -> str:
    return line.strip().partition("=")[0].casefold()
