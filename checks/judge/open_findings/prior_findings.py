"""What a gate makes of the findings that were open on its machines when their checks ended. Pure."""

from __future__ import annotations

import math
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timezone

from checks.documents import open_findings as documents
from checks.documents.columns import CheckTable, measured_by_check
from checks.documents.open_findings import OpenFinding, OpenFindings
from checks.judge.clocks import seconds_of
from checks.judge.open_findings.jobs import ABOUT_JOBS
from checks.judge.open_findings.update import ANSWERS, LatestEvidence, after_gate, keys_of, seen_on
from checks.model import Cause, Finding, FindingKind, Level, Node, Report, node_of
from checks.value_types import DecodeError

REMEDIED = frozenset(ANSWERS.values())
CHECK = "watch.findings"
LIST = "`prelaunch node findings` lists them, and closes one that a person has answered."


def judge(
    report: Report, records: Mapping[str, CheckTable], findings: Sequence[Finding]
) -> Iterator[Finding]:
    """A FAIL for each open FAIL that this gate did not measure, or a WARN if a remedy was seen and only a comparison with more nodes
    is left to do. What it measured it has judged itself.

    An open finding about missing evidence refuses nothing: a gate has its own evidence, or says itself that it has none. Nor does one
    about a job: the job that waits for this gate is another one.
    """
    for node in report.nodes:
        if node.open_findings:
            yield from _about(node, report, records, findings)


def _about(
    node: Node, report: Report, records: Mapping[str, CheckTable], findings: Sequence[Finding]
) -> Iterator[Finding]:
    prior = loaded(node.open_findings)
    if isinstance(prior, str):
        yield _evidence(
            node, prior, "Read the file on the node, mend it, or install one version of Prelaunch everywhere."
        )
        return
    latest = seen_by(node, report, records, findings)
    # A milder finding of now does not answer a FAIL that its check has not measured.
    failed = {key for finding in latest.findings if finding.level is Level.FAIL for key in keys_of(finding)}
    for item in prior.open:
        if is_grave(item) and item.key not in failed and not latest.has_measured(item, prior):
            yield _unanswered(node, item, latest, prior)
    if prior.omitted:
        yield _evidence(node, f"has {prior.omitted:,} more open findings than its file can hold", LIST)


def found_since(text: str, at: float, overridden: Container[str] = ()) -> list[str]:
    """What was found on a machine since it passed at this time, one line each; `text` is what a report of it carries now. A fault that
    a person has overridden is seen again as long as it lasts.
    """
    findings = loaded(text)
    if isinstance(findings, str):
        return [findings]
    grave = [item for item in findings.open if is_grave(item) and item.key.name not in overridden]
    since = [item for item in grave if not item.seen_at <= at < math.inf]
    return [f"{item.key.name} was found since: {item.message}" for item in since]


def loaded(text: str) -> OpenFindings | str:
    """What a node's report carries: the findings, none for "", or why they cannot be read. A node that could not read its file carries
    the reason.
    """
    try:
        return documents.load(text) if text else OpenFindings()
    except DecodeError as error:
        reason = error if text.startswith("{") else text[:300]
        return f"has a file of open findings that cannot be read ({reason})"


def without_remedied(report: Report, checks: Container[str]) -> Report:
    """The report without the open findings of these checks on machines that a remedy was seen on since: they wait to be measured."""
    nodes = []
    for node in report.nodes:
        prior = loaded(node.open_findings)
        if isinstance(prior, OpenFindings) and prior.open:
            latest = seen_by(node, report, {}, ())
            own = [item for item in prior.open if item.key.check in checks]
            waits = [item for item in own if latest.shows_a_remedy(item, prior)]
            left = tuple(item for item in prior.open if item not in waits)
            node = replace(node, open_findings=documents.dump(replace(prior, open=left)).decode())
        nodes.append(node)
    return replace(report, nodes=tuple(nodes))


def failed_names(findings: Sequence[Finding]) -> dict[str, tuple[str, ...]]:
    """Node -> the names of what failed on it."""
    names: dict[str, tuple[str, ...]] = {}
    for finding in findings:
        if finding.level is Level.FAIL:
            node = node_of(finding.subject)
            names[node] = (*names.get(node, ()), *(key.name for key in keys_of(finding)))
    return names


