"""What is known of the machines: what is alike on all of them once, what differs a machine each (pure)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from checks.model import Node, Report
from tasks.render.clean import one_line

MACHINES = 60
Pairs = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Machine:
    """What is this machine's own; `known` is False for one that never reported."""

    name: str
    own: Pairs
    known: bool


@dataclass(frozen=True)
class Machines:
    """`alike` holds for all `reported` nodes; `shown` are in the order that was asked for, `hidden` more are not shown."""

    alike: Pairs
    reported: int
    shown: tuple[Machine, ...]
    hidden: int


def machines(report: Report, order: Sequence[str]) -> Machines:
    """The nodes of the report; `order` names those to show, the most important first."""
    known = {node.name: node for node in report.nodes}
    alike = _alike(list(known.values()))
    names = list(dict.fromkeys(order))
    shown = tuple(_machine(name, known.get(name), alike) for name in names[:MACHINES])
    return Machines(_pairs(alike), len(known), shown, max(0, len(names) - MACHINES))


def _alike(nodes: Sequence[Node]) -> dict[str, str]:
    if len(nodes) < 2:
        return {}
    first = nodes[0].identity
    return {
        key: value
        for key, value in first.items()
        if value and all(node.identity.get(key) == value for node in nodes)
    }


def _machine(name: str, node: Node | None, alike: dict[str, str]) -> Machine:
    own = {} if node is None else {k: v for k, v in node.identity.items() if k not in alike}
    return Machine(name, _pairs(own), node is not None and bool(node.identity))


def _pairs(values: dict[str, str]) -> Pairs:
    return tuple((one_line(key, 60), one_line(value, 400)) for key, value in sorted(values.items()) if value)
