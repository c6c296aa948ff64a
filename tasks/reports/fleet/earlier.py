"""Which findings of a gate earlier gates of its cluster had as well, on the same nodes. Pure; no verdict depends on it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import chain

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
    machines: Machines,
) -> dict[FindingKey, EarlierFinding]:
    """What `gates`, the earlier ones of the cluster in the order of time, say of each warning and failure of the gate `gate_id`.

    A finding of a rank is compared with those of all ranks of its node, because
    a node may have other ranks in every gate. A finding that no gate would have found is in no row.
    """
    past = _Past(gates, machines)
    found: dict[FindingKey, EarlierFinding] = {}
    known: dict[object, EarlierFinding | None] = {}  # ranks of one node, which may be many, share one
    for finding in findings:
        if finding.level is Level.PASS or finding.follows:
            continue
        node = CLUSTER if finding.subject == CLUSTER else node_of(finding.subject.split(LINK)[0].strip())
        alike = (node, _kind(finding))
        if alike not in known:
            looks = list(past.looks(finding, node, machines.get((gate_id, node))))
            known[alike] = _counted(looks) if looks else None
        if (one := known[alike]) is not None:
            for key in finding_keys(finding.check, finding.subject, finding.message):
                found.setdefault(key, one)
    return found


# A gate that found something, or would have, and whether it did.
_Look = tuple[GateNodes, bool]


class _Past:
    """The earlier gates, with the row of each node by its name and by the machine that it is."""

    def __init__(self, gates: Sequence[GateNodes], machines: Machines) -> None:
        self._gates, self._machines = gates, machines
        self._named = {(gate.gate_id, row.node): row for gate in gates for row in gate.nodes}
        places = [place for place in self._named if place in machines]
        self._of_machine = {(place[0], machines[place]): self._named[place] for place in places}

    def looks(self, finding: KeptFinding, node: str, machine: int | None) -> Iterator[_Look]:
        """The gates that found it, or would have, the newest first."""
        kind = _kind(finding)
        for gate in reversed(self._gates):
            if node == CLUSTER:
                findings, checks = gate.cluster_findings, set(chain.from_iterable(gate.checks))
            elif row := self._row(gate.gate_id, node, machine):
                findings, checks = row.findings, set(gate.checks[row.checks])
            else:
                continue
            is_found = any(_kind(one) == kind for one in findings)
            if is_found or would_find(finding, checks):
                yield gate, is_found

    def _row(self, gate_id: str, node: str, machine: int | None) -> NodeRow | None:
        """The row of a machine: by its ids, or by its name where one of the two is not recognised."""
        if machine is not None and (row := self._of_machine.get((gate_id, machine))):
            return row
        is_other = machine is not None and (gate_id, node) in self._machines
        return None if is_other else self._named.get((gate_id, node))


def would_find(finding: KeptFinding, checks: Collection[str]) -> bool:
    """Whether a gate that measured these checks would have found it."""
    return finding.check in checks if is_measurement(finding) else bool(checks)


def _counted(looks: Sequence[_Look]) -> EarlierFinding:
    had = [gate.judged_at for gate, is_found in looks if is_found]
    newest = looks[:LAST]
    return EarlierFinding(sum(is_found for _, is_found in newest), len(newest), had[-1] if had else "")


def _kind(finding: KeptFinding) -> tuple[str, Cause, str, str]:
    subject = finding.subject if LINK in finding.subject else ""
    return finding.check, finding.cause, matter(finding), subject
