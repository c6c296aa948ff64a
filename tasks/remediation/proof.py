"""What a verdict condemns, as cases; and what a re-test proves. Pure."""

from __future__ import annotations

from checks.culprit.topology import switches_of
from checks.judge.clocks import seconds_of
from checks.judge.robust_statistics import median_of
from checks.judge.rules.values import cells_of
from checks.judge.rules.wording import percent, spoken
from checks.model import (
    CLUSTER,
    LINK,
    SCHEMA_VERSION,
    Action,
    Cause,
    Finding,
    FindingKind,
    Level,
    Node,
    Outcome,
    Profile,
    Report,
    Verdict,
    node_of,
)
from checks.model_details import Comparison, Reference, Relation
from checks.policy import Over, Policy
from tasks.remediation.ladder import WANTED
from tasks.remediation.model import Blame, Case, Identity, Proof
from tasks.render.remedy_commands import gpu_numbers
from tasks.text.tables import counted

# What the kernel logged, or a GPU keeps a count of, does not pass by itself: such a finding needs no repetition before a repair.
HARD = frozenset(("kernel.xid", "kernel.sxid", "kernel.hardware"))
# Checks of several nodes: a node alone cannot show that it passes them.
TOGETHER = ("nccl.", "collective.", "network.", "efa.")
PAIRS = ".pairs"
# Spread over the cluster: a training has neighbours, and one of these may be free.
MOST_PARTNERS = 64
BESIDE_PEERS = {Reference.PEERS: Over.PEERS, Reference.FLEET: Over.FLEET}
DEPTH = (Profile.QUICK, Profile.STANDARD, Profile.DEEP)


