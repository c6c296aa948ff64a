"""The job's length and price, from a gate file, and the cost of a verdict that follows from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from checks.documents.columns import by_check
from checks.facts.failures import builtin_failures
from checks.facts.prices import Price, Purchase, builtin_prices, price_of
from checks.facts.provenance import NumberKind, Provenance
from checks.judge.cost.cost import Cost, Job, cost
from checks.model import Report, Verdict

if TYPE_CHECKING:  # pydantic is slow to import, and nothing here makes a gate file
    from tasks.gate_file.model import Gate

SECONDS_PER_HOUR = 3600.0


@dataclass(frozen=True)
class CostTerms:
    """Hours and US dollars; None where nobody said."""

    hours: float | None = None
    checkpoint_hours: float | None = None
    replacement_hours: float | None = None
    usd_per_node_hour: float | None = None
    purchase: Purchase = Purchase.EC2


NOTHING_SAID = CostTerms()


def cost_of(report: Report, verdict: Verdict, terms: CostTerms = NOTHING_SAID) -> Cost:
    """The cost of the verdict's findings for the declared cluster, under the terms."""
    declared = report.declared
    job = Job(
        declared.instance_type,
        declared.nodes,
        declared.gpus_per_node,
        terms.hours,
        terms.checkpoint_hours,
        terms.replacement_hours,
        _check_hours(report),
    )
    return cost(verdict, job, price_for(declared.instance_type, terms), builtin_failures())


def terms_of(gate: Gate) -> CostTerms:
    """What the gate file says."""
    terms, training = gate.cost, gate.training
    minutes = training.checkpoint_minutes
    return CostTerms(
        training.expected_hours,
        None if minutes is None else minutes / 60,
        terms.replacement_hours,
        terms.usd_per_node_hour,
        Purchase(terms.purchase),
    )


def price_for(instance_type: str, terms: CostTerms) -> Price | None:
    """What a node costs under the terms; None if nobody said, and no table has it."""
    if terms.usd_per_node_hour is not None:
        provenance = Provenance("declared for this job", "as declared", "undated", NumberKind.DOCUMENTED)
        return Price(instance_type, terms.purchase, "", terms.usd_per_node_hour, provenance)
    return price_of(builtin_prices(), instance_type, terms.purchase)


def _check_hours(report: Report) -> float | None:
    """How long the slowest node's checks took; None if nothing was timed."""
    ends = [
        started + took
        for observations in by_check(report.observations).values()
        for started, took in zip(observations.columns.started_s, observations.columns.seconds, strict=True)
    ]
    longest = max(ends, default=0.0)
    return longest / SECONDS_PER_HOUR if longest > 0 else None


def cost_json(estimate: Cost | None) -> Mapping[str, object] | None:
    """The cost as a document; None if nothing was judged."""
    if estimate is None:
        return None
    usd = estimate.usd_per_unit_hour
    return {
        "unit": estimate.unit,
        "units": estimate.units,
        "horizon_hours": estimate.horizon_hours,
        "length_known": estimate.length_known,
        "usd_per_unit_hour": usd,
        "price_source": None if estimate.price is None else str(estimate.price.provenance),
        **{
            name: {
                "low": value.low,
                "high": value.high,
                "low_usd": estimate.usd(value.low),
                "high_usd": estimate.usd(value.high),
            }
            for name, value in (("launching", estimate.launching), ("waiting", estimate.waiting))
        },
        "checking": estimate.checking,
        "worth_waiting_hours": {
            "low": estimate.worth_waiting_hours.low,
            "high": estimate.worth_waiting_hours.high,
        },
        "unknown": list(estimate.unknown),
    }
