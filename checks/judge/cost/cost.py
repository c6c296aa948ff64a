"""Verdict + job + price + failure statistics -> what launching anyway would lose, and what not launching costs (pure).

Every number is a span: the statistics that it rests on (`checks.facts.failures`) differ by more than any rounding.
What is not known is left out and said, never made up: no price, no money; no length, the first 24 h alone.

What findings lose of one job, by the statistics of failures (pure). Losses are GPU-hours, or node-hours.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from checks.facts.failures import Failures, Fault, Span
from checks.facts.prices import Price
from checks.judge.cost.failure_model import (
    any_of,
    break_even_probability,
    fault_of,
    job_mttf_hours,
    lost_per_failure,
    lost_to_straggler,
    young_interval_hours,
)
from checks.model import CLUSTER, LINK, Cause, Finding, Level, Verdict, node_of

NOTHING = Span(0.0, 0.0)


@dataclass(frozen=True)
class Job:
    """What was declared of the training job; None where nobody said. Hours."""

    instance_type: str
    nodes: int
    gpus_per_node: int
    hours: float | None = None
    checkpoint_hours: float | None = None
    replacement_hours: float | None = None
    check_hours: float | None = None
    checkpoint_write_hours: float | None = None

    @property
    def units(self) -> int:
        """GPUs, or nodes where there are none."""
        return self.nodes * (self.gpus_per_node or 1)


@dataclass(frozen=True)
class Loss:
    """What findings of one check would lose if the job were launched: `places` nodes or links have them."""

    level: Level
    cause: Cause
    check: str
    fault: Fault
    places: int
    probability: Span
    hours_lost: Span


class Model:
    """One job and the statistics: every loss, capped at the whole job."""

    def __init__(self, job: Job, failures: Failures, horizon: float) -> None:
        self.job, self.failures, self.horizon = job, failures, horizon
        declared = job.checkpoint_hours
        self.checkpoint = failures.span("checkpoint_hours").low if declared is None else declared
        self.whole = job.units * horizon

    def failure(self, fault: Fault) -> Span:
        """What one crash or hang loses: found, started again, half an interval done again."""
        detect = self.failures.span("detect_hang_hours" if fault is Fault.HANG else "detect_crash_hours")
        interval = min(self.checkpoint, self.horizon)
        return lost_per_failure(self.job.units, detect, self.failures.span("restart_hours"), interval)

    def mttf(self) -> Span:
        """How long so many healthy nodes run, at the greatest and the least published rate."""
        rates = [rate.per_1000_node_days for rate in self.failures.rates.values()]
        return Span(job_mttf_hours(self.job.nodes, max(rates)), job_mttf_hours(self.job.nodes, min(rates)))

    def best_interval(self) -> Span | None:
        """Young's checkpoint interval for both."""
        write, mttf = self.job.checkpoint_write_hours, self.mttf()
        if write is None:
            return None
        return Span(young_interval_hours(write, mttf.low), young_interval_hours(write, mttf.high))

    def background(self) -> Span:
        """What healthy nodes lose to failures over the horizon."""
        mttf = self.mttf()
        failed = Span(self.horizon / mttf.high, self.horizon / mttf.low)
        return self.capped(failed.times(self.failure(Fault.CRASH)))

    def losses(self, findings: Sequence[Finding]) -> tuple[Loss, ...]:
        """One line for each check, level, cause and fault, the greatest first."""
        groups: dict[tuple[Level, Cause, str, Fault], list[Finding]] = {}
        for finding in findings:
            key = (finding.level, finding.cause, finding.check, fault_of(finding))
            groups.setdefault(key, []).append(finding)
        made = []
        for (level, cause, check, fault), group in groups.items():
            places = len({place_of(finding.subject) for finding in group})
            total = self.total(group)
            made.append(Loss(level, cause, check, fault, places, self.probability(group[0]), total))
        return tuple(sorted(made, key=lambda loss: (-loss.hours_lost.high, -loss.hours_lost.low, loss.check)))

    def total(self, findings: Sequence[Finding]) -> Span:
        """Faults that end a job add up, the gravest of each place once; all wait for the slowest alone, and what is
        corrupted is corrupted once.
        """
        ending: dict[str, Span] = {}
        slowest = corrupted = NOTHING
        for finding in findings:
            fault, lost = fault_of(finding), self.lost(finding)
            if fault is Fault.SLOW:
                slowest = _greater(slowest, lost)
            elif fault is Fault.CORRUPTION:
                corrupted = _greater(corrupted, lost)
            else:
                place = place_of(finding.subject)
                ending[place] = _greater(ending.get(place, NOTHING), lost)
        total = slowest.plus(corrupted)
        for span in ending.values():
            total = total.plus(span)
        return self.capped(total)

    def lost(self, finding: Finding) -> Span:
        """What this one would lose."""
        fault, chance = fault_of(finding), self.probability(finding)
        grave = finding.level is Level.FAIL
        if fault is Fault.SLOW:
            share = self.failures.span("slow_fail" if grave else "slow_warn")
            return lost_to_straggler(self.job.units, self.horizon, share)
        if fault is Fault.CORRUPTION:  # found at the next checkpoint, or when the job is over
            return self.capped(Span(self.failure(Fault.CRASH).low, self.whole).times(chance))
        known = Fault.CRASH if fault is Fault.UNKNOWN else fault
        return self.failure(known).times(self.incidents(chance))

    def incidents(self, chance: Span) -> Span:
        """How often it strikes: at least once if it is there, and as often as a bad node's incidents return."""
        between = self.failures.span("repeat_hours")
        often = Span(max(1.0, self.horizon / between.high), max(1.0, self.horizon / between.low))
        return often.times(chance)

    def probability(self, finding: Finding) -> Span:
        """That a defect is there which the job will meet. What was not seen is as likely as among unchecked nodes."""
        if finding.cause is Cause.EVIDENCE:
            share = self.failures.share(finding.check).share_of_nodes
            nodes = self.job.nodes if finding.subject == CLUSTER else 1
            return Span(0.0, any_of(nodes, share))
        if fault_of(finding) is Fault.SLOW:  # that was measured; by how much it slows the job is the share
            return Span(1.0, 1.0)
        return self.failures.span("probability_fail" if finding.level is Level.FAIL else "probability_warn")

    def capped(self, span: Span) -> Span:
        """No job can lose more than the whole of it."""
        return Span(min(span.low, self.whole), min(span.high, self.whole))


