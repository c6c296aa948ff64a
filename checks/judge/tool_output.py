"""Judges the output of a tool by the same rules as a node's observations. Pure.

Less can be judged than on a node: there is one subject, and without a declaration it is unknown what the machine should have. What
could not be judged is named in `left_out`, and if nothing could be judged the answer is CANNOT TELL.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from checks.documents.report import clip, digest
from checks.explain.reading import WHOLE, CheckData, Complete, Reading, ReadOptions
from checks.facts.instances import Facts, not_for
from checks.judge import driver_age
from checks.judge.culprits import matrix_file
from checks.judge.culprits.matrix_file import DecodedTable
from checks.judge.not_measured import not_measured
from checks.judge.open_findings.jobs import ABOUT_JOBS
from checks.judge.rules import apply
from checks.judge.rules.values import RuleContext
from checks.judge.verdict import conclude
from checks.model import (
    Cause,
    Count,
    Coverage,
    Digests,
    Finding,
    FindingKind,
    Level,
    Observation,
    Outcome,
    Verdict,
)
from checks.model_details import Unmeasured
from checks.policy import CheckPolicy, Over, Policy, Rule
from checks.version import ENGINE

SUBJECT = "input"
ITSELF = "explain"
NOTHING = Coverage(Count(0, 0), Count(0, 0), Count(0, 0), Count(0, 1))
# What a tool printed no value for is often what it could not read, and no part of the output is lost.
NO_VALUE = (
    "The tool printed no value here: see what it printed instead. If the output was cut, give all of it."
)
DECLARE = "Give --instance-type, so that Prelaunch knows what the output must contain."


@dataclass(frozen=True)
class Judged:
    """`held` says for each part how many rules were applied ("gpu.ecc (4 rules)"), `left_out` which rules were not."""

    verdict: Verdict
    held: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    tables: tuple[DecodedTable, ...] = ()


def judge(reading: Reading, policy: Policy, facts: Facts, options: ReadOptions, data: bytes) -> Judged:
    """The verdict on the output that was read; `data` is the input, whose digest the verdict contains."""
    facts = facts.merged(options.declared) if options.declared is not None else facts
    findings = [*_about_policy(policy, facts, options), *_unread(reading)]
    held, left_out = [], list(reading.left_out)
    for check_data in reading.checks:
        line = policy.checks.get(check_data.check, ABOUT_JOBS.get(check_data.check))
        if line is None:
            message = f"policy {policy.name!r} has no entry for {check_data.check}"
            remedy = f"Name a policy that judges {check_data.check} with --policy."
            findings.append(_missing(message, remedy, check=check_data.check))
            continue
        fitting, skipped = _sorted(check_data, line, options)
        left_out += skipped
        held.append(f"{check_data.check} ({len(fitting)} rule{'' if len(fitting) == 1 else 's'})")
        findings += _findings(check_data, replace(line, rules=fitting), facts, options)
    findings += _unreported(reading, policy)
    tables = matrix_file.decoded_tables(reading, options, policy.max_unfit_fraction)
    findings += matrix_file.findings(reading, tables, options)
    left_out += (matrix_file.ALIKE,) if tables and options.floor is None else ()
    count = len(reading.checks) + len(reading.tables)
    if not count and not reading.unread:
        remedy = "Give output of one of the kinds that `prelaunch explain --help` lists."
        findings.append(_missing("the output contains nothing that a check measures", remedy))
    checks = Count(count, max(count + len(reading.unread), 1))
    verdict = _conclude(findings, replace(NOTHING, checks=checks), policy, facts, data)
    return Judged(verdict, tuple(held), tuple(dict.fromkeys(left_out)), tables)


def unread(reason: str, policy: Policy, facts: Facts, data: bytes, remedy: str = WHOLE) -> Judged:
    """The verdict on an input that no reader understands, or that is incomplete: CANNOT TELL. `remedy` is that of the error."""
    return Judged(_conclude([_missing(reason, remedy)], NOTHING, policy, facts, data))


def _unread(reading: Reading) -> Iterator[Finding]:
    for reason in reading.unread:
        yield _missing(str(reason), "" if isinstance(reason, Complete) else reading.remedy)


def _sorted(
    endpoint: CheckData, line: CheckPolicy, options: ReadOptions
) -> tuple[tuple[Rule, ...], list[str]]:
    """The rules that can be applied to the part, and why the others cannot."""
    fitting, left_out = [], []
    for rule in line.rules:
        name = f"{endpoint.check} {rule.metric}"
        if rule.over not in (Over.SUBJECT, Over.EXPECTED):
            left_out.append(
                f"{name}: a gate compares it between nodes, which one tool's output does not show"
            )
        elif rule.metric not in endpoint.metrics:
            also = "" if options.declared else ", or it needs --instance-type"
            left_out.append(f"{name}: the output does not contain it{also}")
        elif (rule.fact or rule.over is Over.EXPECTED) and options.declared is None:
            left_out.append(f"{name}: not judged without --instance-type")
        else:
            fitting.append(rule)
    return tuple(fitting), left_out


def _findings(end: CheckData, line: CheckPolicy, facts: Facts, options: ReadOptions) -> Iterator[Finding]:
    if not line.rules:
        remedy = DECLARE if options.declared is None else f"{WHOLE} Or name another policy with --policy."
        yield _missing(
            "no rule of the policy could be applied to this output", remedy, end.evidence, end.check
        )
    name = options.declared.instance_type if options.declared else ""
    context = RuleContext(facts.instances.get(name), facts.absent(name, end.check), options.declared, facts)
    for rule in line.rules:
        value = end.metrics[rule.metric]
        if value == ():
            fault = Unmeasured(rule.metric, "is an empty list")
            yield _unmeasured(fault, end.evidence, end.check)
            continue
        record = Observation(end.check, SUBJECT, Outcome.MEASURED, 0.0, end.metrics)
        for finding in apply.apply(end.check, replace(line, rules=(rule,)), (record,), 1, context):
            lines = clip(_lines(end, rule, finding.elements))[0]
            no_value = NO_VALUE if options.declared else f"{NO_VALUE} {DECLARE}"
            remedy = no_value if finding.kind is FindingKind.NOT_MEASURED else finding.remedy
            yield replace(finding, subject=SUBJECT, evidence=lines, remedy=remedy)
    yield from _holes(end, context.absent | {rule.metric for rule in line.rules})


def _lines(endpoint: CheckData, rule: Rule, elements: Sequence[str]) -> str:
    """The lines that a finding comes from. If each element of an array has a line, these are the lines of the elements that it
    names.
    """
    output = endpoint.lines.get(rule.metric, "") or endpoint.evidence
    value, each, lines = endpoint.metrics[rule.metric], endpoint.metrics.get(rule.each), output.splitlines()
    if not isinstance(value, tuple) or len(lines) != len(value):
        return output
    labels = (
        each if isinstance(each, tuple) and len(each) == len(value) else [f"[{n}]" for n in range(len(value))]
    )
    chosen = [text for text, label in zip(lines, labels, strict=True) if str(label) in elements]
    return "\n".join(chosen) or output


def _holes(endpoint: CheckData, ruled: frozenset[str]) -> Iterator[Finding]:
    """Nulls in arrays that no rule reads: a WARN, as in a report."""
    for name, value in endpoint.metrics.items():
        if isinstance(value, tuple) and None in value and name not in ruled:
            hole = Unmeasured(f"{name}[{value.index(None)}]", "has no value")
            yield _unmeasured(hole, endpoint.lines.get(name, ""), endpoint.check, Level.WARN)


def _unreported(reading: Reading, policy: Policy) -> Iterator[Finding]:
    ruled = {(check, rule.metric) for check, line in policy.checks.items() for rule in line.rules}
    missing = [(check, field) for check, field in reading.unreported if (check, field.field) in ruled]
    if missing:
        yield driver_age.finding(SUBJECT, reading.driver, missing)


def _about_policy(policy: Policy, facts: Facts, options: ReadOptions) -> Iterator[Finding]:
    if options.declared is not None and not facts.are_for(policy.instance_types, options.declared):
        instance_type = options.declared.instance_type
        message = f"policy {policy.name!r} {not_for(policy.instance_types, instance_type)}"
        remedy = "Choose a policy whose instance_types contain this type."
        yield Finding(Level.FAIL, Cause.EVIDENCE, "policy", SUBJECT, message, "", remedy)


def _conclude(
    findings: list[Finding], coverage: Coverage, policy: Policy, facts: Facts, data: bytes
) -> Verdict:
    digests = Digests(digest(data), policy.digest, facts.digest, None, ENGINE)
    result = conclude(findings, coverage, policy, 1, digests, None)
    order = {finding: index for index, finding in enumerate([*result.findings, *findings])}
    ordered = sorted(result.findings, key=lambda f: (-f.level.rank, f.cause is Cause.EVIDENCE, order[f]))
    return replace(result, findings=tuple(ordered), condemned=())  # the node is unknown, so none is condemned


def _missing(message: str, remedy: str, evidence: str = "", check: str = ITSELF) -> Finding:
    return Finding(Level.FAIL, Cause.EVIDENCE, check, SUBJECT, message, clip(evidence)[0], remedy)


def _unmeasured(unmeasured: Unmeasured, evidence: str, check: str, level: Level = Level.FAIL) -> Finding:
    return not_measured(check, SUBJECT, unmeasured, level, clip(evidence)[0], WHOLE)
