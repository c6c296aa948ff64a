"""What a store keeps of each node of a gate, small enough for every gate of a year: nodes/<gate id>.json.

A row says which machine the node was, what the gate says of it, which checks were measured, every finding about it, and its numbers
(checks.judge.trend.numbers). The file is made at publish of report, verdict and policy; the history of a cluster is made of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Annotated

from checks.documents.columns import CheckTable, by_check
from checks.documents.decode import decode, parse_json
from checks.documents.report import Version, dump_plain
from checks.judge.not_measured import is_accepted_gap
from checks.judge.rules.relative import comparisons
from checks.judge.trend.numbers import GateNumbers, NodeIdentity, gate_numbers, seconds
from checks.model import (
    CLUSTER,
    LINK,
    SCHEMA_VERSION,
    Cause,
    Finding,
    Level,
    Outcome,
    Profile,
    Report,
    Skip,
    Verdict,
    node_of,
)
from checks.policy import CheckPolicy, Policy
from checks.value_types import SPARSE, DecodeError, Range
from tasks.store.base import Store, document_at
from tasks.store.layout import nodes_key, policy_key, verdict_key
from tasks.store.records import RETEST_CLUSTER, GateId, Record, judged_report, load
from tasks.text.inert import one_line

FILE_BYTES = 256 * 1024 * 1024
MESSAGE_CHARACTERS = 300
# Follows the name of a check that was measured together with other nodes, or compared with them.
AMONG_PEERS = " among peers"
# A finding about more nodes than these is about none of them.
MOST_FINDINGS = 50


class Standing(StrEnum):
    """What one gate says of a node.

    PROVEN: everything that it had to show was measured, and nothing was found; evidence that the policy does without, as that of a
    tool that is not installed, may be missing. DOUBTFUL: another warning (also one that a value was slow while the node was busy, of
    which nobody can tell the reason), or a failure that does not condemn it. CONDEMNED: a FAIL of
    its hardware. CANNOT_TELL: evidence is missing. CERTIFIED: nothing was found, but not everything was measured, because certificates
    of earlier gates stand for some checks: no doubt, and no proof either.
    """

    PROVEN = "proven"
    DOUBTFUL = "doubtful"
    CONDEMNED = "condemned"
    CANNOT_TELL = "cannot_tell"
    CERTIFIED = "certified"


@dataclass(frozen=True)
class NodeRow:
    """One node of a gate. `measured_at` is a Unix time, by the node's clock and never after the verdict; `checks` is the place of the
    measured checks in GateNodes.checks. `identity` is None for a node that sent no report. `engine_node` is the engine's name of the
    node where that is another one, as on Kubernetes, "" otherwise.
    """

    node: str
    standing: Standing
    measured_at: Annotated[float, Range(0.0, 1e11)]
    checks: Annotated[int, Range(0, 1 << 20)]
    findings: tuple[Finding, ...]
    identity: NodeIdentity | None = None
    engine_node: str = field(default="", metadata=SPARSE)


@dataclass(frozen=True)
class GateNodes:
    """All nodes of a gate that were declared or reported. `policy` is its digest; `checks` are the different sets of checks that were
    measured; `cluster_findings` are about no single node. `among_peers` are the check and metric of findings that only peers show.
    """

    schema_version: Version
    gate_id: GateId
    judged_at: str
    profile: Profile
    policy: str
    checks: tuple[tuple[str, ...], ...]
    nodes: tuple[NodeRow, ...]
    cluster_findings: tuple[Finding, ...]
    numbers: GateNumbers
    among_peers: tuple[tuple[str, str], ...] = ()

    @property
    def cluster(self) -> str:
        """The cluster of the gate; "" where nobody says it."""
        return self.numbers.cluster


def rows_of(
    report: Report, verdict: Verdict, policy: Policy, gate_id: str, judged_at: str, cluster: str = ""
) -> GateNodes:
    """The nodes of a gate. `policy` is the one whose rules say how numbers are compared; `judged_at` is UTC, ISO 8601."""
    numbers = gate_numbers(replace(report, gate_id=gate_id), verdict.digests.report, policy, cluster)
    numbers = replace(numbers, nodes=tuple(sorted(numbers.nodes, key=lambda node: node.name)))
    by_name = by_check(report.observations)
    findings = [finding for finding in verdict.findings if finding.level is not Level.PASS]
    by_node: dict[str, list[Finding]] = {}
    caused: dict[str, list[Finding]] = {}
    whole: list[Finding] = []
    for finding in findings:
        for end in dict.fromkeys([node_of(end.strip()) for end in finding.subject.split(LINK)]):
            (whole if end == CLUSTER else by_node.setdefault(end, [])).append(finding)
        for node in finding.named_nodes if not is_accepted_gap(finding) else ():
            by_node.setdefault(node, []).append(finding)
        if finding.follows:
            caused.setdefault(finding.follows, []).append(finding)
    measured = _measured(by_name)
    compared = _compared(by_name, measured, policy)
    sets: dict[tuple[str, ...], int] = {}
    identities = {node.name: node.identity for node in numbers.nodes}
    times = {node.name: node.measured_at for node in report.nodes}
    complete = {node.name for node in report.nodes if node.complete}
    engine_nodes = {node.name: node.identity.get("engine_node", "") for node in report.nodes}
    names = sorted({*report.declared.node_names, *(node.name for node in report.nodes)})
    latest = seconds(judged_at) or 0.0
    certified = {
        observation.subject for mine in by_name.values() if Skip.CERTIFIED in mine.columns.skips for observation in mine
        if observation.skip is Skip.CERTIFIED
    }  # fmt: skip
    records = []
    for name in names:
        own = by_node.get(name, [])
        lacking = {f.check for f in (*own, *whole) if f.cause is Cause.EVIDENCE and not is_accepted_gap(f)}
        checks = tuple(check for check in measured.get(name, ()) if check not in lacking)
        checks += tuple(check + AMONG_PEERS for check in checks if check in compared)
        at = seconds(times.get(name) or report.measured_at)
        records.append(
            NodeRow(
                name,
                _standing(own, whole, name in verdict.condemned, name in complete, name in certified),
                min(latest if at is None else max(at, 0.0), latest),
                sets.setdefault(checks, len(sets)),
                # What its peers lack because it was silent is open on this node, and not on them.
                tuple(
                    map(_short, [*(f for f in own if not f.follows), *caused.get(name, [])][:MOST_FINDINGS])
                ),
                identities.get(name),
                "" if engine_nodes.get(name) == name else engine_nodes.get(name, ""),
            )
        )
    return GateNodes(
        SCHEMA_VERSION, gate_id, judged_at, report.profile, verdict.digests.policy, tuple(sets), tuple(records),
        tuple(map(_short, [f for f in whole if not f.follows][:MOST_FINDINGS])), numbers,
        tuple(sorted({(f.check, f.metric) for f in findings if f.check in compared and _needs_peers(f, compared[f.check])})),
    )  # fmt: skip


def keep(store: Store, gate: GateNodes) -> None:
    """Write the rows of a gate to the store. Raises StoreError."""
    store.put(nodes_key(gate.gate_id), dump_plain(gate))


def make_again(store: Store, record: Record) -> None:
    """Keep the rows of a gate again, of its report, verdict and policy. Raises DecodeError, StoreError."""
    gate_id, cluster = record.gate_id, RETEST_CLUSTER.sub("", record.cluster)
    report = judged_report(store, record.report, record.digests.report)
    verdict = load(store.get(verdict_key(gate_id)) or b"")
    policy = decode(Policy, parse_json(store.get(policy_key(gate_id)) or b"", FILE_BYTES))
    keep(store, rows_of(report, verdict, policy, gate_id, record.judged_at, cluster))


def read(store: Store, gate_id: str) -> GateNodes | None:
    """The rows of a gate; None if there are none. Raises DecodeError, StoreError."""
    gate = document_at(store, nodes_key(gate_id), GateNodes, FILE_BYTES)
    if gate is None:
        return None
    if gate.gate_id != gate_id:
        raise DecodeError(f"it has the nodes of gate {gate.gate_id}", "gate_id")
    # Raise DecodeError unless all columns fit each other.
    numbers, many = gate.numbers, len(gate.numbers.numbers)
    even = len(numbers.medians) == len(numbers.together) == many and all(
        len(node.values) == many and len(node.sums) == len(node.parts) == len(numbers.counters)
        for node in numbers.nodes
    )
    if not even or any(record.checks >= len(gate.checks) for record in gate.nodes):
        raise DecodeError("its columns do not have the same length", "numbers")
    return gate


def _standing(
    own: Sequence[Finding], whole: Sequence[Finding], condemned: bool, complete: bool, certified: bool
) -> Standing:
    if condemned:
        return Standing.CONDEMNED
    failed = [f for f in own if f.level is Level.FAIL and f.cause is not Cause.EVIDENCE]
    lacking = [f for f in (*own, *whole) if f.level is Level.FAIL and f.cause is Cause.EVIDENCE]
    if not complete or (lacking and not failed):
        return Standing.CANNOT_TELL
    if not all(map(is_accepted_gap, own)) or any(finding.level is Level.FAIL for finding in whole):
        return Standing.DOUBTFUL
    return Standing.CERTIFIED if certified else Standing.PROVEN


def _measured(by_name: Mapping[str, CheckTable]) -> dict[str, list[str]]:
    """Node -> the checks of which every observation on it was measured."""
    measured: dict[str, list[str]] = {}
    for check, mine in sorted(by_name.items()):
        nodes: dict[str, bool] = {}
        for subject, outcome in zip(mine.columns.subjects, mine.columns.outcomes, strict=True):
            node = node_of(subject)
            nodes[node] = nodes.get(node, True) and outcome is Outcome.MEASURED
        for node in (node for node, whole in nodes.items() if whole):
            measured.setdefault(node, []).append(check)
    return measured


def _compared(
    by_name: Mapping[str, CheckTable], measured: Mapping[str, Sequence[str]], policy: Policy
) -> dict[str, CheckPolicy]:
    """The lines of checks that ran between nodes or are compared between them, if each rule had enough to compare."""
    nodes = Counter(check for own in measured.values() for check in own)
    lines = {check: policy.checks[check] for check in by_name if check in policy.checks and nodes[check] > 1}
    return {
        check: line for check, line in lines.items()
        if (max(line.min_nodes, line.min_ranks) > 1 or comparisons(line.rules, 0, 0))
        and not comparisons(line.rules, nodes[check], len(by_name[check]))
    }  # fmt: skip


def _needs_peers(finding: Finding, line: CheckPolicy) -> bool:
    shows = finding.cause is not Cause.EVIDENCE or bool(finding.metric)
    metrics = comparisons(line.rules, 0, 0)
    return shows and (max(line.min_nodes, line.min_ranks) > 1 or finding.metric in metrics)


def _short(finding: Finding) -> Finding:
    message = one_line(finding.message, MESSAGE_CHARACTERS)
    return Finding(
        finding.level, finding.cause, finding.check, finding.subject, message,
        metric=finding.metric, is_predicate=finding.is_predicate,
    )  # fmt: skip


def with_nodes(gate: GateNodes, names: set[str]) -> GateNodes:
    """The gate with these of its nodes alone."""
    if len(names) == len(gate.nodes):
        return gate
    numbers = replace(gate.numbers, nodes=tuple(node for node in gate.numbers.nodes if node.name in names))
    sets: dict[tuple[str, ...], int] = {}
    nodes = [record for record in gate.nodes if record.node in names]
    nodes = [
        replace(record, checks=sets.setdefault(gate.checks[record.checks], len(sets))) for record in nodes
    ]
    return replace(gate, nodes=tuple(nodes), checks=tuple(sets), numbers=numbers)