def place_of(subject: str) -> str:
    """Where a fault lies: a node, whichever of its ranks complains; a link; the cluster."""
    return subject if LINK in subject else node_of(subject)


def _greater(one: Span, other: Span) -> Span:
    return Span(max(one.low, other.low), max(one.high, other.high))


DAY_HOURS = 24.0


@dataclass(frozen=True)
class Cost:
    """Of `units` (GPUs or nodes) over `horizon_hours`; `usd_per_unit_hour` is None where no price is known.

    `launching`: lost by launching with these findings. `waiting`: the whole cluster idle until a node is replaced.
    `checking`: what the check itself took, None where it was not timed. `background`: what healthy nodes lose over the
    horizon at published failure rates. `worth_waiting_hours`: so long a wait costs no more than launching; `break_even`:
    the probability of a bad node from which the check pays, against one failure. `mttf_hours`: so often so many healthy
    nodes fail; `best_interval_hours`: the checkpoint interval that loses least then, None where nobody said how long a
    checkpoint takes to write.
    """

    unit: str
    units: int
    horizon_hours: float
    length_known: bool
    usd_per_unit_hour: float | None
    price: Price | None
    losses: tuple[Loss, ...]
    launching: Span
    waiting: Span
    checking: float | None
    background: Span
    worth_waiting_hours: Span
    break_even: Span | None
    mttf_hours: Span
    best_interval_hours: Span | None
    unknown: tuple[str, ...]

    def usd(self, hours: float) -> float | None:
        """US dollars of so many unit-hours."""
        return None if self.usd_per_unit_hour is None else hours * self.usd_per_unit_hour


def cost(verdict: Verdict, job: Job, price: Price | None, failures: Failures) -> Cost:
    """The cost of the verdict's findings, under the job. A finding above PASS counts; places are never counted twice."""
    horizon = DAY_HOURS if job.hours is None else job.hours
    model = Model(job, failures, horizon)
    bad = [finding for finding in verdict.findings if finding.level is not Level.PASS]
    losses = model.losses(bad)
    launching = model.total(bad)
    waits = failures.span("replacement_hours")
    if job.replacement_hours is not None:
        waits = Span(job.replacement_hours, job.replacement_hours)
    failure = model.failure(Fault.CRASH)
    checking = None if job.check_hours is None else job.check_hours * job.units
    pays = None
    if checking is not None:
        pays = Span(
            break_even_probability(checking, failure.high), break_even_probability(checking, failure.low)
        )
    return Cost(
        unit="GPU-hours" if job.gpus_per_node else "node-hours",
        units=job.units,
        horizon_hours=horizon,
        length_known=job.hours is not None,
        usd_per_unit_hour=None if price is None else price.usd_per_node_hour / (job.gpus_per_node or 1),
        price=price,
        losses=losses,
        launching=launching,
        waiting=waits.scaled(job.units),
        checking=checking,
        background=model.background(),
        worth_waiting_hours=launching.scaled(1 / job.units),
        break_even=pays,
        mttf_hours=model.mttf(),
        best_interval_hours=model.best_interval(),
        unknown=_unknown(job, price),
    )


def _unknown(job: Job, price: Price | None) -> tuple[str, ...]:
    said = []
    if price is None:
        said.append(f"no price is known for {job.instance_type}, so costs in money are not shown")
    if job.hours is None:
        said.append("the job's length is not declared, so losses are for its first 24 h")
    if job.checkpoint_hours is None:
        said.append("the checkpoint interval is not declared, so one hour is assumed")
    return tuple(said)
