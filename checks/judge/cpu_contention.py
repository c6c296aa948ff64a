"""What a slow value means if other work used the CPU at the same time. Pure.

The cause of such a finding is EVIDENCE, because nobody can tell whether the machine or the other work is the reason. It is HARDWARE
if other hosts were equally busy and not slow, and CONFIGURATION if a CPU quota slowed the processes, which is not other work. A busy
host never makes a machine acceptable: it only turns "broken" into "cannot tell". A host without a record of its load is not excused.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from checks.documents.columns import CheckTable
from checks.documents.host_load import BUSY, HELD_BACK, Contention
from checks.model import CLUSTER, FIRST, LINK, Cause, Finding, Level, Node, Observation, Value, node_of
from checks.model_details import Reference, Relation

# Judgement: two hosts are not equally busy if the CPU shares that other work took there differ by more than this.
ALIKE = 0.15
REMEDY = "Stop other work on this node, then run the gate again."
# Judgement: a process that shares the CPUs fairly is slower by the load per CPU; shared memory and caches may cost as much again. On
# a machine with little load even ten times is more than other work explains.
FAIR_TWICE, FAR = 2.0, 10.0
TOO_FAR = (
    "The value is so far from its threshold that a busy machine alone rarely explains it: look also at the threshold of {metric} "
    'under [checks."{check}"] in the policy, and at the declared instance type, from which expected values follow.'
)
QUOTA_REMEDY = "Raise the CPU quota of the container or cgroup that the checks run in."


def machines_of(nodes: Sequence[Node]) -> dict[str, str]:
    """Node -> the machine that it runs on, by the boot id of its kernel; "" if that is unknown."""
    return {node.name: node.identity.get("boot_id", "") for node in nodes}


class RecordedLoads:
    """The CPU load that was recorded for every subject of one check. `hosts` maps a node to its machine (boot id), "" if that is
    unknown.
    """

    def __init__(self, records: Sequence[Observation], hosts: Mapping[str, str], prefix: str = "") -> None:
        self._of: dict[str, Contention] = {}
        self._of_node: dict[str, Contention] = {}
        self._hosts = hosts
        for subject, metrics in _recorded(records, prefix):
            load = Contention.from_metrics(metrics, prefix)
            if load is not None:
                self._of[subject] = load
                node = node_of(subject)
                if _graver(load) > _graver(self._of_node.get(node)):
                    self._of_node[node] = load

    def weighed(
        self,
        finding: Finding,
        slow: Collection[str],
        concerned: Collection[str] | None = None,
        metric: str = "",
    ) -> Finding:
        """A finding about something slow, with its cause corrected by what else used the CPUs.

        `concerned` are the nodes that may be the reason (by default those of its subject), `slow` are all that are slow. `metric`
        is what was slow; a finding that nobody can tell the reason of keeps it, because a threshold was crossed.
        """
        nodes = self._concerned(finding.subject) if concerned is None else tuple(concerned)
        mine = [(load, node) for node in nodes if (load := self._load(finding.subject, node)) is not None]
        if not mine:
            return finding
        load, node = max(mine, key=lambda pair: (_graver(pair[0]), pair[1]))
        text = load.describe(node)
        if not text:
            return finding
        message = f"{finding.message}; {text}"
        if finding.cause is Cause.EVIDENCE and (load.held_back or not _is_slowness(finding)):
            return replace(finding, message=message)
        if load.held_back:
            return replace(finding, message=message, cause=Cause.CONFIGURATION, remedy=QUOTA_REMEDY)
        fine, also = self._equally_busy(load, nodes, slow)
        if fine > also and finding.cause is not Cause.EVIDENCE:
            message += f", and {fine} equally busy {'host is' if fine == 1 else 'hosts are'} not slow"
            return replace(finding, message=message, cause=Cause.HARDWARE)
        return _proves_nothing(finding, text, load, metric, mine)

    def busy_nodes(self) -> dict[str, str]:
        """Each node on which other work used the CPUs during a measurement, with the record for people."""
        return {node: load.describe(node) for node, load in self._of_node.items() if load.busy}

    def busy(self, subject: str) -> bool:
        """Whether other work used the CPUs of the subject's host; for the cluster, those of any host."""
        nodes = self._concerned(subject)
        return any(load.busy for node in nodes if (load := self._load(subject, node)) is not None)

    def _load(self, subject: str, node: str) -> Contention | None:
        """The load that was recorded for the subject; for a node, a link or the cluster the highest of each node."""
        return self._of.get(subject) or self._of_node.get(node)

    def _concerned(self, subject: str) -> tuple[str, ...]:
        if subject == CLUSTER:
            return tuple(self._of_node)
        return tuple(dict.fromkeys(node_of(end) for end in subject.split(LINK)))

    def _equally_busy(
        self, load: Contention, nodes: Collection[str], slow: Collection[str]
    ) -> tuple[int, int]:
        """How many other machines that were as busy were not slow, and how many were slow."""
        here = {self._hosts.get(node, "") for node in nodes}
        fine, also = set[str](), set[str]()
        for node, theirs in self._of_node.items():
            host = self._hosts.get(node, "")
            if (
                host
                and "" not in here
                and host not in here
                and theirs.busy
                and theirs.used >= load.used - ALIKE
            ):
                (also if node in slow else fine).add(host)
        return len(fine - also), len(also)


