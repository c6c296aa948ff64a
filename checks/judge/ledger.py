"""What a verdict is based on, per check: what was observed, which rules were applied, and which
comparisons were not possible. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from checks.documents.columns import by_check
from checks.judge.completeness import declared_count
from checks.judge.rules import relative
from checks.judge.rules.wording import figure
from checks.model import Cause, Declared, Finding, FindingKind, Outcome, Planned, Report, Verdict
from checks.policy import CheckPolicy, Over, Policy, Rule

NO_BASELINE = (FindingKind.NO_BASELINE, FindingKind.ONLY_SMALL_MESSAGES)


@dataclass(frozen=True)
class LedgerEntry:
    """One check of the plan. Counts are of subjects; `skip` says why the check was skipped, "" if it was not.

    `held` are the rules that were applied, `silent` the comparisons that were not possible, with the reason: the verdict says
    nothing about these. `sources` are the sources of the thresholds.
    """

    check: str
    required: int
    measured: int
    skipped: int
    errored: int
    missing: int
    skip: str
    optional: bool
    held: tuple[str, ...]
    silent: tuple[str, ...]
    sources: tuple[str, ...]


def ledger(report: Report, policy: Policy, verdict: Verdict) -> tuple[LedgerEntry, ...]:
    """An entry for each check of the plan, in the plan's order."""
    outcomes = {check: table.columns.outcomes for check, table in by_check(report.observations).items()}
    unknown: dict[str, list[Finding]] = {}
    for finding in verdict.findings:
        if finding.cause is Cause.EVIDENCE:
            unknown.setdefault(finding.check, []).append(finding)
    return tuple(
        _entry(planned, report.declared, policy.checks.get(planned.check), outcomes, unknown)
        for planned in report.plan
    )


def _entry(
    planned: Planned,
    declared: Declared,
    line: CheckPolicy | None,
    outcomes: Mapping[str, Sequence[Outcome]],
    unknown: Mapping[str, Sequence[Finding]],
) -> LedgerEntry:
    observed = outcomes.get(planned.check, ()) if planned.skip is None else ()
    rules = line.rules if line is not None and planned.skip is None else ()
    required = declared_count(planned.scope, declared) if planned.skip is None else 0
    silent = [*_silent(rules, declared, required), *_unknown(unknown.get(planned.check, ()))]
    return LedgerEntry(
        check=planned.check,
        required=required,
        measured=observed.count(Outcome.MEASURED),
        skipped=observed.count(Outcome.SKIPPED),
        errored=observed.count(Outcome.ERRORED),
        missing=max(0, required - len(observed)),
        skip=planned.skip.value if planned.skip else "",
        optional=line is not None and not line.required,
        held=tuple(f"{rule.metric}: {limits_text(rule)}" for rule in rules),
        silent=tuple(dict.fromkeys(silent)),
        sources=tuple(dict.fromkeys(rule.source for rule in rules)),
    )


def _silent(rules: Sequence[Rule], declared: Declared, subjects: int) -> Iterator[str]:
    for metric, reason in relative.comparisons(rules, declared.nodes, subjects).items():
        yield f"{metric} was not compared: {reason}"


def _unknown(findings: Sequence[Finding]) -> Iterator[str]:
    for finding in findings:
        if finding.kind in NO_BASELINE:
            yield finding.message


def limits_text(rule: Rule) -> str:
    """The rule in words: "FAIL below 0.8 times the expected value, WARN below 0.9"."""
    unit = {
        Over.SUBJECT: "",
        Over.CLUSTER: " over the cluster",
        Over.PEERS: " times the median of its peers",
        Over.NODE: " times the median of its node",
        Over.FLEET: " times the median of the nodes",
        Over.SLOWEST: " of the job's time, lost to the slowest",
        Over.EXPECTED: " times the expected value",
    }[rule.over]
    bounds = (
        ("FAIL below", rule.fail_below),
        ("FAIL above", rule.fail_above),
        ("WARN below", rule.warn_below),
        ("WARN above", rule.warn_above),
    )
    clauses = [f"{label} {figure(bound, 6)}" for label, bound in bounds if bound is not None]
    if rule.equals is not None:
        clauses.append(f"{rule.level} unless {rule.equals!r}")
    if rule.same:
        clauses.append(f"{rule.level} unless it is the same everywhere")
    if rule.uniform:
        clauses.append(f"{rule.level} unless it is the same within the node")
    if rule.fact:
        clauses.append(f"{rule.level} below the instance type's {rule.fact}")
    return ", ".join(clauses) + unit
