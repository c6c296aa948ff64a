"""Tables of nodes: the findings of each node, one row per node, and the machines themselves (pure).

The findings are for a person who works on one machine; the worst node comes first. The rows are for tables such as Prefect's,
worst first. Of the machines, what is equal on all of them is shown once, and what differs is shown per machine.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

from checks.model import CLUSTER, LINK, Finding, Node, Report, Verdict, node_of
from checks.value_types import natural
from tasks.render.findings import Group, gathered, group
from tasks.render.headline import sentence
from tasks.render.views.finding_table import ALIKE, finding_anchor, ranged
from tasks.render.views.nodes import State, finding_state, node_lines, places
from tasks.text.inert import one_line

NODES, EACH = 100, 8
IDENTITY = ("host", "driver", "kernel", "boot_id", "gpu_uuids")
MACHINES = 60
Pairs = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class NodeFinding:
    """One group of findings, of this node's subjects alone."""

    state: State
    word: str
    where: str
    check: str
    message: str
    anchor: str


@dataclass(frozen=True)
class NodeFindings:
    """The nodes `names` (or "cluster"), which have the same findings; each has `hidden` more. `name` is short."""

    names: tuple[str, ...]
    state: State
    findings: tuple[NodeFinding, ...]
    hidden: int

    @property
    def name(self) -> str:
        """Such as "node-1", "37 nodes: node-12 ... node-980"."""
        return ranged(self.names)


def by_node(verdict: Verdict) -> tuple[tuple[NodeFindings, ...], int]:
    """Nodes with findings, and how many more nodes than fit have some. A link's finding is of both its ends.

    What follows from a silent node is listed there, after its own. More than ALIKE nodes that have the same findings are one row.
    """
    found: dict[str, list[tuple[Group, tuple[str, ...]]]] = defaultdict(list)
    for item in gathered(verdict.findings):
        subjects: dict[str, list[str]] = defaultdict(list)
        for subject in item.subjects:
            for place in (item.follows,) if item.follows else places(subject):
                subjects[place].append(subject)
        for place, mine in subjects.items():
            found[place].append((item, tuple(mine)))
    made = [_node(name, items) for name, items in found.items()]
    made.sort(key=lambda node: (-node.state, -len(node.findings) - node.hidden, natural(node.names[0])))
    rows = _together(made)
    return tuple(rows[:NODES]), sum(len(row.names) for row in rows[NODES:])


def _together(made: Sequence[NodeFindings]) -> list[NodeFindings]:
    alike: dict[object, list[NodeFindings]] = defaultdict(list)
    for node in made:
        alike[node.state, node.findings, node.hidden].append(node)
    rows = []
    for nodes in alike.values():
        if len(nodes) <= ALIKE:
            rows += nodes
        else:
            rows.append(replace(nodes[0], names=tuple(name for node in nodes for name in node.names)))
    rows.sort(key=lambda node: (-node.state, -len(node.findings) - node.hidden, natural(node.names[0])))
    return rows


def _node(name: str, items: list[tuple[Group, tuple[str, ...]]]) -> NodeFindings:
    items.sort(key=lambda pair: -_state(pair[0]))
    shown = tuple(
        NodeFinding(
            _state(item),
            item.word,
            _where(name, subjects),
            one_line(item.where),
            one_line(item.message, 400),
            finding_anchor(item),
        )
        for item, subjects in items[:EACH]
    )
    return NodeFindings(
        (one_line(name, 120),), max(_state(item) for item, _ in items), shown, max(0, len(items) - EACH)
    )


def _state(item: Group) -> State:
    return finding_state(Finding(item.level, item.cause, item.check, "", item.message))


def _where(name: str, subjects: tuple[str, ...]) -> str:
    """Which of the node's ranks or links: "rank-3", "rank-0 and 7 more"; "" for the node itself."""
    parts = [
        subject.partition("/")[2] if node_of(subject) == name and LINK not in subject else subject
        for subject in subjects
    ]
    named = [part for part in parts if part]
    if not named:
        return ""
    first = one_line(named[0], 120)
    return f"{first} and {len(named) - 1} more" if len(named) > 1 else first


def node_rows(report: Report | None, verdict: Verdict) -> list[dict[str, object]]:
    """Rows of verdict, node, node index, first finding, findings and the machine's identity: no key is ever absent.

    A node that never reported has a row too. A report that cannot be read makes one row, about the cluster.
    """
    first = _first_findings(verdict)
    if report is None:
        return [
            _row(finding_state(f).word, CLUSTER, None, first.get(CLUSTER, ""), 1, {})
            for f in verdict.findings[:1]
        ]
    identities = {node.name: node.identity for node in report.nodes}
    return [
        _row(
            line.state.word,
            line.name,
            line.rank,
            first.get(line.name, ""),
            line.findings,
            identities.get(line.name, {}),
        )
        for line in node_lines(report, verdict)
    ]


def _row(
    verdict: str, node: str, rank: int | None, finding: str, findings: int, identity: object
) -> dict[str, object]:
    known = identity if isinstance(identity, dict) else {}
    cells = {key: one_line(str(known.get(key, "")), 200) for key in IDENTITY}
    return {
        "verdict": verdict,
        "node": one_line(node, 120),
        "node index": "" if rank is None else rank,
        "first finding": finding,
        "findings": findings,
        **cells,
    }


def _first_findings(verdict: Verdict) -> dict[str, str]:
    first: dict[str, str] = {}
    for finding in verdict.findings:
        for place in places(finding.subject):
            if place not in first:
                first[place] = sentence(group([finding])[0])
    return first


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
