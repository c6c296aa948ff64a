"""What had to be observed against what was (pure). What is missing becomes a finding, cause EVIDENCE."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from checks.facts.table import Facts, Instance, lacks
from checks.localise import PAIRS
from checks.model import (
    CLUSTER,
    Cause,
    Count,
    Coverage,
    Declared,
    Finding,
    Level,
    Observation,
    Outcome,
    Part,
    Planned,
    Profile,
    Report,
    Scope,
    Skip,
    node_of,
    rank_subject,
)
from checks.policy import CheckPolicy, Policy

AGAIN = "Run the gate again; if it stays, look at this node's log."
MEND = {
    Skip.TOOL_MISSING: "Install it on every node (container/Dockerfile has all of them), or accept the skip in the policy.",
    Skip.NOT_PERMITTED: "Run the checks with the permission that the reason names, or accept the skip in the policy.",
    Skip.PREREQUISITE: "Mend what it stands on, then run the gate again.",
}


@dataclass(frozen=True)
class Sound:
    """The observations that a judge may use, by check, and what is missing."""

    rows: dict[str, list[Observation]]
    findings: list[Finding]
    coverage: Coverage


def weigh(report: Report, policy: Policy, facts: Facts) -> Sound:
    """Split the report into sound observations and findings about evidence."""
    instance = facts.instances.get(report.declared.instance_type)
    findings = [*_about_nodes(report), *_about_plan(report, policy, instance)]
    by_check, twice = _by_check(report.observations)
    findings += [_missing(c, s, "observed twice: neither can be trusted") for c, s in sorted(twice)]
    sound: dict[str, list[Observation]] = {}
    required = observed = 0
    for planned in report.plan:
        line = policy.checks.get(planned.check, CheckPolicy())
        rows = by_check.pop(planned.check, {})
        places = dict.fromkeys(_subjects(planned.scope, report))
        expected = [s for s in places if (planned.check, s) not in twice]
        if planned.skip is None:
            required += _declared_count(planned.scope, report.declared)
            sound[planned.check] = [rows[s] for s in expected if s in rows and not _defect(rows[s], planned)]
            observed += len(sound[planned.check])
            absent = facts.absent(report.declared.instance_type, planned.check)
            findings += _about_check(planned, expected, rows, line, absent)
        findings += [
            _missing(planned.check, s, "observed, but it was not planned")
            for s in rows
            if planned.skip is not None or s not in places
        ]
    findings += [_missing(c, "cluster", "observed, but it is not in the plan") for c in by_check]
    return Sound(sound, findings, _coverage(report, sound, Count(observed, required)))


def _by_check(rows: Iterable[Observation]) -> tuple[dict[str, dict[str, Observation]], set[tuple[str, str]]]:
    """Check -> subject -> its row, without those that are there twice, which are named."""
    found: dict[str, dict[str, Observation]] = {}
    twice: set[tuple[str, str]] = set()
    for row in rows:
        of_check = found.setdefault(row.check, {})
        if row.subject in of_check:
            twice.add((row.check, row.subject))
        of_check[row.subject] = row
    for check, subject in twice:
        del found[check][subject]
    return found, twice


def allowed(
    skip: Skip, declared: Declared, profile: Profile, line: CheckPolicy | None, instance: Instance | None
) -> bool:
    """Whether the declaration itself says that the check does not apply.

    Without a line the policy asks nothing of the check, so that any part that is truly not declared will do.
    """
    if line is None:
        return any(lacks(part, declared, instance) is skip for part in Part)
    if skip is Skip.ONE_NODE_DECLARED:
        return declared.nodes < line.min_nodes
    if skip is Skip.ONE_RANK_DECLARED:
        return declared.ranks < line.min_ranks
    if skip is Skip.NOT_IN_PROFILE:
        return profile not in line.profiles
    return lacks(line.part, declared, instance) is skip


def _about_nodes(report: Report) -> Iterator[Finding]:
    for problem in report.collection:
        yield _missing("report", CLUSTER, problem)
    names, count = [node.name for node in report.nodes], report.declared.nodes
    reported, known = set(names), set(report.declared.node_names)
    if CLUSTER in reported:
        yield _missing("report", CLUSTER, "a node bears the name that stands for the whole cluster")
    for name, times in Counter(names).items():
        if times > 1:
            yield _missing("report", name, f"{times} reports bear this node's name")
    for rank, times in Counter(node.rank for node in report.nodes).items():
        if times > 1 or rank >= count:
            yield _missing("report", CLUSTER, f"node rank {rank} is held by {times} nodes of {count}")
    absent = [name for name in report.declared.node_names if name not in reported]
    for name in absent:
        yield _missing(
            "report", name, "no report from this node: it never started, or died before it could write"
        )
    unnamed = count - len(reported) - len(absent)
    if unnamed > 0:
        yield _missing("report", CLUSTER, f"no report from {unnamed} of {count} declared nodes")
    if len(names) > count:
        yield _missing("report", CLUSTER, f"{len(names)} nodes reported, {count} are declared")
    for node in report.nodes:
        if node.attempt != report.attempt:
            yield _missing("report", node.name, f"its report is of another attempt ({node.attempt:.12})")
        if node.catalogue != report.catalogue:
            yield _missing(
                "report", node.name, "it ran another catalogue of checks than the gate's", "Use one image."
            )
        if not node.complete:
            yield _missing("report", node.name, "its report ends before the checks did")
        if known and node.name not in known:
            yield _missing("report", node.name, "this node is not among the declared ones")


def _about_plan(report: Report, policy: Policy, instance: Instance | None) -> Iterator[Finding]:
    planned = Counter(p.check for p in report.plan)
    for name, times in planned.items():
        if times > 1:
            yield _missing(name, CLUSTER, "planned twice")
    for name in policy.checks:
        if name not in planned:
            yield _missing(name, CLUSTER, "the policy asks for this check and the plan lacks it")
    for p in report.plan:
        line = policy.checks.get(p.check)
        if p.skip is not None and not allowed(p.skip, report.declared, report.profile, line, instance):
            yield _missing(
                p.check, CLUSTER, f"left out of the plan ({p.skip.value}), against what is declared"
            )
        elif line is None and p.skip is None:
            yield _missing(
                p.check, CLUSTER, "the policy has no line for this check", f'Add [checks."{p.check}"] to it.'
            )


def _about_check(
    planned: Planned,
    expected: Iterable[str],
    rows: dict[str, Observation],
    line: CheckPolicy,
    absent: frozenset[str],
) -> Iterator[Finding]:
    level = Level.FAIL if line.required else Level.WARN
    for subject in expected:
        row = rows.get(subject)
        if row is None:
            yield _missing(planned.check, subject, _silence(planned.scope), AGAIN, level)
        elif row.outcome is Outcome.SKIPPED and row.skip in line.accept_skips:
            yield _missing(planned.check, subject, f"not measured: {_why(row)}", "", Level.WARN, row.evidence)
        elif defect := _defect(row, planned):
            remedy = AGAIN if row.skip is None else MEND.get(row.skip, AGAIN)
            yield _missing(planned.check, subject, f"not measured: {defect}", remedy, level, row.evidence)
        else:
            yield from _holes(row, line, absent)


def _holes(row: Observation, line: CheckPolicy, absent: frozenset[str]) -> Iterator[Finding]:
    """Nulls that nothing explains, in metrics that no rule looks at (rules and localise speak of theirs)."""
    failures = row.metrics.get("failures")
    ruled = (
        absent | {rule.metric for rule in line.rules} | ({"bandwidth_gbps"} if row.check == PAIRS else set())
    )
    for name, value in row.metrics.items():
        items = value if isinstance(value, tuple) and name not in ruled else ()
        holes = [i for i, item in enumerate(items) if item is None and not _explained(failures, i)]
        if holes:
            said = f"not measured: {name}[{holes[0]}]" + (
                f" and {len(holes) - 1} more" if len(holes) > 1 else ""
            )
            yield _missing(row.check, row.subject, said, AGAIN, Level.WARN, row.evidence)


def _explained(failures: object, index: int) -> bool:
    return isinstance(failures, tuple) and index < len(failures) and failures[index] not in ("ok", None)


def _silence(scope: Scope) -> str:
    if scope is Scope.RANK:
        return "nothing reported: this rank ended or hung before it could; suspect it before its peers"
    return "nothing reported: the node ended or hung before it could"


def _defect(row: Observation, planned: Planned) -> str:
    if row.outcome is not Outcome.MEASURED or row.skip is not None:
        return _why(row)
    lacking = [name for name in planned.metrics if name not in row.metrics]
    empty = [name for name, value in row.metrics.items() if value == ()]
    if lacking:
        return f"{lacking[0]} is missing from the measurement"
    return f"{empty[0]} is an empty list" if empty else ""


def _why(row: Observation) -> str:
    said = f"{row.skip.value}: {row.reason}" if row.skip else row.reason
    return said or "no reason given"


def _subjects(scope: Scope, report: Report) -> Sequence[str]:
    names = dict.fromkeys(node.name for node in report.nodes)
    if scope is Scope.CLUSTER:
        return [CLUSTER]
    if scope is Scope.NODE:
        return list(names)
    per_node = report.declared.ranks_per_node
    return [
        rank_subject(node.name, node.rank * per_node + local)
        for node in report.nodes
        for local in range(per_node)
    ]


def _declared_count(scope: Scope, declared: Declared) -> int:
    return {Scope.NODE: declared.nodes, Scope.RANK: declared.ranks, Scope.CLUSTER: 1}[scope]


def _coverage(report: Report, sound: dict[str, list[Observation]], checks: Count) -> Coverage:
    declared = report.declared
    rows = [row for observed in sound.values() for row in observed]
    ranks = {row.subject for row in rows if "/" in row.subject}
    nodes = {node_of(row.subject) for row in rows} - {CLUSTER}
    gpus = sum(_gpus(row, declared.gpus_per_node) for row in sound.get("gpu.inventory", ()))
    return Coverage(
        nodes=Count(len(nodes), declared.nodes),
        gpus=Count(gpus, declared.nodes * declared.gpus_per_node),
        ranks=Count(len(ranks), declared.ranks),
        checks=checks,
    )


def _gpus(row: Observation, declared: int) -> int:
    found = row.metrics.get("gpus_found")
    return min(found, declared) if type(found) is int else 0


def _missing(
    check: str, subject: str, message: str, remedy: str = AGAIN, level: Level = Level.FAIL, evidence: str = ""
) -> Finding:
    return Finding(level, Cause.EVIDENCE, check, subject, message, evidence, remedy)
