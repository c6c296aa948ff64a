"""The certificates that follow from the gates that a store keeps. Pure; nothing is believed that the reports do not show again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from checks.documents.certificates import Certificate
from checks.documents.columns import by_check
from checks.judge.certificates.decision import conditions_of, machine_digest, state_of
from checks.judge.not_measured import is_accepted_gap
from checks.model import CLUSTER, LINK, Finding, Level, Node, Outcome, Report, Verdict, node_of
from checks.policy import CERTIFIABLE, Policy


@dataclass(frozen=True)
class GateEvidence:
    """One kept gate. `verdict` is made of the report now; `is_kept` says that the verdict of that time has the same level, and was
    made of the same report, policy, facts, baseline and version. `report` is the SHA-256 of the bytes that were read.
    """

    gate_id: str
    document: Report
    report: str
    verdict: Verdict
    is_kept: bool


def issued(gates: Sequence[GateEvidence | None], policy: Policy, facts: str) -> tuple[Certificate, ...]:
    """The certificates of these gates, which are in the order of time, the newest first.

    None stands for a gate that cannot be read whole: nobody knows which machines it found something on, so that nothing before it
    counts. A gate that found something on a machine voids whatever was measured on that machine before.
    """
    certificates: list[Certificate] = []
    void, later, keys = set[str](), dict[str, list[str]](), set[tuple[str, str, str]]()
    for gate in gates:
        if gate is None:
            break
        document = gate.document
        terms = conditions_of(policy.digest, facts, document.catalogue, document.profile, document.declared)
        machines: dict[str, list[Node]] = {}
        for node in document.nodes:
            if machine := machine_digest(node.identity):
                machines.setdefault(machine, []).append(node)
        for machine, nodes in machines.items():
            if any(_is_doubtful(node.name, gate.verdict.findings) for node in nodes):
                void.add(machine)
            if machine not in void:
                for item in _of_machine(machine, nodes, gate, terms, later.get(machine, ())):
                    new = {c: s for c, s in item.checks.items() if (machine, item.conditions, c) not in keys}
                    keys |= {(machine, item.conditions, check) for check in new}
                    certificates += [replace(item, checks=new)] if new else []
                later.setdefault(machine, []).append(gate.gate_id)
    return tuple(certificates)


def _is_doubtful(node: str, findings: Sequence[Finding]) -> bool:
    """Whether the gate found something on the node, or could not see it whole. Evidence that the policy does without is no doubt.

    A FAIL of the whole cluster may be this node's.
    """
    return any(
        (finding.level is Level.FAIL and finding.subject == CLUSTER)
        or (finding.level is not Level.PASS and not is_accepted_gap(finding) and _touches(node, finding))
        for finding in findings
    )


def _touches(node: str, finding: Finding) -> bool:
    return node in (*finding.named_nodes, *(node_of(end.strip()) for end in finding.subject.split(LINK)))


def _of_machine(
    machine: str, nodes: Sequence[Node], gate: GateEvidence, conditions: str, later: Sequence[str]
) -> Iterator[Certificate]:
    began = [state for node in nodes if (state := state_of(node)) is not None]
    if not gate.is_kept or gate.verdict.level is Level.FAIL or len(began) < len(nodes):
        return
    checks = {}
    for check in CERTIFIABLE:
        took = [_sound_s(check, node.name, gate) for node in nodes]
        if None not in took:
            checks[check] = max(filter(None, took), default=0.0)
    if checks:
        first = min(began, key=lambda state: state.boot_s)
        yield Certificate(
            machine, gate.gate_id, gate.report, conditions, first.at, first.boot_s, checks, tuple(later)
        )


def _sound_s(check: str, node: str, gate: GateEvidence) -> float | None:
    """How long the check took, if this gate itself measured it on the node and found nothing; None otherwise. What it skipped itself
    certifies nothing.
    """
    records = by_check(gate.document.observations).get(check, ())
    own = [record for record in records if record.subject == node]
    measured = len(own) == 1 and own[0].outcome is Outcome.MEASURED and own[0].skip is None
    doubted = any(
        finding.check == check and (finding.subject == CLUSTER or _touches(node, finding))
        for finding in gate.verdict.findings
        if finding.level is not Level.PASS
    )
    return own[0].seconds if measured and not doubted else None
