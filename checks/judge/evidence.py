"""Compares what had to be observed with what was observed. Pure. What is missing becomes a finding, cause EVIDENCE."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from checks.documents.columns import CheckTable, by_check
from checks.facts import withheld_kernel_log
from checks.facts.instances import Facts, Instance, lacks
from checks.judge import clocks, completeness, machine_identity
from checks.judge.certificates import findings as certificates
from checks.judge.certificates.decision import NO_DECISIONS, Decisions
from checks.judge.not_measured import hindrance_of, not_measured, remedy_of
from checks.judge.reachability import PAIRS
from checks.judge.rules.wording import exit_text
from checks.model import (
    CLUSTER,
    Cause,
    Count,
    Coverage,
    Declared,
    Finding,
    FindingKind,
    Level,
    MachinePart,
    NodeEnd,
    Observation,
    Outcome,
    Planned,
    Report,
    Scope,
    Skip,
)
from checks.model_details import Unmeasured
from checks.policy import CheckPolicy, Policy

MOST_PROBLEMS = 1000  # more lines than a person reads; the others are counted
TWICE = "the report has two observations of this check: neither can be trusted"
NEVER_WROTE = "it did not start, or it ended before it wrote one"
AGAIN = "See whether the node is up, read its log (in logs/ beside the report), then run the gate again."
ON_NODE = "Look on the node at what the reason names (its log is in logs/ beside the report), then run the gate again."
OF_ALL = "Read the nodes' logs (in logs/ beside the report), then run the gate again."
SAME_VERSION = "Run the gate again with the same version of the checks and the policy."
NO_LOG = "Its log is empty: read the engine's messages (sacct, kubectl describe) and dmesg for what ended it, then run the gate again."
MEND = {
    Skip.TOOL_MISSING: "Install the tool on every node (container/Dockerfile installs all tools), or accept the skip in the policy.",
    Skip.NOT_PERMITTED: "Run the checks with the permission that the reason names, or accept the skip in the policy.",
    Skip.PREREQUISITE: "Fix what made the check that it depends on fail, then run the gate again.",
    Skip.GATE_FILE: "Remove the check from [checks] skip, and run the gate again.",
}


@dataclass(frozen=True)
class UsableEvidence:
    """The observations that may be judged, by check, and findings about what is missing."""

    records: dict[str, CheckTable]
    findings: list[Finding]
    coverage: Coverage


def weigh(
    report: Report, policy: Policy, facts: Facts, certified: Decisions = NO_DECISIONS
) -> UsableEvidence:
    """Splits the report into sound observations, in the order of their subjects, and findings about missing evidence. `certified` are
    the decisions on the certificates that the report carries.
    """
    instance = facts.instances.get(report.declared.instance_type)
    findings = [
        *_about_absent_nodes(report),
        *machine_identity.about_machines(report, instance),
        *_about_plan(report, policy, instance),
    ]
    subjects = {scope: completeness.subjects_of(scope, report) for scope in Scope}
    observed = by_check(report.observations)
    sound: dict[str, CheckTable] = {}
    required, unread = 0, set[str]()
    # Most checks have one and the same list of subjects.
    complete: dict[tuple[tuple[str, ...], Scope], bool] = {}
    for planned in report.plan:
        table = observed.pop(planned.check, None) or CheckTable.collect(planned.check, ())
        line = _line(planned.check, policy, report.declared)
        if planned.skip is None:
            accepted = _accepted(table, subjects[planned.scope], report.declared)
            unread |= accepted
            required += completeness.declared_count(planned.scope, report.declared) - len(accepted)
            absent = facts.absent(report.declared.instance_type, planned.check)
            unfit = completeness.unfit(planned, table)
            key = (table.columns.subjects, planned.scope)
            if key not in complete:
                complete[key] = completeness.is_whole(table.columns.subjects, subjects[planned.scope])
            if complete[key] and not unfit:
                sound[planned.check] = table
            else:
                findings += _about_subjects(planned, table, subjects[planned.scope], line)
                sound[planned.check] = _sound(table, unfit, subjects[planned.scope])
            wanted = subjects[planned.scope] - accepted
            findings += _about_rows(planned, table, unfit, wanted, line, absent, certified)
            findings += completeness.judge_lists(planned, sound[planned.check], report.declared, line)
            findings += _about_source(sound[planned.check])
        else:
            findings += _about_subjects(planned, table, frozenset(), line)
    for check, table in observed.items():
        findings += [_missing(check, s, TWICE) for s in _twice(table)]
        message = "the report has an observation of this check, but the plan does not contain it"
        findings.append(_missing(check, CLUSTER, message, SAME_VERSION))
    findings += _about_withheld(report.declared, unread, sound, instance)
    count = sum(map(len, sound.values()))
    coverage = completeness.coverage(report, sound, Count(count, required))
    return UsableEvidence(sound, findings, certificates.counted(coverage, findings))


def allowed(
    check: str, skip: Skip, report: Report, line: CheckPolicy | None, instance: Instance | None
) -> bool:
    """Whether the declaration itself excludes the check.

    If the policy has no entry for the check, it is enough that some part really is not declared.
    """
    declared = report.declared
    if skip is Skip.KERNEL_LOG_READABLE:
        return withheld_kernel_log.needless(check, declared)
    if withheld_kernel_log.required(check, declared):
        return lacks(withheld_kernel_log.STAND_INS[check].machine_part, declared, instance) is skip
    if line is None:
        return any(lacks(machine_part, declared, instance) is skip for machine_part in MachinePart)
    if skip is Skip.ONE_NODE_DECLARED:
        return declared.nodes < line.min_nodes
    if skip is Skip.ONE_RANK_DECLARED:
        return declared.ranks < line.min_ranks
    if skip is Skip.NOT_IN_PROFILE:
        return report.profile not in line.profiles
    return lacks(line.part, declared, instance) is skip


def _about_absent_nodes(report: Report) -> Iterator[Finding]:
    for problem in report.collection[:MOST_PROBLEMS]:
        yield replace(_missing("report", CLUSTER, problem), kind=FindingKind.NOT_COLLECTED)
    if len(report.collection) > MOST_PROBLEMS:
        more = len(report.collection) - MOST_PROBLEMS
        yield _missing("report", CLUSTER, f"{more} more things could not be collected")
    names, count = [node.name for node in report.nodes], report.declared.nodes
    reported, declared = set(names), set(report.declared.node_names)
    if CLUSTER in reported:
        yield _missing("report", CLUSTER, "a node has the reserved name that stands for the whole cluster")
    for name, times in Counter(names).items():
        if times > 1:
            yield _about(name, f"is named in {times} reports")
    for rank, times in Counter(node.rank for node in report.nodes).items():
        if times > 1 or rank >= count:
            yield _missing("report", CLUSTER, f"{times} of {count} nodes have node rank {rank}")
    ends = {end.node: end for end in report.ends}
    silent = [name for name in report.declared.node_names or ends if name not in reported]
    absent = silent if declared else silent[: max(0, count - len(reported))]
    for name in absent:
        yield _ended(name, "sent no report", NEVER_WROTE, ends.get(name))
    unnamed = count - len(reported) - len(absent)
    if unnamed > 0:
        yield _about(CLUSTER, f"has no report of {unnamed} of {count} declared nodes")
    if len(names) > count:
        yield _missing("report", CLUSTER, f"{len(names)} nodes reported, but {count} are declared")
    yield from clocks.judge_clocks(report.nodes)
    for node in report.nodes:
        if node.attempt != report.attempt:
            yield _about(node.name, f"sent a report of another attempt ({node.attempt:.12})")
        if node.catalogue != report.catalogue:
            message = "ran another version of the checks than the gate"
            yield _about(node.name, message, "Use one image on every node.")
        if not node.complete:
            reason = "it ends before the last check"
            yield _ended(node.name, "sent an incomplete report", reason, ends.get(node.name))
        if declared and node.name not in declared:
            yield _about(node.name, "is not one of the declared nodes")


def _about_plan(report: Report, policy: Policy, instance: Instance | None) -> Iterator[Finding]:
    planned = Counter(p.check for p in report.plan)
    for name, times in planned.items():
        if times > 1:
            yield _missing(name, CLUSTER, "the plan contains this check twice", SAME_VERSION)
    for name in policy.checks:
        if name not in planned:
            message = "the policy requires this check, but the plan does not contain it"
            yield _missing(name, CLUSTER, message, SAME_VERSION)
    for name, stand_in in withheld_kernel_log.STAND_INS.items():
        applies = lacks(stand_in.machine_part, report.declared, instance) is None
        if applies and withheld_kernel_log.required(name, report.declared) and name not in planned:
            message = "this check replaces the kernel log, but the plan does not contain it"
            yield _missing(name, CLUSTER, message, SAME_VERSION)
    for p in report.plan:
        line = policy.checks.get(p.check)
        if p.skip is not None and not allowed(p.check, p.skip, report, line, instance):
            message = f"the plan skips this check ({p.skip.value}), which contradicts the declaration"
            yield _missing(p.check, CLUSTER, message, SAME_VERSION)
        elif line is not None and line.scope not in (None, p.scope):
            message = f"the plan has scope {p.scope.value} for this check, but the policy requires scope {line.scope.value}"
            yield _missing(p.check, CLUSTER, message, SAME_VERSION)
        elif line is None and p.skip is None:
            remedy = f'Add [checks."{p.check}"] with at least one rule to the policy: an entry without rules is refused.'
            yield _missing(p.check, CLUSTER, "the policy has no entry for this check", remedy)


def _line(check: str, policy: Policy, declared: Declared) -> CheckPolicy:
    """The policy's entry. For a check that replaces the kernel log nothing may be missing, whatever the entry says."""
    line = policy.checks.get(check, CheckPolicy()).on(declared)
    if withheld_kernel_log.required(check, declared):
        return replace(line, required=True, accept_skips=())
    return line


