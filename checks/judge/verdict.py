"""Report + policy + facts -> Verdict. Pure: no clock, no disk, no network; the same input gives the same verdict."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache

from checks.culprit import topology
from checks.documents.columns import CheckTable, by_check
from checks.documents.report import digest, dump, dump_plain
from checks.exit_codes import Exit
from checks.facts.instances import DECLARED, Facts, not_for
from checks.judge import consequences, cpu_contention, driver_age, evidence, reachability
from checks.judge.baseline import compare as baselines
from checks.judge.baseline.bands import Baseline
from checks.judge.certificates import decision as certificates
from checks.judge.culprits import findings as culprit
from checks.judge.culprits import silent_ranks as silent
from checks.judge.not_measured import followers
from checks.judge.open_findings import prior_findings as opened_before
from checks.judge.rules import apply, combined
from checks.judge.rules.values import RuleContext
from checks.judge.rules.wording import spoken
from checks.model import (
    CLUSTER,
    LINK,
    Action,
    Answer,
    Cause,
    Count,
    Coverage,
    Declared,
    Digests,
    Finding,
    Level,
    Outcome,
    Report,
    Scope,
    Verdict,
    node_of,
    worst,
)
from checks.model_details import Hindrance
from checks.policy import OnWarn, Policy
from checks.value_types import natural
from checks.version import ENGINE

# Among findings of equal level a broken part comes first, and missing evidence last.
CAUSES = (Cause.HARDWARE, Cause.CONFIGURATION, Cause.APPLICATION, Cause.EVIDENCE)
# Among missing evidence a time limit of the gate file comes first, and last what follows from something else.
HINDRANCES = (Hindrance.LIMIT, Hindrance.ITSELF, Hindrance.EARLIER)
UNSTORED = "Run the gate again when the store can be written."
NOTHING = Coverage(Count(0, 1), Count(0, 0), Count(0, 1), Count(0, 1))
# With which code a command that judges without a gate ends.
ANSWER_EXITS: Mapping[Answer, Exit] = {
    Answer.GO: Exit.GO,
    Answer.NO_GO: Exit.NO_GO,
    Answer.ASK: Exit.NO_GO,
    Answer.CANNOT_TELL: Exit.CANNOT_TELL,
}


def decide(
    report: Report, policy: Policy, facts: Facts, baseline: Baseline | None = None, *, report_digest: str = ""
) -> Verdict:
    """The verdict. Whatever had to be observed and was not is a FAIL with the cause EVIDENCE.

    A baseline only adds findings, with one exception: if it has a band, the finding "no baseline" is dropped. `report_digest` is the
    SHA-256 of the bytes from which the report was loaded; without it the digest of the report's own JSON is used.
    """
    facts, whole = facts.merged(report.declared), policy
    policy = policy.for_machines(report.declared)
    sound = evidence.weigh(report, policy, facts, certificates.in_report(report, whole, facts.digest))
    findings = [*sound.findings, *_about_declared(report.declared, policy, facts)]
    # Otherwise its rules say nothing about these machines.
    fits = facts.are_for(policy.instance_types, report.declared)
    versions = driver_age.of_nodes(report, sound.records)
    instance_type = report.declared.instance_type
    gaps = driver_age.gaps(versions, sound.records, policy, facts, instance_type) if fits else ()
    findings += driver_age.findings(gaps, versions)
    hosts = cpu_contention.machines_of(report.nodes)
    chances = combined.chances(policy.false_names, policy, sound.records)
    pooled = cache(lambda: combined.pooled(policy, sound.records))
    for planned in report.plan if fits else ():
        records, line = sound.records.get(planned.check, ()), policy.checks.get(planned.check)
        if planned.skip is None and line is not None:
            absent = facts.absent(instance_type, planned.check)
            unreported = driver_age.by_subject(gaps, planned.check)
            context = RuleContext(
                facts.instances.get(instance_type), absent, report.declared, facts, unreported, hosts, chances,
                pooled=pooled,
            )  # fmt: skip
            subjects = report.declared.ranks if planned.scope is Scope.RANK else report.declared.nodes
            findings += apply.apply(planned.check, line, records, subjects, context)
    findings += reachability.judge(report, sound.records, policy)
    of_pairs, seen_from = culprit.judge(report, sound.records, policy, facts)
    findings += of_pairs
    findings += topology.judge(report)
    suspected = silent.judge(report, policy)
    findings = [f for f in findings if not any(suspect.covers(f) for suspect in suspected)]
    for suspect in suspected:
        findings = [suspect.marked(finding) for finding in findings]
    findings += [suspect.finding for suspect in suspected]
    findings += opened_before.judge(report, sound.records, findings)
    report_digest = report_digest or digest(dump(report))
    if baseline is not None:
        findings = [
            *baselines.without_answered(findings, report, sound.records, policy, baseline, report_digest)
        ]
        findings += baselines.judge(report, sound.records, policy, baseline)
    learned = None if baseline is None else digest(dump_plain(baseline))
    digests = Digests(report_digest, whole.digest, facts.digest, learned, ENGINE)
    suspects = [suspect.finding for suspect in suspected]
    called = [_called(finding) for finding in consequences.marked(findings, report, policy, suspects)]
    order = _Order(report, suspected)
    verdict = conclude(called, sound.coverage, policy, report.declared.nodes, digests, order)
    return replace(verdict, seen_from=seen_from)


def unreadable(reason: str, policy: Policy, facts: Facts, data: bytes) -> Verdict:
    """The verdict on something that is not a report: CANNOT TELL."""
    remedy = "Run the gate again, or for a tool's output type: prelaunch explain FILE. A truncated file means that its writer died."
    finding = _of_cluster("report", Cause.EVIDENCE, f"the report cannot be read: {reason}", remedy)
    digests = Digests(digest(data), policy.digest, facts.digest, None, ENGINE)
    return conclude([finding], NOTHING, policy, 1, digests, None)


def unstored(reason: str, instead: str, verdict: Verdict) -> Verdict:
    """The verdict if the report of `verdict` could not be kept: CANNOT TELL, but a NO-GO stands, for a refusal needs no stored
    evidence. `instead` says where else the report was written.
    """
    finding = Finding(Level.FAIL, Cause.EVIDENCE, "report", CLUSTER, reason, instead, UNSTORED)
    findings = tuple(sorted((finding, *verdict.findings), key=_severity))
    answer = Answer.NO_GO if verdict.answer is Answer.NO_GO else Answer.CANNOT_TELL
    return replace(verdict, level=Level.FAIL, answer=answer, findings=findings)


def conclude(
    findings: list[Finding],
    coverage: Coverage,
    policy: Policy,
    nodes: int,
    digests: Digests,
    order: _Order | None,
) -> Verdict:
    """The answer that follows from the findings, the most serious first."""
    said_so = any(f.level is not Level.PASS and f.cause is Cause.EVIDENCE for f in findings)
    failed = any(f.level is Level.FAIL for f in findings)
    counts = {"nodes": coverage.nodes, "GPUs": coverage.gpus, "ranks": coverage.ranks}
    short = [f"{c.observed} of {c.required} {name}" for name, c in counts.items() if c.observed < c.required]
    if (short and not failed) or (not coverage.complete and not said_so):
        checks = f"{coverage.checks.observed} of {coverage.checks.required} observations that are required"
        reason = f"the report has sound observations of {' and '.join(short) or checks}"
        remedy = "Run the gate again. If no check of the policy observes them, add one." if short else ""
        findings = [*findings, _of_cluster("report", Cause.EVIDENCE, reason, remedy)]
    ordered = sorted(set(findings), key=order or _severity)
    level = worst([finding.level for finding in ordered])
    bad = (f for f in ordered if f.level is Level.FAIL and f.cause is Cause.HARDWARE)
    pairs = {(f.check, node_of(f.subject)) for f in bad if f.subject != CLUSTER and LINK not in f.subject}
    condemned = tuple(sorted({node for _, node in pairs}, key=natural))
    alike = max(Counter(check for check, _ in pairs).values(), default=0)
    brake = alike > max(1.0, policy.max_unfit_fraction * nodes)
    return Verdict(
        level, _answer(level, ordered, policy), coverage, tuple(ordered), condemned, brake, digests
    )


def failed_nodes(verdict: Verdict) -> dict[str, str]:
    """The nodes that failed, each with the first reason. What could not be told is no failure; of a bad link both ends are."""
    reasons = dict[str, str]()
    for finding in verdict.findings:
        if finding.level is Level.FAIL and finding.cause is not Cause.EVIDENCE:
            for end in finding.subject.split(LINK):
                reasons.setdefault(node_of(end), spoken(finding))
    return {node: reason for node, reason in reasons.items() if node != CLUSTER}


def _called(finding: Finding) -> Finding:
    """A finding about a failed part that calls for no particular action calls for an inspection."""
    vague = finding.action is Action.NONE and finding.cause is Cause.HARDWARE and finding.level is Level.FAIL
    return replace(finding, action=Action.INSPECT) if vague else finding


def _answer(level: Level, findings: list[Finding], policy: Policy) -> Answer:
    if level is Level.FAIL:
        has_fault = any(f.level is Level.FAIL and f.cause is not Cause.EVIDENCE for f in findings)
        return Answer.NO_GO if has_fault else Answer.CANNOT_TELL
    if level is Level.WARN and policy.on_warn is not OnWarn.GO:
        return Answer.ASK if policy.on_warn is OnWarn.ASK else Answer.NO_GO
    return Answer.GO


def _severity(finding: Finding) -> tuple[object, ...]:
    return (-finding.level.rank, CAUSES.index(finding.cause), finding.check != "report")


class _Order:
    """The order of findings: the worst level first; what follows from a silent node after the others; then nodes whose process failed;
    then suspects for whom others waited; then checks whose own time limit passed, and last what was not run because of something
    before; then ranks that fell silent before ranks that reported errors; then the check that ran first.
    """

    def __init__(self, report: Report, suspected: Sequence[silent.Suspected] = ()) -> None:
        self.suspected = {suspect.finding for suspect in suspected}
        self.silent = _silent(report)
        self.turn = {planned.check: index for index, planned in enumerate(report.plan)}
        # If some nodes reported, those that did not are what is wrong; if none did, what is said of the whole job is.
        self.some_reported = bool(report.nodes)
        self.followed = followers(report.ends)
        ended = {end.node for end in report.ends if end.exit_code} - self.followed
        self.ended = ended if self.some_reported else set()

    def __call__(self, f: Finding) -> tuple[object, ...]:
        turn = self.turn.get(f.check, -1)
        silent = f.subject not in self.silent
        *severe, general = _severity(f)
        return (
            *severe,
            bool(f.follows),
            not (f.check == "report" and f.subject in self.ended),
            f not in self.suspected,
            general,
            HINDRANCES.index(f.unmeasured.hindrance if f.unmeasured else Hindrance.ITSELF),
            silent,
            self.some_reported and f.check == "report" and f.subject == CLUSTER,
            f.subject in self.followed,
            turn,
            f.check,
            natural(f.subject),
            f.cause.value,
            f.message,
            f.evidence,
            f.remedy,
        )


def _silent(report: Report) -> frozenset[str]:
    """Ranks that wrote nothing about a check that their peers at least started."""
    tables = by_check(report.observations).values()
    errored = [table for table in tables if any("/" in subject for subject in _errored(table))]
    if not errored:
        return frozenset()
    ranks = frozenset().union(*map(_ranks, tables))
    return frozenset().union(*(ranks - _ranks(table) for table in errored))


def _ranks(records: CheckTable) -> frozenset[str]:
    return frozenset(subject for subject in records.columns.subjects if "/" in subject)


def _errored(records: CheckTable) -> frozenset[str]:
    if Outcome.ERRORED not in records.columns.outcomes:
        return frozenset()
    pairs = zip(records.columns.subjects, records.columns.outcomes, strict=True)
    return frozenset(subject for subject, outcome in pairs if outcome is Outcome.ERRORED)


def _about_declared(declared: Declared, policy: Policy, facts: Facts) -> Iterator[Finding]:
    name, instance = declared.instance_type, facts.instances.get(declared.instance_type)
    if not facts.are_for(policy.instance_types, declared):
        message = f"policy {policy.name!r} {not_for(policy.instance_types, name)}"
        yield _of_cluster(
            "policy", Cause.EVIDENCE, message, "Choose a policy whose instance_types contain this type."
        )
    if instance is None:
        message = f"unknown instance type {name!r}"
        yield _of_cluster("facts", Cause.EVIDENCE, message, "Correct the declared instance type.")
    elif declared.machine is not None and instance.provenance != DECLARED:
        message = f"{name} is a known instance type, and was described as if it were none"
        remedy = "Leave [cluster.machine] out of the gate file, or choose a name of your own for the type."
        yield _of_cluster("facts", Cause.EVIDENCE, message, remedy)
    elif declared.ranks_per_node < declared.gpus_per_node:
        message = f"{declared.ranks_per_node} ranks are declared for {declared.gpus_per_node} GPUs: some GPUs would not be tested"
        remedy = "Set ranks_per_node to the number of GPUs (one rank per GPU)."
        yield _of_cluster("facts", Cause.CONFIGURATION, message, remedy)
    elif instance.gpus != declared.gpus_per_node:
        message = f"{declared.gpus_per_node} GPUs per node are declared, but {name} has {instance.gpus}"
        yield _of_cluster("facts", Cause.CONFIGURATION, message, "Correct gpus_per_node.")


def _of_cluster(check: str, cause: Cause, message: str, remedy: str) -> Finding:
    """A FAIL of the cluster as a whole."""
    return Finding(Level.FAIL, cause, check, CLUSTER, message, "", remedy)
