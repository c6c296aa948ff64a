"""Reads the fleet of a store, and of the engine of a gate file: what could not be read is named in the result. What of the store is
needed for that, and links between its pages.
"""

from __future__ import annotations

import posixpath
from dataclasses import replace
from pathlib import Path

from tasks.machines.base import MachineError, Machines
from tasks.remediation.model import Act
from tasks.remediation.records import JournalError, Records
from tasks.reports.fleet.engine_view import MachineRow, machine_rows
from tasks.reports.fleet.fleet import Fleet
from tasks.reports.fleet.page import fleet_page
from tasks.reports.fleet.states import HOUR_S, fleet_of
from tasks.store.base import Store
from tasks.store.history import known_nodes, rebuild_command
from tasks.store.layout import REMEDIATION, fleet_key, html_key
from tasks.text.inert import browsable, one_line

# A day, as the gates of most clusters are.
FRESH_S = 24 * HOUR_S
UNKNOWN = "its nodes are not known, so that it may have a last proof"


def read_fleet(
    store: Store,
    now: float,
    fresh_s: float = FRESH_S,
    cluster: str | None = None,
    node: str = "",
    engine: tuple[str, Machines] | None = None,
    whole: bool = True,
) -> Fleet:
    """The fleet of a store, of one cluster (None for all), or of one name ("" for all, and then without the points of numbers that
    do not move). `engine` is the cluster whose engine is asked; `whole` as in `known_nodes`. Raises StoreError.
    """
    histories = known_nodes(store, cluster, node, whole)
    problems = [*histories.problems]
    acts, unread = _acts(store, cluster, problems)
    views: dict[str, MachineRow] | None = None
    if engine is not None:
        own = [act for (name, _), some in acts.items() if name == engine[0] for act in some]
        try:
            machine_states = engine[1].by_name()
        except MachineError as error:
            problems.append(f"the engine did not answer: {error}")
        else:
            engine_rows = machine_rows(machine_states, None if engine[0] in unread else own, engine[1])
            views = {view.node: view for view in engine_rows}
    fleet = fleet_of(histories, now, fresh_s, acts, views, node)
    has_reply = None if engine is None else views is not None
    return replace(fleet, problems=tuple(one_line(line, 400) for line in problems), has_reply=has_reply)


def cluster_page(store: Store, cluster: str, now: float) -> str:
    """The page of a cluster's nodes, for its place in the store. Raises StoreError."""
    fleet, own = read_fleet(store, now, cluster=cluster, whole=False), fleet_key(cluster)
    return fleet_page(fleet, lambda gate_id: page_link(store, html_key(gate_id), own), f"Fleet {cluster}")


def page_link(store: Store, key: str, page: str = "") -> str:
    """The address of the page under `key`, for the page under the key `page`: in the console of a bucket, and in a folder from one to
    the other. Without `page` it is for one that lies anywhere.
    """
    address = store.location(key)
    if "://" in address:
        return browsable(address)
    return posixpath.relpath(key, posixpath.dirname(page)) if page else Path(address).as_uri()


def needed_gates(store: Store, now: float) -> dict[str, str]:
    """Gate id -> why it must stay: the last proof of a machine, its newest gate, an open finding about it, what answered an
    earlier one, or that nobody knows its nodes. Machines whose name another one has need nothing. Raises StoreError.
    """
    histories = known_nodes(store)
    needed: dict[str, str] = {}
    fleet = fleet_of(histories, now, FRESH_S)
    # Machines of two clusters may have one name, and one machine several: a gate and a name in it say which one it is.
    marks = {(gate.gate_id, gate.node) for node in (*fleet.nodes, *fleet.unseen) for gate in node.gates}
    nodes = [node for history in histories.clusters for node in history.nodes]
    mine = [node for node in nodes if not marks.isdisjoint((gate_id, node.node) for gate_id in node.gates)]
    failed = {past.finding.check + past.peers for node in mine for past in node.findings}
    answers = {node.measured.get(check) for node in mine for check in failed}
    for history in histories.clusters:
        needed |= {
            gate_id: "it measured what had failed" for gate_id, at in history.gates.items() if at in answers
        }
    for node in (*fleet.nodes, *fleet.unseen):
        needed.setdefault(node.gates[-1].gate_id, f"it is the last gate of {node.name}")
        for entry in node.open:
            needed.setdefault(entry.gate_id, f"an open finding about {node.name} was last seen then")
            needed[entry.since_gate_id] = f"a finding about {node.name} is open since then"
        if node.last_proof is not None:
            needed[node.last_proof.gate_id] = f"it is the last proof of {node.name}"
    return {**dict.fromkeys(histories.unread, f"{UNKNOWN}: {rebuild_command(store)}"), **needed}


def _acts(
    store: Store, cluster: str | None, problems: list[str]
) -> tuple[dict[tuple[str, str], list[Act]], set[str]]:
    """The acts of each machine, by cluster and node, the oldest first; and the clusters whose acts could not be read."""
    by_node: dict[tuple[str, str], list[Act]] = {}
    unread = set()
    clusters = sorted({key.split("/")[1] for key in store.list(REMEDIATION)})
    for name in (candidate for candidate in clusters if cluster in (None, candidate)):
        try:
            for act in Records(store, name).acts():
                by_node.setdefault((name, act.node), []).append(act)
        except JournalError as error:
            unread.add(name)
            problems.append(f"the acts of cluster {name} could not be read: {error}")
    return by_node, unread