def _accepted(records: CheckTable, expected: frozenset[str], declared: Declared) -> frozenset[str]:
    """The subjects whose check is skipped because the engine withholds the kernel log."""
    if records.check not in withheld_kernel_log.READERS:
        return frozenset()
    others = (records[index] for index in completeness.other_than(records.columns.outcomes, Outcome.MEASURED))
    accepted = (
        other.subject
        for other in others
        if other.outcome is Outcome.SKIPPED and withheld_kernel_log.accepts(other.check, other.skip, declared)
    )
    return frozenset(accepted) & expected - _twice(records)


def _about_withheld(
    declared: Declared, unread: set[str], sound: Mapping[str, CheckTable], instance: Instance | None
) -> Iterator[Finding]:
    """A note on the nodes whose kernel log was not read. It changes no answer."""
    if unread:
        measured = [name for name in withheld_kernel_log.STAND_INS if sound.get(name)]
        neuron = bool(instance and instance.neuron_devices)
        note = withheld_kernel_log.note(len(unread), declared, measured, neuron)
        yield Finding(Level.PASS, Cause.EVIDENCE, "kernel", CLUSTER, note, source=withheld_kernel_log.SOURCE)


def _about_source(records: CheckTable) -> Iterator[Finding]:
    """A log that an environment variable put in place of the machine's own says nothing about the machine,
    whatever the policy says.
    """
    for index, own in enumerate(records.column(withheld_kernel_log.OWN_SOURCE)):
        if own is False:
            record = records[index]
            text = f"the kernel log was read from {record.metrics.get('source')}, not from this machine"
            text += f": {withheld_kernel_log.FILE_VARIABLE} is set"
            yield _missing(
                record.check, record.subject, text, f"Unset {withheld_kernel_log.FILE_VARIABLE} on this node."
            )


