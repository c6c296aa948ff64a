"""Which findings about missing evidence follow from a node that fell silent: each of them names that node. Pure.

A node without a whole report leaves its peers without the tests that need it. Those findings stay, and the answer with them; but
the remedy is that of the silent node, and what its peers lack is to be looked for there. A finding that may have another reason names
nobody.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from checks.documents.columns import by_check
from checks.judge.not_measured import followers
from checks.model import (
    LINK,
    Cause,
    ErrorKind,
    Finding,
    FindingKind,
    Level,
    Outcome,
    Report,
    Scope,
    Skip,
    node_of,
)
from checks.policy import CheckPolicy, Policy
from checks.value_types import natural

REPORT = "report"
# A check that did not begin because of something before it.
NOT_BEGUN = (ErrorKind.NOT_RUN, ErrorKind.NOT_REACHED)
# What would be missing with every node there.
OWN_REASONS = (
    FindingKind.NO_BASELINE,
    FindingKind.ONLY_SMALL_MESSAGES,
    FindingKind.DRIVER_TOO_OLD,
    FindingKind.CERTIFIED,
)


def marked(
    findings: Sequence[Finding], report: Report, policy: Policy, suspects: Collection[Finding] = ()
) -> list[Finding]:
    """The findings, of which those that follow from the silence of a node name it in `follows`. One of the `suspects`, for whom others
    waited, does so only where the engine says that the node's process ended: else nobody knows which of the two came first.
    """
    silent = _silent(report)
    if not silent or len(silent) >= report.declared.nodes:
        return list(findings)
    followed = followers(report.ends)
    first = min(silent, key=lambda node: (node in followed, natural(node)))
    ended = {end.node for end in report.ends if end.exit_code} - followed
    exempt = {suspect for suspect in suspects if not ended.intersection(_nodes(suspect))}
    planned = {check.check for check in report.plan}
    lines = {check: line for check, line in policy.checks.items() if check in planned}
    items = [
        finding if finding in exempt else _with_peers(finding, silent, first, bool(ended & silent), lines)
        for finding in findings
    ]
    not_begun = _not_begun(report)
    # What else a node failed may be the reason for what it did not begin.
    ill = {
        node
        for item in items
        if item.level is Level.FAIL and not item.follows and item.subject not in silent
        for node in _nodes(item)
        if not _is_missing(item) or (item.check, item.subject) not in not_begun
    }
    waits = [(item.check, item.subject) in not_begun and not ill.intersection(_nodes(item)) for item in items]
    return [
        replace(item, follows=first) if waited and _is_missing(item) and not item.follows else item
        for item, waited in zip(items, waits, strict=True)
    ]


def _silent(report: Report) -> frozenset[str]:
    """The declared nodes without a report, and those whose report is not whole."""
    whole = {node.name for node in report.nodes if node.complete}
    return frozenset({*report.declared.node_names, *(node.name for node in report.nodes)} - whole)


def _with_peers(
    finding: Finding, silent: frozenset[str], first: str, ended: bool, lines: Mapping[str, CheckPolicy]
) -> Finding:
    """`ended`: the process of a silent node ended with an error. What is said of the whole job is said for that. `lines` are those of
    the checks that were planned: that a check was not is no node's fault.
    """
    if not _is_missing(finding) or (finding.check == REPORT and finding.subject in silent):
        return finding
    own = sorted(silent.intersection(_nodes(finding)), key=natural)
    if own:
        return replace(finding, follows=own[0])
    if finding.check == REPORT:
        is_of_job = ended and finding.kind is FindingKind.NOT_COLLECTED
        return replace(finding, follows=first) if is_of_job else finding
    line = lines.get(finding.check, CheckPolicy())
    is_shared = finding.kind is FindingKind.TOO_FEW or line.min_nodes > 1 or line.min_ranks > 1
    return replace(finding, follows=first) if is_shared else finding


def _not_begun(report: Report) -> set[tuple[str, str]]:
    """Check and subject of everything that did not begin because of something before it. So did a check of the ranks that no rank
    measured, unless it raised an error: all ranks begin together.
    """
    scopes = {planned.check: planned.scope for planned in report.plan}
    pairs = set[tuple[str, str]]()
    for check, data in by_check(report.observations).items():
        outcomes = data.columns.outcomes
        together = scopes.get(check) is Scope.RANK and Outcome.MEASURED not in outcomes
        for gap in (data[index] for index, outcome in enumerate(outcomes) if outcome is not Outcome.MEASURED):
            waited = together and gap.error_kind not in (None, ErrorKind.RAISED)
            if waited or gap.skip is Skip.PREREQUISITE or gap.error_kind in NOT_BEGUN:
                pairs.add((check, gap.subject))
    return pairs


def _is_missing(finding: Finding) -> bool:
    """Whether evidence is missing. Where a value crossed a threshold (`metric`) there is some."""
    is_evidence = finding.cause is Cause.EVIDENCE and finding.level is not Level.PASS and not finding.metric
    return is_evidence and finding.kind not in OWN_REASONS


def _nodes(finding: Finding) -> list[str]:
    return [node_of(end.strip()) for end in finding.subject.split(LINK)]