def _is_slowness(finding: Finding) -> bool:
    """Whether other work may be the reason: not of a value that is missing, nor of one that is higher than the hardware allows."""
    too_high = finding.compared is not None and finding.compared.reference is Reference.POSSIBLE
    return finding.unmeasured is None and not too_high


def _is_too_far(finding: Finding, load: Contention) -> bool:
    """Whether the value is further from its threshold than the load explains."""
    compared = finding.compared
    if compared is None or compared.value <= 0 or compared.threshold <= 0:
        return False
    limit = compared.threshold * (1.0 if compared.of is None else compared.of)
    times = limit / compared.value if compared.relation is Relation.BELOW else compared.value / limit
    return times > max(FAR, FAIR_TWICE * load.load / max(load.cpus, 1))


def _proves_nothing(
    finding: Finding, text: str, load: Contention, metric: str, loads: Sequence[tuple[Contention, str]]
) -> Finding:
    """Missing evidence: what was found, and why it proves nothing. A finding about the cluster names every busy node of `loads` beside
    those that it is mostly about.
    """
    busy = {node for each, node in loads if each.busy} if finding.subject == CLUSTER else set()
    message = f"{finding.message}; this is no proof, because {text}"
    remedy = REMEDY
    if metric and _is_too_far(finding, load):
        remedy = f"{REMEDY} {TOO_FAR.format(metric=metric, check=finding.check)}"
    return replace(
        finding, message=message, cause=Cause.EVIDENCE, remedy=remedy, metric=metric or finding.metric,
        named_nodes=tuple(sorted({*finding.named_nodes, *busy})),
    )  # fmt: skip


def _recorded(records: Sequence[Observation], prefix: str) -> Iterator[tuple[str, Mapping[str, Value]]]:
    """Each subject with its metrics. Columns are left out if they record no host that was busy or throttled: that explains nothing."""
    if not isinstance(records, CheckTable):
        yield from ((record.subject, record.metrics) for record in records)
        return
    columns = records.columns
    names = [name for name in columns.metrics if name.startswith(f"{prefix}host_")]
    calm = (
        _all_below(columns.metrics.get(f"{prefix}host_{name}", ()), limit)
        for name, limit in (("taken", BUSY), ("throttled", HELD_BACK))
    )
    if not names or all(calm):
        return
    values = zip(*(columns.metrics[name] for name in names), strict=True)
    for subject, mine in zip(columns.subjects, values, strict=True):
        yield subject, {name: value for name, value in zip(names, mine, strict=True) if value is not None}


def _all_below(column: Sequence[object], limit: float) -> bool:
    """Whether every value is a number below the limit, or absent."""
    if not set(map(type, column)) <= {int, float, type(None)}:
        return False
    return max((value for value in column if value is not None), default=0.0) < limit  # type: ignore[type-var,operator]


def intermittent(
    findings: Sequence[Finding], first: Sequence[Finding], loads: RecordedLoads
) -> Iterator[Finding]:
    """Findings about values that were slow at first and not in the second measurement: a WARN, unless other work used the CPU at
    first.
    """
    still = {finding.subject for finding in findings}
    for finding in first:
        if (
            finding.subject not in still
            and finding.cause is not Cause.EVIDENCE
            and not loads.busy(finding.subject)
        ):
            message = f"{finding.message} (first measurement; the second is within the thresholds)"
            message += "; no other load on the CPU was recorded"
            yield replace(finding, level=Level.WARN, message=message)


def first_rows(records: Sequence[Observation], metric: str) -> list[Observation]:
    """The rows in which this metric was measured twice, with the values of the first measurement."""
    if isinstance(records, CheckTable) and f"{FIRST}{metric}" not in records.columns.metrics:
        return []
    again = (record for record in records if f"{FIRST}{metric}" in record.metrics)
    return [replace(record, metrics=first_of(record.metrics)) for record in again]


def first_of(metrics: Mapping[str, Value]) -> dict[str, Value]:
    """The metrics with the values of the first measurement."""
    first = {name[len(FIRST) :]: value for name, value in metrics.items() if name.startswith(FIRST)}
    return {**metrics, **first}


def _graver(load: Contention | None) -> tuple[bool, bool, float]:
    return (False, False, -1.0) if load is None else (load.held_back, load.busy, load.used)
