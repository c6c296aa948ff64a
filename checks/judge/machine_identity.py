"""Which nodes of several reports are the same machine, and whether a node is the machine that the engine knows. Pure.

A machine is recognised by the firmware's id and by the UUIDs of its GPUs, and by its name if it has neither. Boots, addresses and
ranks change, and host names are given to other machines. A machine that lost a GPU is still the same machine.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from checks.facts.instances import Instance
from checks.model import Cause, Finding, Level, Node, Report

# What the gate adds to a node's identity in the merged report: the boot id of the machine on which the engine says that it ran.
ENGINE_BOOT_ID = "engine_boot_id"


class NamedNode(Protocol):
    """A node of one gate."""

    @property
    def name(self) -> str:
        """Its name in that gate."""


N = TypeVar("N", bound=NamedNode)
NodePosition = tuple[int, str]


@dataclass(frozen=True)
class MachineHistory(Generic[N]):
    """One machine: (index of the gate, the node at that time) in the order of the gates, and by what it was recognised."""

    known_by: str
    nodes: tuple[tuple[int, N], ...]

    @property
    def name(self) -> str:
        """The machine's newest name."""
        return self.nodes[-1][1].name


def machines(reports: Sequence[Report]) -> list[MachineHistory[Node]]:
    """All machines of the reports, in the order in which they first appear."""
    return same_machines([report.nodes for report in reports], keys_of)


def same_machines(
    gates: Sequence[Sequence[N]], keys: Callable[[N], tuple[str, ...]], clusters: Sequence[str] = ()
) -> list[MachineHistory[N]]:
    """All machines of the gates, in the order in which they first appear. `keys` are the ids of a node; a node without any is
    the machine that had its name last in the gate's cluster, unless this gate has that one under another name.
    """
    root: dict[NodePosition, NodePosition] = {}
    of_key: dict[str, NodePosition] = {}
    of_name: dict[tuple[str, str], NodePosition] = {}
    nodes: dict[NodePosition, N] = {}
    ids_of: dict[NodePosition, tuple[str, ...]] = {}
    for index, gate in enumerate(gates):
        pairs = [(node, keys(node)) for node in gate]
        shared = Counter(key for _, ids in pairs for key in set(ids))
        names = Counter(node.name for node in gate)
        cluster = clusters[index] if clusters else ""
        for node, ids in pairs:
            if names[node.name] > 1:  # it is unknown to which of the two a row belongs
                continue
            position = (index, node.name)
            nodes[position], root[position], ids_of[position] = node, position, ids
            for key in ids:
                if shared[key] <= 1:
                    _join(root, of_key.setdefault(key, position), position)
        places = {(index, node.name): ids for node, ids in pairs if names[node.name] == 1}
        tops = {_top(root, position) for position, ids in places.items() if ids}
        for position, ids in places.items():
            bearer = of_name.get((cluster, position[1]), position)
            if not ids and _top(root, bearer) not in tops:
                _join(root, bearer, position)
                tops.add(_top(root, position))
            of_name[cluster, position[1]] = position
    groups: dict[NodePosition, list[NodePosition]] = {}
    for position in nodes:
        groups.setdefault(_top(root, position), []).append(position)
    return [history for places in groups.values() for history in _split(places, nodes, ids_of)]


def twins(nodes: Sequence[Node]) -> Iterator[tuple[str, str, str]]:
    """(a node, an earlier node, what they share) for nodes of one report that are the same machine: two names, but one measurement.

    Firmware may give many boards one id. It proves nothing about two nodes whose boots and GPUs are known: those are compared.
    """
    first: dict[str, Node] = {}
    for node in nodes:
        boot = node.identity.get("boot_id", "")
        for key in (*((f"boot_id {boot}",) if boot else ()), *keys_of(node)):
            other = first.setdefault(key, node)
            is_decided_by_others = key.startswith("product_uuid ") and _is_known(node) and _is_known(other)
            if other.name != node.name and not is_decided_by_others:
                yield node.name, other.name, key
                break


def _is_known(node: Node) -> bool:
    return bool(node.identity.get("boot_id") and gpu_uuids(node))


def about_machines(report: Report, instance: Instance | None) -> Iterator[Finding]:
    """Two nodes that are the same machine, and nodes that ran on another machine than the engine says.

    Without accelerators two may be the same one, so that a gate can be tried out on one host.
    """
    if instance is not None and (report.declared.gpus_per_node or instance.neuron_devices):
        for name, other, shared in twins(report.nodes):
            message = f"is the same machine as {other} ({shared:.80}): one declared machine was not tested"
            yield _about(
                name, message, "Start one agent per machine. Check where the scheduler placed both nodes."
            )
    for node in report.nodes:
        reported, expected = node.identity.get("boot_id", ""), node.identity.get(ENGINE_BOOT_ID, "")
        if expected and reported.lower() != expected.lower():
            where = node.identity.get("engine_node") or "its machine"
            message = (
                f"reports boot id {reported or 'none'}, and the engine says that {where} has boot id {expected}: "
                "it is not known which was tested"
            )
            yield _about(
                node.name, message, "Run the gate again. If it returns, look at what runs in the container."
            )


def _about(node: str, predicate: str, remedy: str) -> Finding:
    return Finding(Level.FAIL, Cause.EVIDENCE, "report", node, predicate, remedy=remedy, is_predicate=True)


def gpu_uuids(node: Node) -> frozenset[str]:
    """The UUIDs of the node's GPUs; empty if they could not be read."""
    return frozenset(filter(None, node.identity.get("gpu_uuids", "").split(",")))


def keys_of(node: Node) -> tuple[str, ...]:
    """The ids by which a node's machine is recognised; none if nothing of them could be read."""
    uuid = node.identity.get("product_uuid", "")
    keys = (f"product_uuid {uuid}",) if uuid else ()
    return (*keys, *(f"GPU {gpu}" for gpu in sorted(gpu_uuids(node))))


def _split(
    places: list[NodePosition], nodes: dict[NodePosition, N], keys: dict[NodePosition, tuple[str, ...]]
) -> Iterator[MachineHistory[N]]:
    """Separates nodes of one gate that have the same ids (a GPU was moved, for example) by their names, because one machine cannot
    be two nodes of one gate.
    """
    indices = [index for index, _ in places]
    if len(set(indices)) == len(indices):
        has_ids = any(keys[position] for position in places)
        yield MachineHistory(
            "its own ids" if has_ids else "its name alone", tuple((i, nodes[i, n]) for i, n in places)
        )
        return
    for name in dict.fromkeys(name for _, name in places):
        mine = tuple((i, nodes[i, n]) for i, n in places if n == name)
        yield MachineHistory("its name alone: its ids are those of another machine as well", mine)


def _top(root: dict[NodePosition, NodePosition], position: NodePosition) -> NodePosition:
    while root[position] != position:
        root[position] = root[root[position]]
        position = root[position]
    return position


def _join(root: dict[NodePosition, NodePosition], first: NodePosition, second: NodePosition) -> None:
    root[_top(root, second)] = _top(root, first)
