"""What the gates of one cluster say of its nodes, merged into one document: history/<cluster>.json. Pure.

It is made of the rows of each gate (tasks.store.node_rows), in whichever order these come, and can be made again from them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from checks.documents.report import Version
from checks.judge.trend.numbers import NodeIdentity
from checks.model import SCHEMA_VERSION, Cause, Finding
from checks.value_types import SPARSE
from tasks.store.node_rows import AMONG_PEERS, GateNodes, NodeRow, Standing

# So many gates of a node are read again: the newest, for a page, and the first, for the reference of a trend.
NEWEST, FIRST = 48, 12


@dataclass(frozen=True)
class NodeFinding:
    """The newest finding of its check, subject, metric and cause about a node. `peers` is AMONG_PEERS if only they show it."""

    gate_id: str
    judged_at: str
    finding: Finding
    peers: str = ""


@dataclass(frozen=True)
class NodeHistory:
    """A node as it was recognised then; `identity` and `engine_node` are those of NodeRow.

    `count` is how many gates named it, `last` when the newest one judged, `measured` when each check was measured on it last, and
    `proven` the newest gate that proved it, "" for none. `gates` are those that are read again: the first, the newest, and `proven`.
    """

    node: str
    identity: NodeIdentity | None
    count: int
    last: str
    proven: str
    measured: Mapping[str, str]
    findings: tuple[NodeFinding, ...]
    gates: tuple[str, ...]
    engine_node: str = field(default="", metadata=SPARSE)

    @property
    def key(self) -> tuple[object, ...]:
        """What is equal for the same node with the same identity."""
        return node_key(self.node, self.identity)


@dataclass(frozen=True)
class ClusterHistory:
    """The document of a cluster, "" where nobody says it. `gates` are all that it was made of: their ids, and when they judged."""

    schema_version: Version = SCHEMA_VERSION
    cluster: str = ""
    gates: Mapping[str, str] = field(default_factory=dict)
    nodes: tuple[NodeHistory, ...] = ()


def node_key(node: str, identity: NodeIdentity | None) -> tuple[object, ...]:
    """What is equal for the same node with the same identity."""
    if identity is None:
        return (node,)
    return node, identity.keys, identity.gpus, tuple(sorted(identity.versions.items()))


def merged_history(
    history: ClusterHistory, judged: Mapping[str, str], gates: Iterable[GateNodes]
) -> ClusterHistory:
    """The history with other gates of its cluster, which judged at these times, and the rows of those that measured."""
    times = {**history.gates, **judged}
    nodes = {history_of_node.key: history_of_node for history_of_node in history.nodes}
    for new in (_history_of(gate, record) for gate in gates for record in gate.nodes):
        before = nodes.get(new.key)
        nodes[new.key] = new if before is None else _joined(before, new, times)
    return replace(history, gates=times, nodes=tuple(nodes.values()))


def named_nodes(histories: Iterable[ClusterHistory]) -> dict[str, set[str]]:
    """The gates that are read again, each with the names of the nodes for which it is."""
    nodes: dict[str, set[str]] = {}
    for node in (node for history in histories for node in history.nodes):
        for gate_id in node.gates:
            nodes.setdefault(gate_id, set()).add(node.node)
    return nodes


def finding_kind(finding: Finding) -> tuple[str, str, str, Cause]:
    """What is equal for findings of which the newest is kept."""
    return finding.check, finding.subject, finding.metric, finding.cause


def _history_of(gate: GateNodes, record: NodeRow) -> NodeHistory:
    at, among = (gate.gate_id, gate.judged_at), gate.among_peers
    return NodeHistory(
        record.node,
        record.identity,
        1,
        gate.judged_at,
        gate.gate_id if record.standing is Standing.PROVEN else "",
        dict.fromkeys(gate.checks[record.checks], gate.judged_at),
        tuple(NodeFinding(*at, f, AMONG_PEERS * ((f.check, f.metric) in among)) for f in record.findings),
        (gate.gate_id,),
        record.engine_node,
    )


def _joined(first: NodeHistory, other: NodeHistory, times: Mapping[str, str]) -> NodeHistory:
    """Both in one. `times` say when each gate judged."""
    findings: dict[object, list[NodeFinding]] = {}
    for each in (*first.findings, *other.findings):
        newest = findings.setdefault((finding_kind(each.finding), each.peers), [])
        if newest and newest[0].judged_at < each.judged_at:
            newest.clear()
        if not newest or newest[0].judged_at == each.judged_at:
            newest.append(each)

    def sort_key(gate_id: str) -> tuple[str, str]:
        return times.get(gate_id, ""), gate_id

    proven = max(first.proven, other.proven, key=sort_key)
    ordered = sorted({*first.gates, *other.gates}, key=sort_key)
    gates_kept = {*ordered[:FIRST], *ordered[-NEWEST:], *filter(None, (proven,))}
    return replace(
        first,
        count=first.count + other.count,
        last=max(first.last, other.last),
        proven=proven,
        measured={
            check: max(first.measured.get(check, ""), other.measured.get(check, ""))
            for check in {**first.measured, **other.measured}
        },
        findings=tuple(each for some in findings.values() for each in some),
        gates=tuple(gate_id for gate_id in ordered if gate_id in gates_kept),
        engine_node=max(first, other, key=lambda node: node.last).engine_node,
    )
