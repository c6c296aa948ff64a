"""What it would cost to launch anyway, and what it costs not to launch: from the verdict, the job, the price and failure statistics.
Pure.

Every number is a span, because the statistics behind it (`checks.facts.failures`) differ by more than any rounding. What is unknown
is left out with a note, and never invented: without a price no sum of money is shown, and without the job's length only the first 24
h count.

Losses are GPU-hours, or node-hours.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from checks.facts.failures import Failures, Fault, ValueSpan
from checks.facts.prices import Price, Purchase, builtin_prices, price_of
from checks.facts.provenance import NumberKind, Provenance
from checks.judge.cost.failure_model import fault_of, lost_per_failure, lost_to_straggler
from checks.model import CLUSTER, LINK, Cause, Declared, Finding, Level, Verdict, node_of

NOTHING = ValueSpan(0.0, 0.0)
DAY_HOURS = 24.0


@dataclass(frozen=True)
class CostTerms:
    """What was declared of the training job and its machines, in hours and US dollars; None for what was not declared."""

    hours: float | None = None
    checkpoint_hours: float | None = None
    replacement_hours: float | None = None
    usd_per_node_hour: float | None = None
    purchase: Purchase = Purchase.EC2


NOTHING_SAID = CostTerms()


class Model:
    """The losses of one job by the statistics, none greater than the whole job."""

    def __init__(self, nodes: int, units: int, terms: CostTerms, failures: Failures) -> None:
        self.nodes, self.units, self.failures = nodes, units, failures
        self.horizon = DAY_HOURS if terms.hours is None else terms.hours
        declared = terms.checkpoint_hours
        self.checkpoint = failures.span("checkpoint_hours").low if declared is None else declared
        self.whole = units * self.horizon

    def failure(self, fault: Fault) -> ValueSpan:
        """What one crash or hang costs: the time to detect it, to restart, and to compute half a checkpoint interval again."""
        detect = self.failures.span("detect_hang_hours" if fault is Fault.HANG else "detect_crash_hours")
        interval = min(self.checkpoint, self.horizon)
        return lost_per_failure(self.units, detect, self.failures.span("restart_hours"), interval)

    def total(self, findings: Sequence[Finding]) -> ValueSpan:
        """The sum of all losses. Faults that end a job add up, counting the most serious one of each place; of slow parts only the
        slowest counts, because all ranks wait for it; corrupted work is counted once.
        """
        ending: dict[str, ValueSpan] = {}
        slowest = corrupted = NOTHING
        for finding in findings:
            fault, lost = fault_of(finding), self.lost(finding)
            if fault is Fault.SLOW:
                slowest = _greater(slowest, lost)
            elif fault is Fault.CORRUPTION:
                corrupted = _greater(corrupted, lost)
            else:
                location = place_of(finding.subject)
                ending[location] = _greater(ending.get(location, NOTHING), lost)
        total = slowest.plus(corrupted)
        for span in ending.values():
            total = total.plus(span)
        return self.capped(total)

    def lost(self, finding: Finding) -> ValueSpan:
        """What this fault would cost."""
        fault, chance = fault_of(finding), self.probability(finding)
        grave = finding.level is Level.FAIL
        if fault is Fault.SLOW:
            share = self.failures.span("slow_fail" if grave else "slow_warn")
            return lost_to_straggler(self.units, self.horizon, share)
        if fault is Fault.CORRUPTION:  # it is noticed at the next checkpoint, or when the job is over
            return self.capped(ValueSpan(self.failure(Fault.CRASH).low, self.whole).times(chance))
        return self.failure(Fault.CRASH if fault is Fault.UNKNOWN else fault).times(self.incidents(chance))

    def incidents(self, chance: ValueSpan) -> ValueSpan:
        """How often the fault occurs: at least once if it is there, and as often as a bad node's incidents return."""
        between = self.failures.span("repeat_hours")
        often = ValueSpan(max(1.0, self.horizon / between.high), max(1.0, self.horizon / between.low))
        return often.times(chance)

    def probability(self, finding: Finding) -> ValueSpan:
        """The probability that a defect exists which the job will meet. What was not observed is as likely as on unchecked nodes."""
        if finding.cause is Cause.EVIDENCE:
            share = self.failures.share(finding.check).share_of_nodes
            nodes = self.nodes if finding.subject == CLUSTER else 1
            # At least one of these nodes is bad, if each is bad with this probability.
            return ValueSpan(0.0, float(1 - (1 - share) ** nodes))
        # The slowness was measured; the share says by how much it slows the job.
        if fault_of(finding) is Fault.SLOW:
            return ValueSpan(1.0, 1.0)
        return self.failures.span("probability_fail" if finding.level is Level.FAIL else "probability_warn")

    def capped(self, span: ValueSpan) -> ValueSpan:
        """No job can lose more than all of its work."""
        return ValueSpan(min(span.low, self.whole), min(span.high, self.whole))


