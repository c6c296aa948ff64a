"""A busy machine is not a broken one: what a slow number means where other work used the CPU meanwhile (pure).

Slow while others took the CPU is EVIDENCE: nobody can tell. It is HARDWARE where equally busy other hosts are not slow.
A CPU quota that held the processes back is CONFIGURATION: that is no other work. A claim to be busy never makes anything
fit; it turns "broken" into "nobody can tell". Without a record there is no excuse.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from checks.columns import Rows
from checks.model import CLUSTER, LINK, Cause, Finding, Level, Node, Observation, Value, node_of

# Judgement: a program that shares its CPUs fairly with one other loses half of them, with four others on two CPUs most;
# 15 % less of a CPU is what healthy machines differ by. While 15 % of the CPU time was left over, nobody was kept waiting
# for long.
BUSY, LEFT_OVER = 0.15, 0.15
# Judgement: a quota that holds back in every fifth period costs more than healthy machines differ by.
HELD_BACK = 0.2
# Judgement: less than this of the host's CPU time explains no slow number; what is smaller is left out of reports.
NOTABLE = 0.05
MOST_CPUS = 1_000_000
# Judgement: hosts whose others took so much less are not equally busy.
ALIKE = 0.15
FIRST = "first_"  # before the name of a metric: what was measured before it was measured again
REMEDY = "Stop other work on this node, then run the gate again."
QUOTA_REMEDY = "Raise the CPU quota of the container or cgroup that the checks run in."


@dataclass(frozen=True)
class Contention:
    """The mean over one measurement; shares are of the CPU time of the `cpus` that this process may run on.

    `taken`: used by other processes or taken by the hypervisor (`stolen`, a part of it). `idle`: used by nobody.
    `throttled`: the share of the scheduler's periods in which a CPU quota held this process's cgroup back.
    `pressure`: the share of the time in which some process waited for a CPU (/proc/pressure/cpu), this gate's included.
    `load`: the host's load average over the last minute. `mhz`: the CPUs' mean frequency at the end, None where not shown.
    """

    cpus: int
    load: float
    taken: float
    idle: float
    stolen: float = 0.0
    throttled: float = 0.0
    pressure: float = 0.0
    mhz: float | None = None

    @staticmethod
    def of(metrics: Mapping[str, Value], prefix: str = "") -> Contention | None:
        """What an observation recorded; None without a record. A record without `idle` tells of nobody who waited."""
        names = ("cpus", "load", "taken", "idle", "stolen", "throttled")
        found = ((name, metrics.get(f"{prefix}host_{name}")) for name in names)
        seen = {name: float(value) for name, value in found if isinstance(value, (int, float))}
        if "taken" not in seen:
            return None
        return Contention(
            int(min(seen.get("cpus", 0), MOST_CPUS)),
            seen.get("load", 0.0),
            seen["taken"],
            seen.get("idle", 1.0),
            seen.get("stolen", 0.0),
            seen.get("throttled", 0.0),
        )

    @property
    def held_back(self) -> bool:
        """Whether a CPU quota kept the processes from running: then there was CPU time, and it was not for them."""
        return self.throttled >= HELD_BACK

    @property
    def busy(self) -> bool:
        """Whether other work took so much that what was measured may be slow because of it."""
        return self.taken >= BUSY and self.idle <= LEFT_OVER and not self.held_back

    def words(self, node: str = "node") -> str:
        """For people; "" where there is nothing to say."""
        if self.held_back:
            return f"a CPU quota held {node} back in {self.throttled:.0%} of the scheduler's periods"
        if not self.busy:
            return ""
        stolen = f", {self.stolen:.0%} of it the hypervisor" if self.stolen >= NOTABLE else ""
        used = f"other work used {self.taken:.0%} of them{stolen}"
        return f"{node} was busy: load {self.load:.3g} on {self.cpus:g} CPUs, {used}"

    def metrics(self) -> dict[str, Value]:
        """What an observation keeps: load, share and frequency always, the rest where there is something to explain."""
        made: dict[str, Value] = {"host_load": round(self.load, 1), "host_taken": round(self.taken, 2)}
        if self.mhz is not None:
            made["host_mhz"] = round(self.mhz)
        if max(self.taken, self.throttled) >= NOTABLE:
            made["host_cpus"] = self.cpus
            for name in ("idle", "stolen", "throttled", "pressure"):
                made[f"host_{name}"] = round(getattr(self, name), 2)
        return made


def machines_of(nodes: Sequence[Node]) -> dict[str, str]:
    """Node -> the machine that it runs on, by the boot id of its kernel; "" where that is not known."""
    return {node.name: node.identity.get("boot_id", "") for node in nodes}


class Loads:
    """What every subject of one check recorded. `hosts` maps a node to its machine (boot id), "" where that is not known."""

    def __init__(self, rows: Sequence[Observation], hosts: Mapping[str, str], prefix: str = "") -> None:
        self._of: dict[str, Contention] = {}
        self._of_node: dict[str, Contention] = {}
        self._hosts = hosts
        for row in rows:
            load = Contention.of(row.metrics, prefix)
            if load is not None:
                self._of[row.subject] = load
                node = node_of(row.subject)
                if _graver(load) > _graver(self._of_node.get(node)):
                    self._of_node[node] = load

    def weighed(
        self, finding: Finding, slow: Collection[str], concerned: Collection[str] | None = None
    ) -> Finding:
        """The finding, about something slow, as it stands beside what else used the CPUs.

        `concerned` are the nodes that it may be due to (without it those of its subject), `slow` all nodes that are slow.
        """
        nodes = self._concerned(finding.subject) if concerned is None else tuple(concerned)
        mine = [(load, node) for node in nodes if (load := self._load(finding.subject, node)) is not None]
        if not mine:
            return finding
        load, node = max(mine, key=lambda pair: (_graver(pair[0]), pair[1]))
        said = load.words(node)
        if not said:
            return finding
        message = f"{finding.message}; {said}"
        if finding.cause is Cause.EVIDENCE:
            return replace(finding, message=message)
        if load.held_back:
            return replace(finding, message=message, cause=Cause.CONFIGURATION, remedy=QUOTA_REMEDY)
        fine, also = self._equally_busy(load, nodes, slow)
        if fine > also:
            message += f", and {fine} equally busy {'host is' if fine == 1 else 'hosts are'} not slow"
            return replace(finding, message=message, cause=Cause.HARDWARE)
        return replace(finding, message=message, cause=Cause.EVIDENCE, remedy=REMEDY)

    def busy(self, subject: str) -> bool:
        """Whether other work used the CPUs of the subject's host, of any host for the cluster."""
        nodes = self._concerned(subject)
        return any(load.busy for node in nodes if (load := self._load(subject, node)) is not None)

    def _load(self, subject: str, node: str) -> Contention | None:
        """The subject's own record; of a node, a link or the cluster the gravest of each node."""
        return self._of.get(subject) or self._of_node.get(node)

    def _concerned(self, subject: str) -> tuple[str, ...]:
        if subject == CLUSTER:
            return tuple(self._of_node)
        return tuple(dict.fromkeys(node_of(end) for end in subject.split(LINK)))

    def _equally_busy(
        self, load: Contention, nodes: Collection[str], slow: Collection[str]
    ) -> tuple[int, int]:
        """Other machines that were as busy: how many were not slow, and how many were."""
        here = {self._hosts.get(node, "") for node in nodes}
        fine, also = set[str](), set[str]()
        for node, theirs in self._of_node.items():
            host = self._hosts.get(node, "")
            if (
                host
                and "" not in here
                and host not in here
                and theirs.busy
                and theirs.taken >= load.taken - ALIKE
            ):
                (also if node in slow else fine).add(host)
        return len(fine - also), len(also)