def cases_of(report: Report, verdict: Verdict, digest: str, cluster: str, gate_file: str) -> tuple[Case, ...]:
    """A case for each node that the verdict condemns: FAILs with the cause HARDWARE, and nothing else."""
    at = seconds_of(report.measured_at) or 0.0  # which is stale
    blamed = {node: _blames(verdict, node) for node in verdict.condemned}
    well = tuple(node.name for node in report.nodes if node.name not in verdict.condemned and node.complete)
    names = {node.name: engine_name(node) for node in report.nodes}
    domains = {name: levels[0] for name, levels in switches_of(report).items() if levels}
    identities = {node.name: identity_of(node) for node in report.nodes}
    return tuple(
        Case(
            SCHEMA_VERSION,
            cluster,
            names.get(node, node),
            report.gate_id,
            gate_file,
            digest,
            report.profile,
            at,
            identities.get(node, Identity()),
            blames,
            tuple(names[partner] for partner in well[:: 1 + len(well) // MOST_PARTNERS]),
            domains.get(node, ""),
            len(blamed),
            verdict.suspect_policy,
            verdict.digests.policy,
        )
        for node, blames in blamed.items()
        if blames
    )


def engine_name(node: Node) -> str:
    """What the engine calls the node."""
    return node.identity.get("engine_node") or node.name


def identity_of(node: Node) -> Identity:
    """By what the node is recognised, as far as it was measured."""
    gpus = tuple(gpu for gpu in node.identity.get("gpu_uuids", "").split(",") if gpu)
    return Identity(node.identity.get("boot_id", ""), node.identity.get("instance_id", ""), gpus)


def partners_needed(case: Case) -> int:
    """How many healthy nodes a re-test needs: for traffic between nodes one, and two where the slow end of a pair has to be found."""
    checks = [blame.check for blame in case.blames]
    if any(check.endswith(PAIRS) for check in checks):
        return 2
    return int(any(check.startswith(TOGETHER) for check in checks))


def proof_of(case: Case, report: Report, verdict: Verdict, policy: Policy) -> tuple[Proof, Identity, str]:
    """What the re-test of the case's node shows, the identity that it found, and why, in words.

    PASSED needs each check that had failed to be measured on the node, a profile at least as thorough, and no FAIL in the re-test. A
    value that had been compared with other nodes, which a re-test of few nodes does not have, must reach what it had missed then. A
    warning is no missing proof, unless it says of a check that had failed that not all of it was measured.
    """
    node = next((each for each in report.nodes if engine_name(each) == case.node), None)
    if node is None:
        return Proof.CANNOT_TELL, Identity(), f"{case.node} sent no report"
    current = identity_of(node)
    compared = [blame for blame in case.blames if blame.compared and blame.compared.reference in BESIDE_PEERS]
    # What was found beside peers stays open on a node that has few of them now; it is compared with the earlier peers below.
    compared_values = {(blame.check, blame.metric) for blame in compared}
    fails = [
        each for each in verdict.findings if each.level is Level.FAIL
        and not (each.kind is FindingKind.OPEN_BEFORE and (each.check, each.metric) in compared_values)
    ]  # fmt: skip
    about = [each for each in fails if _about(each, node.name)]
    broken = [each for each in about if each.cause is Cause.HARDWARE]
    if broken:
        return Proof.FAILED, current, f"{broken[0].check}: {spoken(broken[0])}"
    if fails:
        first = (about or fails)[0]
        return Proof.CANNOT_TELL, current, f"{first.check}: {spoken(first)}"
    if DEPTH.index(report.profile) < DEPTH.index(case.profile):
        return Proof.CANNOT_TELL, current, f"the profile was {report.profile.value}, not {case.profile.value}"
    if verdict.digests.policy != case.policy:
        return Proof.CANNOT_TELL, current, "it was judged by another policy than the one that condemned it"
    if len(report.nodes) <= partners_needed(case):
        sent = counted(len(report.nodes), "node")
        return Proof.CANNOT_TELL, current, f"{sent} sent a report: too few to compare"
    for check in dict.fromkeys(blame.check for blame in case.blames):
        if not _measured(report, node.name, check):
            return Proof.CANNOT_TELL, current, f"{check} was not measured on {case.node}"
        short = next((each.message for each in verdict.findings if _is_short(each, check, node.name)), None)
        if short is not None:
            return Proof.CANNOT_TELL, current, f"{check} was not measured completely on {case.node}: {short}"
    # A node whose ranks are all slow is blamed once more for their median, which is a ratio.
    measurable = {(blame.check, blame.metric) for blame in compared if blame.compared and blame.compared.of}
    for blame in compared:
        if blame.compared and (blame.compared.of or (blame.check, blame.metric) not in measurable):
            proof, message = _beside_its_peers(report, node.name, blame, blame.compared, policy)
            if proof is not Proof.PASSED:
                return proof, current, f"{blame.check}: {message}"
    return Proof.PASSED, current, "every check that had failed was measured, and passed"


def _is_short(finding: Finding, check: str, node: str) -> bool:
    """Whether the finding says that not all of this check was measured on the node."""
    if finding.level is Level.PASS or (finding.cause, finding.check) != (Cause.EVIDENCE, check):
        return False
    return finding.subject == CLUSTER or _about(finding, node)


def _beside_its_peers(
    report: Report, node: str, blame: Blame, compared: Comparison, policy: Policy
) -> tuple[Proof, str]:
    """What the node's values show beside those that its peers had when it was blamed."""
    over, values = BESIDE_PEERS[compared.reference], list[float]()
    for rule in policy.checks[blame.check].rules if blame.check in policy.checks else ():
        if (rule.metric, rule.over) == (blame.metric, over):
            key = blame.check, node
            own = (obs for obs in report.observations if (obs.check, node_of(obs.subject)) == key)
            cells = (cell for obs in own for cell in cells_of(rule, obs)[0])
            values = [cell.value for cell in cells if cell.element in blame.elements or not blame.elements]
    if not values or not compared.of:
        return Proof.CANNOT_TELL, f"{blame.metric} was compared with other nodes, and cannot be again"
    sign = 1 if compared.relation is Relation.BELOW else -1
    worst = median_of(values) if over is Over.FLEET else sign * min(sign * value for value in values)
    ratio = worst / compared.of
    if sign * ratio >= sign * compared.threshold:
        return Proof.PASSED, ""
    threshold = percent(compared.threshold)
    return Proof.FAILED, f"{blame.metric} is at {percent(ratio)} of what its peers had, threshold {threshold}"


def _measured(report: Report, node: str, check: str) -> bool:
    observations = [
        obs for obs in report.observations if obs.check == check and node_of(obs.subject) in (node, "cluster")
    ]
    return bool(observations) and all(obs.outcome is Outcome.MEASURED for obs in observations)


def _about(finding: Finding, node: str) -> bool:
    """Whether a finding is about the node, one of its ranks, or a link that ends at it."""
    return node in (end.partition("/")[0] for end in finding.subject.split(LINK))


def _blames(verdict: Verdict, node: str) -> tuple[Blame, ...]:
    findings = (
        finding
        for finding in verdict.findings
        if node_of(finding.subject) == node and (finding.level, finding.cause) == (Level.FAIL, Cause.HARDWARE)
    )
    return tuple(
        Blame(
            finding.check,
            finding.subject,
            finding.action,
            finding.message,
            tuple(dict.fromkeys(map(int, gpu_numbers(finding.elements)))),
            finding.check in HARD and finding.action in WANTED,
            finding.metric,
            finding.elements,
            finding.compared,
        )
        for finding in findings
        if finding.action is not Action.RESTART_APP
    )
