"""What the exporter says about the gates in a store: read anew at every scrape, so that nothing in it is older than the store itself.

Only the names of nodes are remembered between scrapes, by the id of their gate, whose nodes never change.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from checks.judge.clocks import seconds_of
from checks.model import Answer
from checks.value_types import DecodeError
from tasks.store import node_rows
from tasks.store.base import Store
from tasks.store.history import Listed
from tasks.store.node_rows import Standing
from tasks.store.records import Record, stamped_at

# Per cluster: the last gate of each gate file declares nodes, and the last so many GOs prove them.
PROOFS = 10
REMEMBERED = 2000


@dataclass(frozen=True)
class ClusterHistory:
    """The gates of one cluster. Times are Unix times; `stages` are seconds by the stage's name.

    `declared` are the nodes that the last gate of each gate file declared or named, `proven` is when a GO last measured a node.
    `unread` counts the nodes of these gates of which nothing is kept, or which another version kept.
    """

    cluster: str
    answers: Mapping[Answer, int]
    last: Record
    measured_at: float
    stages: Mapping[str, float]
    declared: tuple[str, ...]
    proven: Mapping[str, float]
    unread: int = 0


@dataclass
class NodeNames:
    """The nodes of gates by their ids: those that a gate declared or named, and those of which it had evidence."""

    store: Store
    _known: dict[str, tuple[list[str], list[str]]] = field(default_factory=dict)

    def of(self, record: Record) -> tuple[list[str], list[str]] | None:
        """The nodes of a gate; None if they are not kept, or another version kept them. Raises StoreError."""
        gate_id = record.reused or record.gate_id
        if gate_id not in self._known:
            try:
                rows = node_rows.read(self.store, gate_id)
            except DecodeError:
                rows = None
            if rows is None:
                return None
            if len(self._known) >= REMEMBERED:
                self._known.clear()
            measured = [row.node for row in rows.nodes if row.standing is not Standing.CANNOT_TELL]
            self._known[gate_id] = [row.node for row in rows.nodes], measured
        return self._known[gate_id]


def histories(listed: Listed, names: NodeNames) -> Iterator[ClusterHistory]:
    """The history of each cluster, by name. Raises StoreError."""
    clusters: dict[str, list[Record]] = {}
    for record in listed.records:  # oldest first
        clusters.setdefault(record.cluster, []).append(record)
    for cluster, records in sorted(clusters.items()):
        yield _history(cluster, records, names)


def _history(cluster: str, records: Sequence[Record], names: NodeNames) -> ClusterHistory:
    last = records[-1]
    declaring = {record.gate: record for record in records}.values()
    proofs = [record for record in records if record.answer is Answer.GO][-PROOFS:]
    found = {record.gate_id: (record, names.of(record)) for record in (*proofs, *declaring)}
    known = {gate_id: nodes for gate_id, (_, nodes) in found.items() if nodes is not None}
    proven: dict[str, float] = {}
    for record in proofs:
        for name in known[record.gate_id][1] if record.gate_id in known else ():
            proven[name] = max(_measured_at(record), proven.get(name, 0.0))
    return ClusterHistory(
        cluster,
        {answer: sum(record.answer is answer for record in records) for answer in Answer},
        last,
        _measured_at(last),
        _stages(last),
        tuple(sorted({name for one in declaring if one.gate_id in known for name in known[one.gate_id][0]})),
        proven,
        sum(record.nodes for record, nodes in found.values() if nodes is None),
    )


def _measured_at(record: Record) -> float:
    """By the nodes' clock, and never after the gate itself judged: a clock that is ahead would hide that no gate ran since."""
    judged = seconds_of(record.judged_at) or 0.0
    return min(seconds_of(record.measured_at) or judged, judged)


def _stages(record: Record) -> dict[str, float]:
    """Until the last node had measured (start of the machines included), and until the gate had judged; none for a PASS used again."""
    began, judged = stamped_at(record.gate_id), seconds_of(record.judged_at)
    if began is None or judged is None or record.reused:
        return {}
    measured = _measured_at(record)
    return {"measure": max(0.0, measured - began), "judge": max(0.0, judged - measured)}