def intermittent(findings: Sequence[Finding], first: Sequence[Finding], loads: Loads) -> Iterator[Finding]:
    """What was slow at first and not when it was measured again: a WARN, unless other work used the CPU at first."""
    still = {finding.subject for finding in findings}
    for finding in first:
        if (
            finding.subject not in still
            and finding.cause is not Cause.EVIDENCE
            and not loads.busy(finding.subject)
        ):
            said = f"{finding.message} when it was first measured, and within the bounds when it was measured again"
            said += "; nothing is recorded that would have kept it from the CPU"
            yield replace(finding, level=Level.WARN, message=said)


def first_rows(rows: Sequence[Observation], metric: str) -> list[Observation]:
    """The rows in which this metric was measured again, as they were at first."""
    if isinstance(rows, Rows) and f"{FIRST}{metric}" not in rows.columns.metrics:
        return []
    again = (row for row in rows if f"{FIRST}{metric}" in row.metrics)
    return [replace(row, metrics=first_of(row.metrics)) for row in again]


def first_of(metrics: Mapping[str, Value]) -> dict[str, Value]:
    """The metrics as they were when they were first measured."""
    first = {name[len(FIRST) :]: value for name, value in metrics.items() if name.startswith(FIRST)}
    return {**metrics, **first}


def _graver(load: Contention | None) -> tuple[bool, bool, float]:
    return (False, False, -1.0) if load is None else (load.held_back, load.busy, load.taken)
