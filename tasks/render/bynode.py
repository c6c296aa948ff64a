"""The findings of each node, the worst node first: what a person needs who stands before one machine (pure)."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from checks.model import LINK, Finding, Verdict, node_of
from tasks.render.clean import one_line
from tasks.render.grouping import Group, gathered
from tasks.render.matrix import State, finding_state, places

NODES, EACH = 100, 8


@dataclass(frozen=True)
class NodeFinding:
    """One group of findings, of this node's subjects alone."""

    state: State
    word: str
    where: str
    check: str
    message: str


@dataclass(frozen=True)
class NodeFindings:
    """One node, or "cluster"; `hidden` more are said of it."""

    name: str
    state: State
    findings: tuple[NodeFinding, ...]
    hidden: int


def by_node(verdict: Verdict) -> tuple[tuple[NodeFindings, ...], int]:
    """Nodes with findings, and how many more nodes than fit have some. A link's finding is of both its ends."""
    found: dict[str, list[tuple[Group, tuple[str, ...]]]] = defaultdict(list)
    for item in gathered(verdict.findings):
        subjects: dict[str, list[str]] = defaultdict(list)
        for subject in item.subjects:
            for place in places(subject):
                subjects[place].append(subject)
        for place, mine in subjects.items():
            found[place].append((item, tuple(mine)))
    made = [_node(name, items) for name, items in found.items()]
    made.sort(key=lambda node: (-node.state, -len(node.findings) - node.hidden, node.name))
    return tuple(made[:NODES]), max(0, len(made) - NODES)


def _node(name: str, items: list[tuple[Group, tuple[str, ...]]]) -> NodeFindings:
    items.sort(key=lambda pair: -_state(pair[0]))
    shown = tuple(
        NodeFinding(
            _state(item), item.word, _where(name, subjects), one_line(item.where), one_line(item.message, 400)
        )
        for item, subjects in items[:EACH]
    )
    return NodeFindings(name, max(_state(item) for item, _ in items), shown, max(0, len(items) - EACH))


def _state(item: Group) -> State:
    return finding_state(Finding(item.level, item.cause, item.check, "", item.message))


def _where(name: str, subjects: tuple[str, ...]) -> str:
    """Which of the node's ranks or links: "rank-3", "rank-0 and 7 more"; "" for the node itself."""
    parts = [
        subject if LINK in subject else subject.partition("/")[2]
        for subject in subjects
        if LINK in subject or node_of(subject) == name
    ]
    named = [part for part in parts if part]
    if not named:
        return ""
    first = one_line(named[0], 120)
    return f"{first} and {len(named) - 1} more" if len(named) > 1 else first
