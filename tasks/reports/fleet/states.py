"""What is known of every machine now, from the rows of its gates. Pure.

A finding is open until a later gate has measured its check on the machine without it: a gate that measures less answers nothing. What
is only missing evidence ends with the next gate that proves the node, or has measured the check, also where its values prove nothing.
Nothing is closed by age, and no proof is used when it is older than the reader allows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from checks.judge.clocks import seconds_of
from checks.judge.not_measured import is_accepted_gap
from checks.judge.trend.time_series import Trend, TrendMachine
from checks.judge.trend.trend import follow
from checks.model import LINK, Cause, Finding, Level
from checks.value_types import natural
from tasks.machines.base import ServiceState
from tasks.remediation.model import Act
from tasks.reports.fleet.engine_view import Disagreement, MachineRow, our_state
from tasks.reports.fleet.fleet import NO_TREND, SEEN_S, Fleet, FleetNode, GateMark, NodeState, StillOpen
from tasks.store.history import KnownNodes
from tasks.store.node_history import NEWEST, NodeFinding, NodeHistory, finding_kind, node_key
from tasks.store.node_rows import GateNodes, NodeRow, Standing
from tasks.store.records import findings_line, is_measurement

HOUR_S = 3600.0
# A proof that is in the future by more than clocks usually differ has no known age.
AHEAD_S = 300.0
# So many of the newest acts of each machine are shown, unless this is about one name.
ACTS = 5


@dataclass(frozen=True)
class _GateRow:
    """What one gate says of the machine, the checks that it measured on it, and what it found of the cluster as a whole."""

    mark: GateMark
    node: NodeRow
    checks: tuple[str, ...]
    of_cluster: tuple[Finding, ...]


@dataclass
class _History:
    """What is known of one machine before it is judged: its histories by their clusters, and its rows in the order of time."""

    trend: TrendMachine = NO_TREND
    histories: list[tuple[str, NodeHistory]] = field(default_factory=list)
    gates: list[_GateRow] = field(default_factory=list)

    @property
    def last(self) -> tuple[str, str, str]:
        """The newest time, with the cluster and name then."""
        return max((history.last, cluster, history.node) for cluster, history in self.histories)

    @property
    def count(self) -> int:
        """How many gates named it."""
        return sum(history.count for _, history in self.histories)

    @property
    def findings(self) -> list[NodeFinding]:
        """The newest ones of each kind, by time."""
        return sorted(
            [finding for _, history in self.histories for finding in history.findings],
            key=lambda f: (f.judged_at, f.gate_id, f.finding.check, f.finding.subject, f.finding.message),
        )


def fleet_of(
    history: KnownNodes,
    now: float,
    fresh_s: float,
    acts: Mapping[tuple[str, str], Sequence[Act]] | None = None,
    views: Mapping[str, MachineRow] | None = None,
    one_name: str = "",
) -> Fleet:
    """The fleet at `now` (Unix time); a proof is fresh for `fresh_s`. `acts` are by cluster and node, `views` what the engine of
    the one cluster shows, by node; None if it was not asked. A machine that no gate has named for SEEN_S, or ever, counts for nothing,
    unless this is about `one_name` ("" for all); then all numbers have their points.
    """
    trend = follow([gate.numbers for gate in history.gates], bool(one_name))
    machines = sorted(_machines(history, trend), key=lambda machine: machine.last)
    all_nodes = [_node(machine, now, fresh_s) for machine in machines]
    owners = {(node.cluster, node.engine_node or node.name): node for node in all_nodes}
    nodes: list[FleetNode] = []
    replaced: list[FleetNode] = []
    unseen: list[FleetNode] = []
    for machine, node in zip(machines, all_nodes, strict=True):
        called = node.engine_node or node.name
        if owners[node.cluster, called] is not node:
            replaced.append(node)
            continue
        node = _with_acts(node, (acts or {}).get((node.cluster, called), ()), (views or {}).get(called))
        is_unseen = not one_name and now - (seconds_of(machine.last[0]) or now) > SEEN_S
        (unseen if is_unseen else nodes).append(node)
    tested = {node.engine_node or node.name for node in (*nodes, *unseen)}
    untested = [
        _with_acts(FleetNode(name, "", NodeState.UNPROVEN, (), 0, None, None, 0.0), view.acts, view)
        for name, view in (views or {}).items()
        if name not in tested and one_name in ("", name) and (view.machine is not None or view.disagreement)
    ]
    if one_name:
        nodes, untested = nodes + untested, []
    else:
        nodes, unseen = ([replace(node, acts=node.acts[-ACTS:]) for node in some] for some in (nodes, unseen))
    nodes, replaced, unseen, untested = (
        sorted(some, key=_sort_key) for some in (nodes, replaced, unseen, untested)
    )
    return Fleet(
        tuple(nodes), tuple(replaced), trend, history.count, now, fresh_s, unseen=tuple(unseen), untested=tuple(untested)
    )  # fmt: skip


def _machines(nodes_known: KnownNodes, trend: Trend) -> list[_History]:
    """Each machine with its histories and gates. A node without a report or ids belongs to the machine that had its name last. A
    machine of which the store has no gate any more is none.
    """
    by_gate = {
        (gate.gate_id, node.node): ((gate.cluster, node_key(node.node, node.identity)), _gate_row(gate, node))
        for gate in nodes_known.gates
        for node in gate.nodes
    }
    histories_of = ((_History(machine), machine.places) for machine in trend.machines)
    owners = {pair: history for history, places in histories_of for pair in places}
    # The newest place decides: reports without ids have one key, whoever had the name.
    of_key: dict[object, _History] = {by_gate[pair][0]: owners[pair] for pair in by_gate if pair in owners}
    histories = [(history.cluster, node) for history in nodes_known.clusters for node in history.nodes]
    histories.sort(key=lambda item: (item[1].last, item[0], item[1].node))
    bearers: dict[tuple[str, str], _History] = {}
    for cluster, node in histories:
        if owner := of_key.get((cluster, node.key)):
            bearers[cluster, node.node] = owner
    for cluster, node in histories:
        bearer = bearers.setdefault((cluster, node.node), _History())
        of_key.setdefault((cluster, node.key), bearer).histories.append((cluster, node))
    for key, gate_row in by_gate.values():
        if key in of_key:
            of_key[key].gates.append(gate_row)
    unique = {id(machine): machine for machine in of_key.values()}.values()
    return [machine for machine in unique if machine.gates and machine.histories]


def _gate_row(gate: GateNodes, node_row: NodeRow) -> _GateRow:
    reason = _reason(node_row) if node_row.standing is Standing.CONDEMNED else ""
    mark = GateMark(
        gate.gate_id, node_row.node, gate.judged_at, node_row.measured_at, node_row.standing, gate.profile, gate.policy, finding=reason
    )  # fmt: skip
    return _GateRow(mark, node_row, gate.checks[node_row.checks], gate.cluster_findings)


def _reason(node_row: NodeRow) -> str:
    """Why the gate condemned the node, which is said also where a later gate has answered it."""
    failed = [f for f in node_row.findings if f.level is Level.FAIL and f.cause is Cause.HARDWARE]
    return findings_line(failed) if failed else ""


def _node(own: _History, now: float, fresh_s: float) -> FleetNode:
    _, cluster, name = own.last
    marks = tuple(gate.mark for gate in own.gates)
    opens = tuple(_still_open(own))
    proof = next((mark for mark in reversed(marks) if mark.standing is Standing.PROVEN), None)
    age = None if proof is None else now - proof.measured_at
    looks = [mark.measured_at for mark in marks if mark.standing is not Standing.CANNOT_TELL]
    state = _state(marks[-1].standing, opens, age is not None and -AHEAD_S <= age <= fresh_s)
    doubts = _doubts(own, opens) if state is NodeState.DOUBTFUL else ()
    called = next((gate.node.engine_node for gate in reversed(own.gates) if gate.node.engine_node), "")
    return FleetNode(
        name, cluster, state, marks, own.count, proof, age, max(looks, default=0.0), opens, doubts, own.trend, engine_node=called
    )  # fmt: skip


def _state(last: Standing, findings: Sequence[StillOpen], fresh: bool) -> NodeState:
    if last is Standing.CONDEMNED or any(map(_condemns, findings)):
        return NodeState.CONDEMNED
    if last is Standing.CANNOT_TELL:
        return NodeState.CANNOT_TELL
    if last is Standing.DOUBTFUL or not all(is_accepted_gap(finding.finding) for finding in findings):
        return NodeState.DOUBTFUL
    return NodeState.PROVEN if fresh else NodeState.UNPROVEN


def _doubts(machine: _History, findings: Sequence[StillOpen]) -> tuple[Cause, ...]:
    """The causes of what makes a machine doubtful: what is open about it, and failures of the whole cluster in its last gate."""
    newest = machine.gates[-1]
    own = [entry.finding for entry in findings if not is_accepted_gap(entry.finding)]
    of_all = newest.of_cluster if newest.node.standing is Standing.DOUBTFUL else ()
    own += [finding for finding in of_all if finding.level is Level.FAIL]
    return tuple(sorted({finding.cause for finding in own}))


def _condemns(entry: StillOpen) -> bool:
    finding = entry.finding
    return finding.level is Level.FAIL and finding.cause is Cause.HARDWARE and LINK not in finding.subject


def _still_open(machine: _History) -> Iterable[StillOpen]:
    measured: dict[str, str] = {}
    for _, history in machine.histories:
        for check, at in history.measured.items():
            measured[check] = max(at, measured.get(check, ""))
    whole = max(measured.values(), default="")
    proofs = (gate.mark.judged_at for gate in machine.gates if gate.mark.standing is Standing.PROVEN)
    proven = max(proofs, default="")
    observed: dict[str, str] = {}
    for past in machine.findings:
        if _was_measured(past.finding):
            observed[past.finding.check] = max(past.judged_at, observed.get(past.finding.check, ""))
    for past in machine.findings:
        finding = past.finding
        answered_at = measured.get(finding.check + past.peers, "") if is_measurement(finding) else whole
        if finding.cause is Cause.EVIDENCE:
            answered_at = max(answered_at, proven)
        if finding.cause is Cause.EVIDENCE and not finding.metric:
            answered_at = max(answered_at, observed.get(finding.check, ""))
        if past.judged_at >= answered_at:
            yield _dated(past, machine)


def _was_measured(finding: Finding) -> bool:
    """Whether its check was measured, although its values prove nothing (of a node that was busy, for example): such a check is not
    among the measured ones, and still no evidence is missing.
    """
    return finding.cause is Cause.EVIDENCE and bool(finding.metric)


def _dated(finding: NodeFinding, machine: _History) -> StillOpen:
    """The finding with the beginning of the unbroken row of gates that found it. Of a machine with more gates than are kept in full
    only the newest ones are looked at, between which none is missing.
    """
    newest_first = machine.gates[::-1]
    complete = len(newest_first) >= machine.count
    begun, at_least = (finding.judged_at, finding.gate_id), not complete
    for gate in newest_first if complete else newest_first[:NEWEST]:
        if gate.mark.judged_at > finding.judged_at:
            continue
        if any(finding_kind(other) == finding_kind(finding.finding) for other in gate.node.findings):
            begun = (gate.mark.judged_at, gate.mark.gate_id)
        elif _answers(gate, finding.finding, finding.peers):
            at_least = False
            break
    return StillOpen(finding.finding, finding.gate_id, finding.judged_at, begun[1], begun[0], at_least)


def _answers(gate: _GateRow, finding: Finding, peers: str) -> bool:
    """Whether the gate would have found it again; `peers` as in NodeFinding."""
    if finding.cause is Cause.EVIDENCE and gate.node.standing is Standing.PROVEN:
        return True
    is_observed = any(other.check == finding.check and _was_measured(other) for other in gate.node.findings)
    if is_observed and finding.cause is Cause.EVIDENCE and not finding.metric:
        return True
    return finding.check + peers in gate.checks if is_measurement(finding) else bool(gate.checks)


def _with_acts(node: FleetNode, acts: Sequence[Act], view: MachineRow | None) -> FleetNode:
    """The machine with what was done to it, and what its engine says."""
    node = replace(node, acts=tuple(acts), ours=our_state(acts) if acts else None)
    if view is None:
        return node
    contradiction: dict[object, Disagreement] = {
        (NodeState.CONDEMNED, ServiceState.SERVING): Disagreement.CONDEMNED,
        (NodeState.PROVEN, ServiceState.OUT): Disagreement.PROVEN,
    }
    differs = view.disagreement or contradiction.get((node.state, view.machine and view.machine.service))
    return replace(node, engine=view.machine, ours=view.ours, differs=differs, shell_command=view.shell)


def _sort_key(node: FleetNode) -> tuple[object, ...]:
    """The worst first: by state, then what gets worse, then what was proven longest ago."""
    age = float("inf") if node.proof_age_s is None else node.proof_age_s
    return node.state.rank, not node.differs, not node.trend.worse, -age, node.cluster, natural(node.name)
