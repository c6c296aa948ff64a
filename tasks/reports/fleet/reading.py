"""Reads the fleet of a store, and of the engine of a gate file: what could not be read is named in the result. What of the store is
needed for that, and links between its pages.
"""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
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
    known = known_nodes(store, cluster, node, whole)
    problems = [*known.problems]
    acts, unread = _acts(store, cluster, problems)
    rows = None
    if engine is not None:
        own = [act for (name, _), some in acts.items() if name == engine[0] for act in some]
        rows = _engine_view(engine[1], None if engine[0] in unread else own, problems)
    made = fleet_of(known, now, fresh_s, acts, rows, node)
    asked = None if engine is None else rows is not None
    return replace(made, problems=tuple(one_line(line, 400) for line in problems), asked=asked)


def cluster_page(store: Store, cluster: str, now: float) -> str:
    """The page of a cluster's nodes, for its place in the store. Raises StoreError."""
    fleet, own = read_fleet(store, now, cluster=cluster, whole=False), fleet_key(cluster)
    return fleet_page(fleet, lambda gate_id: page_link(store, html_key(gate_id), own), f"Fleet {cluster}")


def page_link(store: Store, key: str, page: str = "") -> str:
    """The address of the page under `key`, for the page under the key `page`: in the console of a bucket, and in a folder from one to
    the other. Without `page` it is for one that lies anywhere.
    """
    place = store.location(key)
    if "://" in place:
        return browsable(place)
    return posixpath.relpath(key, posixpath.dirname(page)) if page else Path(place).as_uri()


def needed_gates(store: Store, now: float) -> dict[str, str]:
    """Gate id -> why it must stay: the last proof of a machine, its newest gate, an open finding about it, what answered an
    earlier one, or that nobody knows its nodes. Machines whose name another one has need nothing. Raises StoreError.
    """
    known = known_nodes(store)
    needed: dict[str, str] = {}
    fleet = fleet_of(known, now, FRESH_S)
    gates_of = {node.name: {gate.gate_id for gate in node.gates} for node in (*fleet.nodes, *fleet.unseen)}
    for history in known.clusters:
        mine = [node for node in history.nodes if not gates_of.get(node.node, set()).isdisjoint(node.gates)]
        answers = {
            node.measured.get(past.finding.check + past.peers) for node in mine for past in node.findings
        }
        needed |= {
            gate_id: "it measured what had failed" for gate_id, at in history.gates.items() if at in answers
        }
    for node in (*fleet.nodes, *fleet.unseen):
        needed.setdefault(node.gates[-1].gate_id, f"it is the last gate of {node.name}")
        for one in node.open:
            needed.setdefault(one.gate_id, f"an open finding about {node.name} was last seen then")
            needed[one.since_gate_id] = f"a finding about {node.name} is open since then"
        if node.last_proof is not None:
            needed[node.last_proof.gate_id] = f"it is the last proof of {node.name}"
    return {**dict.fromkeys(known.unread, f"{UNKNOWN}: {rebuild_command(store)}"), **needed}


def _acts(
    store: Store, cluster: str | None, problems: list[str]
) -> tuple[dict[tuple[str, str], list[Act]], set[str]]:
    """The acts of each machine, by cluster and node, the oldest first; and the clusters whose acts could not be read."""
    found: dict[tuple[str, str], list[Act]] = {}
    unread = set()
    clusters = sorted({key.split("/")[1] for key in store.list(REMEDIATION)})
    for name in (one for one in clusters if cluster in (None, one)):
        try:
            for act in Records(store, name).acts():
                found.setdefault((name, act.node), []).append(act)
        except JournalError as error:
            unread.add(name)
            problems.append(f"the acts of cluster {name} could not be read: {error}")
    return found, unread


def _engine_view(
    machines: Machines, acts: Sequence[Act] | None, problems: list[str]
) -> dict[str, MachineRow] | None:
    try:
        machine_states = machines.by_name()
    except MachineError as error:
        problems.append(f"the engine did not answer: {error}")
        return None
    return {row.node: row for row in machine_rows(machine_states, acts, machines)}
