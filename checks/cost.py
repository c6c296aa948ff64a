"""Verdict + job + price + failure statistics -> what launching anyway would lose, and what not launching costs (pure).

Every number is a span: the statistics that it rests on (`checks.facts.failures`) differ by more than any rounding.
What is not known is left out and said, never made up: no price, no money; no length, the first 24 h alone.
"""

from __future__ import annotations

from dataclasses import dataclass

from checks.facts.failures import Failures, Fault, Span
from checks.facts.prices import Price
from checks.jobloss import Job as Job
from checks.jobloss import Loss as Loss
from checks.jobloss import Model
from checks.losses import break_even_probability
from checks.model import Level, Verdict

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
        said.append(f"no price of {job.instance_type} is known: no money is named")
    if job.hours is None:
        said.append("the job's length is not declared: losses are of its first 24 h")
    if job.checkpoint_hours is None:
        said.append("the checkpoint interval is not declared: one hour is supposed")
    return tuple(said)
