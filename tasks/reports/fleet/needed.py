"""The gates that a pruning must leave, because what is known of a machine now would be lost, or look better, without them."""

from __future__ import annotations

from tasks.reports.fleet.reading import FRESH_S
from tasks.reports.fleet.states import fleet_of
from tasks.store.base import Store, StoreUnwritable
from tasks.store.history import known_nodes, listed, rebuild_command
from tasks.store.index import Index, IndexFailed
from tasks.store.layout import GATES, gate_of, report_key
from tasks.store.node_rows import kept
from tasks.store.open import identity

UNKNOWN = "its nodes are not in the index, so that it may have a last proof"


def needed_gates(store: Store, index: Index, now: float) -> dict[str, str]:
    """Gate id -> why it must stay: the last proof of a machine, its newest gate, an open finding about it, or a report whose nodes
    nobody knows. Machines whose name another one has need nothing. Raises StoreError.
    """
    found = listed(store, index)
    known = known_nodes(store, index, found)
    needed: dict[str, str] = {}
    fleet = fleet_of(known.history, found.records, now, FRESH_S)
    for node in (*fleet.nodes, *fleet.unseen):
        if node.gates:
            needed.setdefault(node.gates[-1].gate_id, f"it is the last gate of {node.name}")
        for one in node.open:
            needed.setdefault(one.gate_id, f"an open finding about {node.name} was last seen then")
            needed[one.since_gate_id] = f"a finding about {node.name} is open since then"
        if node.last_proof is not None:
            needed[node.last_proof.gate_id] = f"it is the last proof of {node.name}"
    with_nodes, reports = (
        _with_nodes(store, index),
        {gate_of(key) for key in store.list(GATES) if key == report_key(gate_of(key))},
    )
    for record in found.records:
        if not record.reused and record.gate_id in reports - with_nodes:
            needed.setdefault(record.gate_id, f"{UNKNOWN}: {rebuild_command(store)}")
    return needed


def _with_nodes(store: Store, index: Index) -> frozenset[str]:
    """The gates whose nodes are known."""
    try:
        return index.gates_with_nodes(identity(store))
    except (IndexFailed, StoreUnwritable):
        return frozenset(kept(store))
