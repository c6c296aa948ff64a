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
    past = [_Gate(gate, machines) for gate in reversed(gates)]
    made: dict[FindingKey, EarlierFinding] = {}
    known: dict[object, EarlierFinding | None] = {}  # ranks of one node, which may be many, share one
    for finding in findings:
        if finding.level is Level.PASS or finding.follows:
            continue
        whole = finding.subject == CLUSTER
        node = CLUSTER if whole else node_of(finding.subject.split(LINK)[0].strip())
        alike = (node, _kind(finding))
        if alike not in known:
            looks = list(_looks(finding, node, machines.get((gate_id, node)), past))
            known[alike] = _counted(looks, last_go) if looks else None
        if (said := known[alike]) is not None:
            for key in finding_keys(finding.check, finding.subject, finding.message):
                made.setdefault(key, said)
    return made


class _Gate:
    """One earlier gate, with what it found of each node."""

    def __init__(self, gate: GateNodes, machines: Machines) -> None:
        self.gate = gate
        self.found = {row.node: [*map(_kind, row.findings)] for row in gate.nodes}
        self.whole = [*map(_kind, gate.cluster_findings)]
        self.sets = [frozenset(checks) for checks in gate.checks]
        self.checks = frozenset[str]().union(*self.sets)
        self._named = {row.node: row for row in gate.nodes}
        self._machine_of = {name: machines.get((gate.gate_id, name)) for name in self._named}
        self._known = {machine: self._named[name] for name, machine in self._machine_of.items()}

    def row(self, node: str, machine: int | None) -> NodeRow | None:
        """The row of a machine: by its ids, or by its name where one of the two is not recognised."""
        if machine is not None and machine in self._known:
            return self._known[machine]
        is_other = machine is not None and self._machine_of.get(node) is not None
        return None if is_other else self._named.get(node)


@dataclass(frozen=True)
class _Look:
    gate_id: str
    judged_at: str
    found: bool


def _looks(finding: KeptFinding, node: str, machine: int | None, past: Sequence[_Gate]) -> Iterator[_Look]:
    """The gates that found it, or would have, the newest first."""
    kind = _kind(finding)
    for one in past:
        if finding.subject == CLUSTER:
            found, checks = kind in one.whole, one.checks
        else:
            row = one.row(node, machine)
            if row is None:
                continue
            found, checks = kind in one.found[row.node], one.sets[row.checks]
        if found or (finding.check in checks if is_measurement(finding) else bool(checks)):
            yield _Look(one.gate.gate_id, one.gate.judged_at, found)


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
