"""Stores as gates leave them, without a gate: report, verdict and record of sample reports."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from checks.documents.report import digest, dump, dump_plain
from checks.facts.builtin import builtin
from checks.judge.verdict import decide
from checks.model import Report, Verdict
from checks.policy import Policy
from tasks.render.findings import verdict_json
from tasks.store import node_rows, records
from tasks.store.base import Store
from tasks.store.history import KnownNodes
from tasks.store.layout import report_key, verdict_key
from tasks.store.node_history import ClusterHistory, merged_history, named_nodes
from tasks.store.node_rows import GateNodes, rows_of, with_nodes
from tasks.store.records import Record, record_of
from tests.sample_reports import POLICY

# 2025-11-21T08:00:00Z, and a day later with each number.
FIRST_S, DAY_S = 1_763_712_000.0, 86_400.0


def gate_id(number: int) -> str:
    """As a gate that began on that day is called."""
    return f"sample-202511{21 + number:02}-080000-00{number:02x}"


def keep(
    store: Store,
    number: int,
    report: Report,
    policy: Policy = POLICY,
    cluster: str = "c",
    record: bool = True,
    reused: str = "",
    nodes: bool = True,
) -> Verdict:
    """What a gate keeps of a report under a policy."""
    name = gate_id(number)
    data = dump(replace(report, gate_id=name))
    verdict = decide(replace(report, gate_id=name), policy, builtin(), report_digest=digest(data))
    store.put(report_key(name), data)
    store.put(verdict_key(name), dump_plain(verdict_json(verdict)))
    if record:
        made = record_for(number, report, verdict, cluster, reused)
        records.keep(store, made)
        if nodes and not reused:
            node_rows.keep(store, rows_of(report, verdict, policy, name, made.judged_at, cluster))
    return verdict


def known_of(gates: Sequence[GateNodes]) -> KnownNodes:
    """What a store that keeps the rows of these gates says of every node."""
    made = [
        merged_history(ClusterHistory(cluster=cluster), {gate.gate_id: gate.judged_at for gate in own}, own)
        for cluster in dict.fromkeys(gate.cluster for gate in gates)
        if (own := [gate for gate in gates if gate.cluster == cluster])
    ]
    named = named_nodes(made)
    rows = [with_nodes(gate, named[gate.gate_id]) for gate in gates if gate.gate_id in named]
    rows.sort(key=lambda gate: (gate.judged_at, gate.gate_id))
    return KnownNodes(tuple(made), tuple(rows), len(gates), frozenset(), ())


def record_for(number: int, report: Report, verdict: Verdict, cluster: str = "c", reused: str = "") -> Record:
    """The record that belongs to it."""
    name, when = gate_id(number), FIRST_S + number * DAY_S
    return record_of(name, report, verdict, report_key(name), when, "sample", cluster, reused)
