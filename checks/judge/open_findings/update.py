"""What a round, a gate and a person change in the open findings of a machine. Pure: values in, values out.

A finding is never closed by age, by silence or by a restart of the watch. A finding about missing evidence (EVIDENCE) is closed when
its check measures again, and so is a finding about a job (checks.judge.open_findings.jobs). Any other finding is closed by a gate
whose check measured it and did not find it again, after a remedy: a new boot or a log that shows the part reset (each repair of
tasks.remediation is one of these, or gives another machine), or, for what a person mends without them (CONFIGURATION, APPLICATION),
the measurement itself. An event that was counted during a run is measured by no later run, so that it needs the remedy whatever its
cause is. Otherwise a person closes it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from checks.documents.columns import CheckTable
from checks.documents.open_findings import (
    MOST_CLOSED,
    MOST_OPEN,
    PART_CHARACTERS,
    TEXT_CHARACTERS,
    ClosedFinding,
    Closer,
    FindingKey,
    OpenFinding,
    OpenFindings,
)
from checks.judge.open_findings.jobs import ABOUT_JOBS
from checks.model import LINK, Cause, Finding, FindingKind, Level, Planned, node_of
from checks.model_details import Reference

# By this name a person closes the findings for which the file had no place.
OMITTED = "omitted"
# What a person mends without a restart, so that a measurement that no longer shows it is the proof that it was mended.
MENDED_IN_PLACE = frozenset((Cause.CONFIGURATION, Cause.APPLICATION))
# Checks with these metrics judge events in the kernel log: they have measured an old event only if the log that they read covers it.
WINDOW, COVERS = "window_s", "covers_s"
# It also counts events before its window, as long as nothing in the log answers them.
BEFORE_ITS_WINDOW = frozenset(("kernel.xid",))
# The metric of the same check that shows that the log answers the event: a reset, or the driver's own statement.
ANSWERS = {("kernel.xid", "act"): "handled"}

# Checks whose decoder compares pairs, and with how many nodes it can tell a slow node from a slow partner.
PAIRS, PAIR_NODES = ".pairs", 3
# How many values, or nodes, a comparison needs: the min_peers of the shipped policies.
LEAST_PEERS = 4


@dataclass(frozen=True)
class LatestEvidence:
    """What one round or gate saw of a machine.

    `findings` are those about this machine alone; `measured` holds, for each check that measured, since when its measurement would
    have shown an event (Unix time; 0.0 for checks that measure a state); `events` are the checks and metrics that count what happened
    during this run alone. `at` is a Unix time, and `by` is "watch" or the gate's id. `nodes` and `rows` hold how many nodes measured
    each check, and how many subjects.
    """

    at: float
    by: str
    boot_id: str
    findings: Sequence[Finding]
    measured: Mapping[str, float]
    events: Collection[tuple[str, str]] = ()
    nodes: Mapping[str, int] = field(default_factory=dict)
    subjects: Mapping[str, int] = field(default_factory=dict)

    def has_measured(self, finding: OpenFinding, open_findings: OpenFindings) -> bool:
        """Whether the finding's check measured what it was about: its state now, beside the nodes that a comparison needs, or a time
        that includes the event; where evidence was missing, anything.
        """
        since = self.measured.get(finding.key.check)
        if since is None or finding.key.cause is Cause.EVIDENCE:
            return since is not None
        reaches_back = since <= finding.since and (finding.key.check, finding.key.metric) not in self.events
        return self.compares(finding) and (reaches_back or self.shows_a_remedy(finding, open_findings))

    def compares(self, finding: OpenFinding) -> bool:
        """Whether the finding's check had the nodes that a comparison needs, if it was found by one."""
        return self.nodes.get(finding.key.check, 0) >= finding.compared_nodes

    def nodes_to_compare(self, finding: Finding) -> int:
        """How many nodes have to be compared to find it again, and never more than there are now; 0 if it was found without others."""
        reference = finding.compared.reference if finding.compared else Reference.THRESHOLD
        nodes, subjects = self.nodes.get(finding.check, 0), self.subjects.get(finding.check, 1)
        # Of four ranks to compare, a node with eight has enough.
        peers = {Reference.PEERS: -(-LEAST_PEERS * nodes // subjects), Reference.FLEET: LEAST_PEERS}
        return min(PAIR_NODES if finding.check.endswith(PAIRS) else peers.get(reference, 0), nodes)

    def shows_a_remedy(self, finding: OpenFinding, open_findings: OpenFindings) -> bool:
        """Whether the machine is known to have restarted since, or its log shows that the part was reset."""
        if finding.boot_id and self.boot_id and finding.boot_id != self.boot_id:
            return True
        metric = ANSWERS.get((finding.key.check, finding.key.metric))
        if metric is None:
            return False
        answer = replace(finding.key, metric=metric)
        return any(answer in keys_of(current) for current in self.findings) or any(
            item.key == answer and item.seen_at > finding.seen_at for item in open_findings.open
        )


def seen_on(
    node: str,
    at: float,
    by: str,
    boot_id: str,
    findings: Collection[Finding],
    records: Mapping[str, CheckTable],
    plan: Iterable[Planned],
) -> LatestEvidence:
    """What a report says of one of its nodes: `records` are its sound observations, `findings` all of its verdict's."""
    own = [finding for finding in findings if finding.level is not Level.PASS and LINK not in finding.subject]
    own = [item for item in own if node_of(item.subject) == node and item.kind is not FindingKind.OPEN_BEFORE]
    events = frozenset((line.check, metric) for line in plan for metric in line.events)
    nodes = {check: _nodes_in(table) for check, table in records.items()}
    subjects = {check: len(table.columns.subjects) for check, table in records.items()}
    # A check that blames a link of the node measured no node that is well.
    links = {item.check for item in findings if item.level is Level.FAIL and node in item.subject.split(LINK)}
    measured = {check: since for check, since in _measured(node, at, records) if check not in links}
    return LatestEvidence(at, by, boot_id, own, measured, events, nodes, subjects)


def after_round(open_findings: OpenFindings, latest: LatestEvidence) -> OpenFindings:
    """The findings after a round: it opens what it found, and closes EVIDENCE findings whose check measured again, and those about a
    job that has gone, or goes on.
    """

    def is_of_a_round(item: OpenFinding) -> bool:
        return item.key.cause is Cause.EVIDENCE or item.key.check in ABOUT_JOBS

    return _after(open_findings, latest, Closer.MEASURED, is_of_a_round)


def after_gate(open_findings: OpenFindings, latest: LatestEvidence) -> OpenFindings:
    """The findings after a gate. It opens no EVIDENCE findings: which evidence it needs is its own plan's matter, and not the next
    gate's.
    """
    findings = [finding for finding in latest.findings if finding.cause is not Cause.EVIDENCE]

    def is_remedied(item: OpenFinding) -> bool:
        in_place = item.key.cause in MENDED_IN_PLACE or item.key.cause is Cause.EVIDENCE
        return in_place or latest.shows_a_remedy(item, open_findings)

    return _after(open_findings, replace(latest, findings=findings), Closer.GATE, is_remedied)


def close(open_findings: OpenFindings, name: str, person: str, at: float) -> OpenFindings:
    """The findings without the one of this name (FindingKey.name), or without the OMITTED ones, which `person` closed. Raises KeyError
    if it is not open.
    """
    matches = [item for item in open_findings.open if item.key.name == name]
    if name == OMITTED and open_findings.omitted:
        return replace(open_findings, omitted=0)
    if not matches:
        raise KeyError(name)
    return _without(open_findings, [(item, Closer.PERSON, person) for item in matches], at)


def after_pass(open_findings: OpenFindings, names: Collection[str], gate_id: str, at: float) -> OpenFindings:
    """The findings without those that the pass of this gate says it answered; one that was seen again since stays."""
    done = [item for item in open_findings.open if item.key.name in names and item.seen_at <= at]
    return _without(open_findings, [(item, Closer.GATE, gate_id) for item in done], at)


def keys_of(finding: Finding) -> Iterator[FindingKey]:
    """The keys of one finding of a verdict: one for each part that it names, or one for the machine."""
    for element in dict.fromkeys(finding.elements or (finding.subject.partition("/")[2],)):
        yield FindingKey(finding.check, element[:PART_CHARACTERS], finding.metric, finding.cause)


def _nodes_in(table: CheckTable) -> int:
    return table.once("number of nodes", lambda: len(set(map(node_of, table.columns.subjects))))


def _measured(node: str, at: float, records: Mapping[str, CheckTable]) -> Iterator[tuple[str, float]]:
    for check, table in records.items():
        for index, subject in enumerate(table.columns.subjects):
            if node_of(subject) == node:
                yield check, _since(check, table[index].metrics, at)
                break


def _since(check: str, metrics: Mapping[str, object], at: float) -> float:
    covers, window = metrics.get(COVERS), metrics.get(WINDOW)
    if not isinstance(covers, (int, float)):
        return 0.0
    if isinstance(window, (int, float)) and check not in BEFORE_ITS_WINDOW:
        covers = min(covers, window)
    return at - covers


def _after(
    before: OpenFindings, fresh: LatestEvidence, closer: Closer, closes: Callable[[OpenFinding], bool]
) -> OpenFindings:
    by_key: dict[FindingKey, Finding] = {}
    # Of two rules about one value the one that compares nodes is harder to answer.
    for finding in sorted(fresh.findings, key=lambda item: (-item.level.rank, -fresh.nodes_to_compare(item))):
        for key in keys_of(finding):
            by_key.setdefault(key, finding)
    still = {item.key: item for item in before.open}
    opened = [_opened(key, finding, fresh) for key, finding in by_key.items() if key not in still]
    updated = [_again(item, by_key.get(item.key), fresh) for item in before.open]
    measured = (item for item in before.open if item.key not in by_key and fresh.has_measured(item, before))
    done = [item for item in measured if closes(item)]
    after = replace(before, open=(*updated, *opened), opened_total=before.opened_total + len(opened))
    by = fresh.by if closer is Closer.GATE else ""
    return _bounded(_without(after, [(item, closer, by) for item in done], fresh.at))


def _opened(key: FindingKey, finding: Finding, latest: LatestEvidence) -> OpenFinding:
    return OpenFinding(
        key, finding.level, finding.action, finding.message[:TEXT_CHARACTERS], finding.remedy[:TEXT_CHARACTERS], finding.is_predicate,
        latest.by, latest.at, latest.at, latest.measured.get(key.check, 0.0), latest.boot_id, latest.nodes_to_compare(finding),
    )  # fmt: skip


def _again(item: OpenFinding, finding: Finding | None, fresh: LatestEvidence) -> OpenFinding:
    """The finding as it is now; the gravest level that it had stays, since nothing has answered that."""
    if finding is None:
        return item
    level = max(item.level, finding.level, key=lambda level: level.rank)
    seen_at, nodes = max(fresh.at, item.seen_at), max(item.compared_nodes, fresh.nodes_to_compare(finding))
    latest = replace(item, level=level, seen_at=seen_at, boot_id=fresh.boot_id, compared_nodes=nodes)
    if finding.level.rank < item.level.rank:
        return replace(latest, seen_at=item.seen_at)
    return replace(
        latest, action=finding.action, message=finding.message[:TEXT_CHARACTERS], remedy=finding.remedy[:TEXT_CHARACTERS],
        is_predicate=finding.is_predicate,
    )  # fmt: skip


def _without(
    open_findings: OpenFindings, done: Collection[tuple[OpenFinding, Closer, str]], at: float
) -> OpenFindings:
    keys, totals = {item.key for item, _, _ in done}, dict(open_findings.closed_total)
    for _, closer, _ in done:
        totals[closer.value] = totals.get(closer.value, 0) + 1
    closed = (*open_findings.closed, *(ClosedFinding(item, at, closer, by) for item, closer, by in done))
    left = tuple(item for item in open_findings.open if item.key not in keys)
    return replace(open_findings, open=left, closed=closed[-MOST_CLOSED:], closed_total=totals)


def _bounded(earlier: OpenFindings) -> OpenFindings:
    """At most MOST_OPEN findings, the gravest and oldest. What is left out is found again, and counted once."""
    if len(earlier.open) <= MOST_OPEN:
        return earlier
    ordered = sorted(earlier.open, key=lambda item: (-item.level.rank, item.opened_at))
    keys = {item.key for item in ordered[:MOST_OPEN]}
    left = tuple(item for item in earlier.open if item.key in keys)
    return replace(earlier, open=left, omitted=max(earlier.omitted, len(earlier.open) - len(left)))