def closed_names(report: Report, findings: Sequence[Finding]) -> dict[str, tuple[str, ...]]:
    """Node -> the names of its open findings that this gate answers: measured after a remedy, and not found again."""
    records = measured_by_check(report.observations)
    closed = {}
    for node in report.nodes:
        prior = loaded(node.open_findings)
        if isinstance(prior, str) or not prior.open:
            continue
        after = after_gate(prior, seen_by(node, report, records, findings))
        # Findings of two causes may have one name: it closes none while another one is open.
        still = {item.key.name for item in after.open}
        names = tuple(name for item in after.closed if (name := item.finding.key.name) not in still)
        if names:
            closed[node.name] = names
    return closed


def seen_by(
    node: Node, report: Report, records: Mapping[str, CheckTable], findings: Sequence[Finding]
) -> LatestEvidence:
    """What the gate saw of this node. `records` are those that measured."""
    boot_id, at = node.identity.get("boot_id", ""), moment(node.measured_at or report.measured_at)
    return seen_on(node.name, at, report.gate_id, boot_id, findings, records, report.plan)


def carried(open_findings: OpenFindings) -> OpenFindings:
    """What a node's report carries: the open findings that a gate has to answer, then others as long as there is room, no history."""
    grave = [item for item in open_findings.open if is_grave(item)]
    others = [item for item in open_findings.open if item not in grave]
    others = sorted(others, key=lambda item: item.key.metric not in REMEDIED)
    chosen = [*grave, *others][: documents.MOST_CARRIED]
    # A node's report has a limit, and one that is beyond it is no report.
    while sum(len(documents.dump(OpenFindings(open=(item,)))) for item in chosen) > documents.CARRIED_BYTES:
        chosen = chosen[: len(chosen) // 2]
    return OpenFindings(open=tuple(chosen), omitted=open_findings.omitted + max(0, len(grave) - len(chosen)))


def moment(text: str) -> float:
    """An ISO 8601 time as Unix time; infinity for a text that is none, so that no log reaches back from it."""
    at = seconds_of(text)
    return math.inf if at is None else at


def is_grave(open_finding: OpenFinding) -> bool:
    """Whether it is a FAIL of the machine itself: neither missing evidence, nor about a job."""
    of_machine = open_finding.key.cause is not Cause.EVIDENCE and open_finding.key.check not in ABOUT_JOBS
    return open_finding.level is Level.FAIL and of_machine


def _unanswered(node: Node, item: OpenFinding, latest: LatestEvidence, before: OpenFindings) -> Finding:
    since = datetime.fromtimestamp(item.opened_at, timezone.utc).strftime("%Y-%m-%d %H:%M UTC")
    check, is_measured = item.key.check, item.key.check in latest.measured
    reason, step = f"this gate does not measure {check}", "run a gate"
    if is_measured and latest.compares(item):
        reason, step = f"{check} of this gate does not reach back to it", "restart the node and run a gate"
    elif is_measured:
        reason = f"{check} of this gate compares too few nodes to find it again"
        step = f"run a gate of at least {item.compared_nodes} nodes"
    # A repaired node is re-tested with few others, and must be able to come back.
    level = Level.WARN if is_measured and latest.shows_a_remedy(item, before) else Level.FAIL
    message = f"{item.message} (open since {since}, found by {item.by}; {reason})"
    remedy = f"{item.remedy} Then {step} that measures {check}. {LIST}".strip()
    return Finding(
        level, item.key.cause, check, node.name, message, "", remedy, item.action,
        kind=FindingKind.OPEN_BEFORE, metric=item.key.metric, elements=(item.key.part,) if item.key.part else (),
        is_predicate=item.is_predicate,
    )  # fmt: skip


def _evidence(node: Node, message: str, remedy: str) -> Finding:
    return Finding(Level.FAIL, Cause.EVIDENCE, CHECK, node.name, message, "", remedy, is_predicate=True)
