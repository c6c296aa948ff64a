"""Node x check: what the verdict says about each, never better than what was observed (pure)."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum

from checks.documents.columns import CheckTable, by_check
from checks.facts import withheld_kernel_log as withheld
from checks.model import (
    CLUSTER,
    LINK,
    Cause,
    Finding,
    Level,
    Outcome,
    Planned,
    Report,
    Scope,
    Verdict,
    node_of,
)
from tasks.render.findings import Group


class State(IntEnum):
    """What a cell says, best first. UNKNOWN: some or all of its evidence is missing."""

    SKIPPED = 0
    PASS = 1
    WARN = 2
    UNKNOWN = 3
    FAIL = 4

    @property
    def label(self) -> str:
        """For people and screen readers."""
        return ("skipped", "pass", "warn", "cannot tell", "fail")[self]

    @property
    def sign(self) -> str:
        """A shape beside the word, for those who do not see the colour."""
        return ("–", "✓", "!", "?", "✕")[self]


@dataclass(frozen=True)
class NodeLine:
    """One node (or "cluster") with one state per planned check, and the worst state of all its findings.

    `rank` is None for a node that never reported.
    """

    name: str
    rank: int | None
    state: State
    cells: tuple[State, ...]
    findings: int

    @property
    def is_cluster(self) -> bool:
        """Whether it is about no single node."""
        return self.name == CLUSTER and self.rank is None


@dataclass(frozen=True)
class CheckLine:
    """One planned check over the whole cluster; `seconds` is its longest observation, None without.

    `withheld`: on so many nodes the engine withholds what it reads; they are not among the required ones.
    """

    planned: Planned
    state: State
    observed: int
    required: int
    seconds: float | None
    withheld: int = 0

    @property
    def coverage(self) -> str:
        """Such as "2 of 2", or why nothing was to be observed."""
        if self.planned.skip:
            return self.planned.skip.value
        whole = f"{self.observed} of {self.required}"
        more = f"log withheld on {self.withheld}" if self.withheld else ""
        return ", ".join(text for text in (whole if self.required else "", more) if text)


def node_lines(report: Report, verdict: Verdict) -> tuple[NodeLine, ...]:
    """One line a node, declared or reported, the worst first; then one for the cluster if it has findings."""
    by_subject = _by_place(verdict.findings)
    measured, excused = _measured(report), _excused(report)
    ranks = {node.name: node.rank for node in report.nodes}
    names = dict.fromkeys([*ranks, *report.declared.node_names])
    lines = [_line(report, name, ranks.get(name), by_subject, measured, excused) for name in names]
    caused = {finding.follows for finding in verdict.findings}
    lines.sort(
        key=lambda line: (
            -line.state, line.name not in caused, line.rank is not None, -line.findings, line.rank or 0, line.name
        )
    )  # fmt: skip
    return (*lines, *_cluster_line(report, by_subject))


def check_lines(report: Report, verdict: Verdict) -> tuple[CheckLine, ...]:
    """One line a planned check, in the plan's order."""
    of_check: dict[str, list[Finding]] = defaultdict(list)
    for finding in verdict.findings:
        of_check[finding.check].append(finding)
    measured: dict[str, set[str]] = defaultdict(set)
    seconds: dict[str, float] = {}
    for check, table in by_check(report.observations).items():
        seconds[check] = max(table.columns.seconds, default=0.0)
        measured[check].update(_measured_of(table))
    declared = report.declared
    counts = {Scope.NODE: declared.nodes, Scope.RANK: declared.ranks, Scope.CLUSTER: 1}
    excused = Counter(check for check, _ in _excused(report))
    lines = []
    for planned in report.plan:
        without = excused[planned.check]
        required = 0 if planned.skip else counts[planned.scope] - without
        observed = len(measured[planned.check])
        left_out = planned.skip is not None or (without > 0 and required == 0)
        state = _state(of_check[planned.check], left_out, observed >= required)
        # 0.0: another tool says nothing of its time, and a time that nobody took is none.
        took = seconds.get(planned.check) or None
        lines.append(CheckLine(planned, state, observed, required, took, without))
    return tuple(lines)


