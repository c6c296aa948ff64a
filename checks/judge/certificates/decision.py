"""Which checks a node need not measure, because a certificate of an earlier gate stands for them. Pure.

The node decides by this before it checks, and the verdict decides it again of the same values, which the node's report and the gate
carry. A check that is not certified here is measured; one that was skipped all the same is missing evidence.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from hashlib import sha256

from checks.documents import certificates as documents
from checks.documents.certificates import Certificate, MachineState
from checks.documents.report import digest, dump_plain
from checks.judge.certificates.record import CLOCK_S
from checks.judge.open_findings.prior_findings import is_grave, loaded
from checks.model import Declared, Node, Profile, Report
from checks.policy import CERTIFIABLE, Policy
from checks.value_types import DecodeError
from checks.version import ENGINE

# One in so many is measured although it is certified.
SAMPLED = 10
# What says that it is the same machine in the same state. The name and the host's name are a container's, and others get them.
IDENTITY = ("boot_id", "machine_id", "product_uuid", "gpu_uuids", "driver", "kernel", "instance_id")


class WhyMeasured(str, Enum):
    """Why a certified check is measured all the same. No code reads the sentences."""

    NO_CERTIFICATE = "no gate has certified it on this machine as it is now"
    OTHER_CONDITIONS = (
        "the policy, the facts, the profile, the declared machine or the version is another one"
    )
    NO_WATCH = "this machine has no record of a watch"
    OTHER_WATCH = "the watch is of another boot, instance type, policy or version"
    WATCH_BROKEN = "the watch was interrupted or found something since the gate that measured it"
    WATCH_SILENT = "the watch has not ended the round that is due"
    OPEN_FINDINGS = "findings are open on this machine"
    CLOCK_MOVED = "the clock of this machine was set"
    GATE_FORGOTTEN = "this machine does not know the gate that measured it"
    GATE_BETWEEN = "a gate since then found something on this machine, or left no whole report"
    TOO_OLD = "the certificate is older than valid_for"
    SAMPLED = "one certified check in ten is measured all the same"


@dataclass(frozen=True)
class CertificateDecision:
    """What becomes of one check that the policy allows to be certified: skipped if `why` is None.

    `gate_id` is the gate that measured it, and `age_s` how long ago that began. `choice` is what this gate reckoned of the check's
    time, where that is known.
    """

    check: str
    gate_id: str
    age_s: float
    reason: WhyMeasured | None


# (check, node) -> the decision
Decisions = Mapping[tuple[str, str], CertificateDecision]
NO_DECISIONS: Decisions = {}


@dataclass(frozen=True)
class GateTerms:
    """What a gate asks for, as far as certificates depend on it. `policy` is the whole one, `facts` the digest of
    the facts, and `conditions` what a certificate has to have.
    """

    gate_id: str
    policy: Policy
    facts: str
    conditions: str
    instance_type: str


def terms_of(
    gate_id: str, policy: Policy, facts: str, catalogue: str, profile: Profile, declared: Declared
) -> GateTerms:
    """The terms of a gate; `policy` is the whole one."""
    conditions = conditions_of(policy.digest, facts, catalogue, profile, declared)
    return GateTerms(gate_id, policy, facts, conditions, declared.instance_type)


def decisions(node: Node, offered: Sequence[Certificate], terms: GateTerms) -> dict[str, CertificateDecision]:
    """The decision on each check that the policy allows to be certified, if one of the certificates is for it and this machine."""
    machine = machine_digest(node.identity)
    own = [offer for offer in offered if machine and offer.machine == machine]
    by_check = dict[str, CertificateDecision]()
    if not own:
        return by_check
    state = state_of(node)
    trouble = _about_machine(node, state, terms)
    for check in CERTIFIABLE:
        line = terms.policy.checks.get(check)
        if line is None or not line.valid_for:
            continue
        candidates = list[CertificateDecision]()
        for offer in own:
            if check in offer.checks:
                age_s = state.boot_s - offer.boot_s if state is not None and trouble is None else 0.0
                reason = _reason_to_measure(check, offer, state, trouble, terms, line.valid_for * 3600.0)
                candidates.append(CertificateDecision(check, offer.gate_id, age_s, reason))
        if candidates:
            # One that stands, the youngest; of those that do not, the youngest as well.
            by_check[check] = min(candidates, key=lambda best: (best.reason is not None, best.age_s))
    return by_check


def certified(node: Node, offered: Sequence[Certificate], terms: GateTerms) -> dict[str, CertificateDecision]:
    """The result holds those of `decisions` whose checks are skipped."""
    by_check = decisions(node, offered, terms)
    return {check: decision for check, decision in by_check.items() if decision.reason is None}


def in_report(report: Report, policy: Policy, facts: str) -> Decisions:
    """The decisions, from what the report itself carries. Certificates that cannot be read are none."""
    if not report.certificates:
        return NO_DECISIONS
    try:
        offered = documents.load_certificates(report.certificates)
    except DecodeError:
        return NO_DECISIONS
    of_machine: dict[str, list[Certificate]] = {}
    for offer in offered.certificates:
        of_machine.setdefault(offer.machine, []).append(offer)
    terms = terms_of(report.gate_id, policy, facts, report.catalogue, report.profile, report.declared)
    return {
        (check, node.name): answer
        for node in report.nodes
        for check, answer in decisions(node, of_machine.get(machine_digest(node.identity), ()), terms).items()
    }


def machine_digest(identity: Mapping[str, str]) -> str:
    """Equal for one machine in one boot with the same GPUs and driver; "" if its boot is not known, which certifies nothing."""
    if not identity.get("boot_id"):
        return ""
    return digest(dump_plain({key: identity.get(key, "") for key in IDENTITY}))


def conditions_of(
    policy_digest: str, facts: str, catalogue: str, profile: Profile, declared: Declared
) -> str:
    """Equal for gates that measure and judge one node alike: how many nodes there are, and their names, make no difference."""
    one_node = replace(declared, nodes=1, node_names=())
    values = (policy_digest, facts, catalogue, profile.value, digest(dump_plain(one_node)), ENGINE)
    return digest(dump_plain(values))


def is_sampled(gate_id: str, machine: str, check: str) -> bool:
    """Whether a gate measures this check on this machine although it is certified. It follows from the gate's id, which the machine
    does not choose.
    """
    chosen = sha256(f"{gate_id} {machine} {check}".encode()).digest()
    return int.from_bytes(chosen[:8], "big") % SAMPLED == 0


def state_of(node: Node) -> MachineState | None:
    """What the report says of the machine; None if it says nothing that can be read."""
    try:
        return documents.load(MachineState, node.machine_state) if node.machine_state else None
    except DecodeError:
        return None


def _about_machine(node: Node, state: MachineState | None, terms: GateTerms) -> WhyMeasured | None:
    """Why no certificate stands for anything on this machine now."""
    if state is None or state.record is None:
        return WhyMeasured.NO_WATCH
    if _has_open_findings(node.open_findings, state.at):
        return WhyMeasured.OPEN_FINDINGS
    record = state.record
    expected = (
        node.identity.get("boot_id", ""), terms.instance_type, terms.policy.digest, terms.facts, ENGINE,
    )  # fmt: skip
    if (record.boot_id, record.instance_type, record.policy, record.facts, record.engine) != expected:
        return WhyMeasured.OTHER_WATCH
    # Had the next round begun, nobody would know what it found.
    if not record.until_boot_s <= state.boot_s <= record.due_boot_s:
        return WhyMeasured.WATCH_SILENT
    return WhyMeasured.CLOCK_MOVED if _is_moved(record.since, record.since_boot_s, state) else None


def _has_open_findings(text: str, at: float) -> bool:
    """Whether any finding is open, or may be: a file that cannot be read may have some. Of those since the gate began (`at`), when the
    checks had been skipped, only a FAIL of the machine counts.
    """
    findings = loaded(text)
    if isinstance(findings, str) or findings.omitted:
        return True
    return any(item.opened_at <= at or is_grave(item) for item in findings.open)


def _is_moved(at: float, boot_s: float, state: MachineState) -> bool:
    return abs((state.at - at) - (state.boot_s - boot_s)) > CLOCK_S


def _reason_to_measure(
    check: str,
    offer: Certificate,
    state: MachineState | None,
    trouble: WhyMeasured | None,
    terms: GateTerms,
    valid_s: float,
) -> WhyMeasured | None:
    if trouble is not None or state is None or state.record is None:
        return trouble or WhyMeasured.NO_WATCH
    if offer.conditions != terms.conditions:
        return WhyMeasured.OTHER_CONDITIONS
    if offer.boot_s < state.record.since_boot_s:
        return WhyMeasured.WATCH_BROKEN
    if offer.boot_s > state.boot_s or _is_moved(offer.at, offer.boot_s, state):
        return WhyMeasured.CLOCK_MOVED
    if offer.gate_id == terms.gate_id or offer.gate_id not in state.gates:
        return WhyMeasured.GATE_FORGOTTEN
    since = state.gates[len(state.gates) - state.gates[::-1].index(offer.gate_id) :]
    # Two nodes of a gate may be one machine, on which the other one began first.
    if not {*since} - {terms.gate_id} <= {*offer.later}:
        return WhyMeasured.GATE_BETWEEN
    if state.boot_s - offer.boot_s > valid_s:
        return WhyMeasured.TOO_OLD
    return WhyMeasured.SAMPLED if is_sampled(terms.gate_id, offer.machine, check) else None