def _about_subjects(
    planned: Planned, records: CheckTable, expected: frozenset[str], line: CheckPolicy
) -> Iterator[Finding]:
    """Subjects without an observation, with two observations, or with one that was not planned."""
    observed, twice = frozenset(records.columns.subjects), _twice(records)
    level = Level.FAIL if line.required else Level.WARN
    for subject in sorted(twice):
        yield _missing(planned.check, subject, TWICE, AGAIN, level)
    for subject in sorted(observed - expected - twice):
        yield _missing(
            planned.check, subject, "the report has an observation of this check, but it was not planned"
        )
    for subject in sorted(expected - observed):
        yield not_measured(planned.check, subject, Unmeasured("", _silence(planned.scope)), level, "", AGAIN)


def _sound(records: CheckTable, left_out: frozenset[int], expected: frozenset[str]) -> CheckTable:
    """The rows that may be judged, in the order of their subjects. If a subject has two rows, neither is used."""
    subjects, wanted = records.columns.subjects, expected - _twice(records)
    if left_out or not wanted.issuperset(subjects):
        records = records.take([i for i, s in enumerate(subjects) if s in wanted and i not in left_out])
    return records.by_subject()


def _about_rows(
    planned: Planned, table: CheckTable, unfit: frozenset[int], expected: frozenset[str], line: CheckPolicy,
    absent: frozenset[str], certified: Decisions,
) -> Iterator[Finding]:  # fmt: skip
    level = Level.FAIL if line.required else Level.WARN
    ruled = absent | {rule.metric for rule in line.rules}
    holes = completeness.with_holes(table, ruled | ({"bandwidth_gbps"} if table.check == PAIRS else set()))
    twice = _twice(table) if unfit or holes else frozenset()
    for index in sorted(unfit | holes):
        item = table[index]
        if item.subject in twice or item.subject not in expected:
            continue
        if index not in unfit:
            yield from _holes(item, ruled)
        elif item.skip is Skip.CERTIFIED:
            yield certificates.about(item, certified.get((item.check, item.subject)), level)
        elif item.outcome is Outcome.SKIPPED and line.accepts(item.skip):
            yield _unmeasured(item, _reason(item), "", Level.WARN)
        else:
            fault, remedy = (
                _defect(item, planned),
                ON_NODE if item.skip is None else MEND.get(item.skip, AGAIN),
            )
            yield _unmeasured(item, fault, remedy_of(fault.hindrance, item.check) or remedy, level)