def finding_state(finding: Finding | Group) -> State:
    """A FAIL for want of evidence is no failure: it is UNKNOWN."""
    if finding.level is Level.PASS:
        return State.PASS
    if finding.level is Level.WARN:
        return State.WARN
    return State.UNKNOWN if finding.cause is Cause.EVIDENCE else State.FAIL


def places(subject: str) -> tuple[str, ...]:
    """The nodes that a subject touches: a link has two ends."""
    return tuple(dict.fromkeys(subject.split(LINK) if LINK in subject else [node_of(subject)]))


def _line(
    report: Report,
    name: str,
    rank: int | None,
    findings: Mapping[str, list[Finding]],
    measured: Mapping[tuple[str, str], set[str]],
    excused: frozenset[tuple[str, str]],
) -> NodeLine:
    mine = findings.get(name, [])
    of_check: dict[str, list[Finding]] = defaultdict(list)
    for finding in (*mine, *(item for item in findings.get(CLUSTER, ()) if _is_of_all(item))):
        of_check[finding.check].append(finding)
    cells = []
    for planned in report.plan:
        skipped = planned.skip is not None or planned.scope is Scope.CLUSTER
        skipped = skipped or (planned.check, name) in excused
        need = report.declared.ranks_per_node if planned.scope is Scope.RANK else 1
        whole = len(measured.get((name, planned.check), ())) >= need
        cells.append(_state(of_check[planned.check], skipped, whole))
    states = [*cells, *map(finding_state, mine), State.PASS if rank is not None else State.UNKNOWN]
    return NodeLine(name, rank, max(states), tuple(cells), len(mine))


def _is_of_all(finding: Finding) -> bool:
    """Whether a finding about the cluster is about a value that is bad on all of its nodes, so that no cell may say that it passed."""
    return bool(finding.metric) and not finding.named_nodes and finding.cause is not Cause.EVIDENCE


def _cluster_line(report: Report, findings: Mapping[str, list[Finding]]) -> tuple[NodeLine, ...]:
    mine = findings.get(CLUSTER, [])
    if not mine:
        return ()
    cells = tuple(
        max((finding_state(f) for f in mine if f.check == planned.check), default=State.SKIPPED)
        for planned in report.plan
    )
    return (NodeLine(CLUSTER, None, max(map(finding_state, mine)), cells, len(mine)),)


def _state(findings: Iterable[Finding], skipped: bool, whole: bool) -> State:
    base = State.SKIPPED if skipped else State.PASS if whole else State.UNKNOWN
    return max([base, *map(finding_state, findings)])


def _by_place(findings: Iterable[Finding]) -> dict[str, list[Finding]]:
    by_subject: dict[str, list[Finding]] = defaultdict(list)
    for finding in findings:
        for node in places(finding.subject):
            by_subject[node].append(finding)
    return by_subject


def _measured(report: Report) -> dict[tuple[str, str], set[str]]:
    subjects: dict[tuple[str, str], set[str]] = defaultdict(set)
    for check, table in by_check(report.observations).items():
        for subject in _measured_of(table):
            subjects[node_of(subject), check].add(subject)
    return subjects


def _excused(report: Report) -> frozenset[tuple[str, str]]:
    """Check and node where the engine withholds the kernel's log, so that the check may be skipped."""
    tables = by_check(report.observations)
    skipped = (
        tables[check]
        for check in withheld.READERS
        if check in tables and Outcome.SKIPPED in tables[check].columns.outcomes
    )
    results = (result for table in skipped for result in table)
    return frozenset(
        (result.check, result.subject)
        for result in results
        if result.outcome is Outcome.SKIPPED and withheld.accepts(result.check, result.skip, report.declared)
    )


def _measured_of(table: CheckTable) -> Iterator[str]:
    pairs = zip(table.columns.subjects, table.columns.outcomes, strict=True)
    return (subject for subject, outcome in pairs if outcome is Outcome.MEASURED)


def left_out(lines: Iterable[CheckLine]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """What does not apply to what is declared: the reason, and the checks' names."""
    reasons: dict[str, list[str]] = {}
    for line in lines:
        if line.planned.skip is not None:
            reasons.setdefault(line.planned.skip.value, []).append(line.planned.check)
    return tuple((reason, tuple(names)) for reason, names in reasons.items())