def place_of(subject: str) -> str:
    """Where a fault is: a node (whichever of its ranks reports it), a link, or the cluster."""
    return subject if LINK in subject else node_of(subject)


def _greater(first: ValueSpan, second: ValueSpan) -> ValueSpan:
    return ValueSpan(max(first.low, second.low), max(first.high, second.high))


@dataclass(frozen=True)
class Cost:
    """The costs for `units` (GPUs or nodes) over `horizon_hours`; `usd_per_unit_hour` is None if no price is known.

    `launching`: what is lost by launching with these findings. `waiting`: the cost of the whole idle cluster until a node is
    replaced. `checking`: what the check itself took, None if it was not timed. `worth_waiting_hours`: a wait of up to this length
    costs no more than launching.
    """

    unit: str
    units: int
    horizon_hours: float
    length_known: bool
    usd_per_unit_hour: float | None
    price: Price | None
    launching: ValueSpan
    waiting: ValueSpan
    checking: float | None
    worth_waiting_hours: ValueSpan
    unknown: tuple[str, ...]

    def usd(self, hours: float) -> float | None:
        """The price of this many unit-hours in US dollars."""
        return None if self.usd_per_unit_hour is None else hours * self.usd_per_unit_hour


def cost(
    verdict: Verdict,
    declared: Declared,
    terms: CostTerms,
    failures: Failures,
    check_hours: float | None = None,
) -> Cost:
    """The cost of the verdict's findings for the job. Findings above PASS count, and each place counts once. `check_hours` is how long
    the checks took, None if they were not timed.
    """
    units = declared.nodes * (declared.gpus_per_node or 1)
    model = Model(declared.nodes, units, terms, failures)
    price = price_for(declared.instance_type, terms)
    launching = model.total([finding for finding in verdict.findings if finding.level is not Level.PASS])
    waits = failures.span("replacement_hours")
    if terms.replacement_hours is not None:
        waits = ValueSpan(terms.replacement_hours, terms.replacement_hours)
    unknown = {
        f"no price is known for {declared.instance_type}, so costs in money are not shown": price is None,
        "the job's length is not declared, so losses are for its first 24 h": terms.hours is None,
        "the checkpoint interval is not declared, so one hour is assumed": terms.checkpoint_hours is None,
    }
    return Cost(
        unit="GPU-hours" if declared.gpus_per_node else "node-hours",
        units=units,
        horizon_hours=model.horizon,
        length_known=terms.hours is not None,
        usd_per_unit_hour=None if price is None else price.usd_per_node_hour / (declared.gpus_per_node or 1),
        price=price,
        launching=launching,
        waiting=waits.scaled(units),
        checking=None if check_hours is None else check_hours * units,
        worth_waiting_hours=launching.scaled(1 / units),
        unknown=tuple(text for text, is_unknown in unknown.items() if is_unknown),
    )


def price_for(instance_type: str, terms: CostTerms) -> Price | None:
    """What a node costs under the terms; None if nobody said, and no table has it."""
    if terms.usd_per_node_hour is not None:
        provenance = Provenance("declared for this job", "as declared", "undated", NumberKind.DOCUMENTED)
        return Price(instance_type, terms.purchase, "", terms.usd_per_node_hour, provenance)
    return price_of(builtin_prices(), instance_type, terms.purchase)