def _twice(records: CheckTable) -> frozenset[str]:
    subjects = records.columns.subjects
    if len(set(subjects)) == len(subjects):
        return frozenset()
    return frozenset(subject for subject, times in Counter(subjects).items() if times > 1)


def _holes(record: Observation, ruled: frozenset[str]) -> Iterator[Finding]:
    """Nulls without an explanation, in metrics that no rule reads (the rules and the decoder report their own)."""
    failures = record.metrics.get("failures")
    for name, value in record.metrics.items():
        items = value if isinstance(value, tuple) and name not in ruled else ()
        holes = [i for i, item in enumerate(items) if item is None and not _explained(failures, i)]
        if holes:
            more = f" and {len(holes) - 1} more" if len(holes) > 1 else ""
            verb = "have" if more else "has"
            hole = Unmeasured(f"{name}[{holes[0]}]{more}", f"{verb} no value")
            yield _unmeasured(record, hole, AGAIN, Level.WARN)


def _explained(failures: object, index: int) -> bool:
    return isinstance(failures, tuple) and index < len(failures) and failures[index] not in ("ok", None)


def _silence(scope: Scope) -> str:
    if scope is Scope.RANK:
        return "it ended or hung before it could report; suspect it before its peers"
    return "it ended or hung before it could report"


def _defect(record: Observation, planned: Planned) -> Unmeasured:
    measured = record.outcome is Outcome.MEASURED and record.skip is None
    return completeness.defect_of(record, planned) if measured else _reason(record)


def _reason(record: Observation) -> Unmeasured:
    message = f"{record.skip.value}: {record.reason}" if record.skip else record.reason
    return Unmeasured("", message or "no reason given", hindrance_of(record.error_kind))


def _missing(check: str, subject: str, message: str, remedy: str = "", level: Level = Level.FAIL) -> Finding:
    return Finding(level, Cause.EVIDENCE, check, subject, message, "", remedy or _again(subject))


def _ended(name: str, predicate: str, reason: str, end: NodeEnd | None) -> Finding:
    """A node whose report is missing or incomplete; what the engine tells of its end replaces `reason`."""
    if end is not None:
        reason = end.said or exit_text(end.exit_code)
    evidence = f"Its log ends: {end.log}" if end is not None and end.log.strip() else ""
    remedy = NO_LOG if end is not None and end.exit_code is not None and not end.log.strip() else AGAIN
    return replace(_about(name, f"{predicate} ({reason})", remedy), evidence=evidence)


def _about(subject: str, predicate: str, remedy: str = "") -> Finding:
    """A finding about what a node reported; the message continues a sentence that begins with its name."""
    remedy = remedy or _again(subject)
    return Finding(Level.FAIL, Cause.EVIDENCE, "report", subject, predicate, "", remedy, is_predicate=True)


def _again(subject: str) -> str:
    return OF_ALL if subject == CLUSTER else AGAIN


def _unmeasured(record: Observation, unmeasured: Unmeasured, remedy: str, level: Level) -> Finding:
    return not_measured(record.check, record.subject, unmeasured, level, record.evidence, remedy)
