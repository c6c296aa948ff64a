"""Which findings of a gate earlier gates of its cluster had as well, on the same nodes. Pure; no verdict depends on it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from checks.judge.trend.model import Trend
from checks.model import CLUSTER, LINK, Cause, Level, node_of
from tasks.render.context import EarlierFinding, FindingKey, finding_keys
from tasks.store.node_rows import GateNodes, NodeRow
from tasks.store.records import KeptFinding, is_measurement, matter

# So many of the newest gates that would have found it are counted.
LAST = 5
# Of a gate and a node in it, what the trend recognises there.
Machines = Mapping[tuple[str, str], int]


def machines_in(trend: Trend) -> Machines:
    """The machine of each node of each gate, as far as it is recognised."""
    return {place: number for number, one in enumerate(trend.machines) for place in one.places}


def earlier_findings(
    findings: Sequence[KeptFinding],
    gate_id: str,
    gates: Sequence[GateNodes],
    last_go: str,
    machines: Machines,
) -> dict[FindingKey, EarlierFinding]:
    """What `gates`, the earlier ones of the cluster in the order of time, say of each warning and failure of the gate `gate_id`.

    `last_go` is the newest GO among them, "" without one. A finding of a rank is compared with those of all ranks of its node, because
    a node may have other ranks in every gate. A finding that no gate would have found is in no row.
    """
    past = [_Gate(gate) for gate in reversed(gates)]
    made: dict[FindingKey, EarlierFinding] = {}
    for finding in findings:
        if finding.level is Level.PASS:
            continue
        looks = list(_looks(finding, gate_id, past, machines))
        if looks:
            said = _counted(looks, last_go)
            for key in finding_keys(finding.check, finding.subject, finding.message):
                made.setdefault(key, said)
    return made


class _Gate:
    """One earlier gate, with what it found of each node."""

    def __init__(self, gate: GateNodes) -> None:
        self.gate = gate
        self.rows = {row.node: row for row in gate.nodes}
        self.found = {row.node: frozenset(map(_kind, row.findings)) for row in gate.nodes}
        self.whole = frozenset(map(_kind, gate.cluster_findings))
        self.checks = frozenset(check for checks in gate.checks for check in checks)


@dataclass(frozen=True)
class _Look:
    gate_id: str
    judged_at: str
    found: bool


def _looks(finding: KeptFinding, gate_id: str, past: Sequence[_Gate], machines: Machines) -> Iterator[_Look]:
    """The gates that found it, or would have, the newest first."""
    kind, node = _kind(finding), node_of(finding.subject.split(LINK)[0].strip())
    for one in past:
        if finding.subject == CLUSTER:
            found, checks = kind in one.whole, one.checks
        else:
            row = _row_of(node, gate_id, one, machines)
            if row is None:
                continue
            found, checks = kind in one.found[row.node], frozenset(one.gate.checks[row.checks])
        if found or (finding.check in checks if is_measurement(finding) else bool(checks)):
            yield _Look(one.gate.gate_id, one.gate.judged_at, found)


def _row_of(node: str, gate_id: str, one: _Gate, machines: Machines) -> NodeRow | None:
    """The machine of this node in an earlier gate: by its ids, or by its name where one of the two is not recognised."""
    mine = machines.get((gate_id, node))
    for name, row in one.rows.items() if mine is not None else ():
        if machines.get((one.gate.gate_id, name)) == mine:
            return row
    named = one.rows.get(node)
    is_other = mine is not None and machines.get((one.gate.gate_id, node)) is not None
    return None if named is None or is_other else named


def _counted(looks: Sequence[_Look], last_go: str) -> EarlierFinding:
    had = [look for look in looks if look.found]
    go = next((look.judged_at for look in looks if look.gate_id == last_go and not look.found), "")
    newest = looks[:LAST]
    return EarlierFinding(
        sum(look.found for look in newest), len(newest), had[-1].judged_at if had else "",
        had[0].judged_at if had else "", looks[0].judged_at, go,
    )  # fmt: skip


def _kind(finding: KeptFinding) -> tuple[str, Cause, str, str]:
    subject = finding.subject if LINK in finding.subject else ""
    return finding.check, finding.cause, matter(finding), subject
