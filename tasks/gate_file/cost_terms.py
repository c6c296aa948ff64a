"""The job's length and price, from a gate file, and the cost of a verdict that follows from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from checks.documents.columns import by_check
from checks.facts.failures import builtin_failures
from checks.facts.prices import Price, Purchase, builtin_prices, price_of
from checks.facts.provenance import Kind, Provenance
from checks.judge.cost.cost import Cost, Job, cost
from checks.model import Declared, Report, Verdict

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
    job = job_of(declared, terms, _check_hours(report))
    return cost(verdict, job, price_for(declared.instance_type, terms), builtin_failures())


def job_of(declared: Declared, terms: CostTerms, check_hours: float | None = None) -> Job:
    """The training job on the declared machines, under the terms; `check_hours` is how long its checks took."""
    return Job(
        declared.instance_type,
        declared.nodes,
        declared.gpus_per_node,
        terms.hours,
        terms.checkpoint_hours,
        terms.replacement_hours,
        check_hours,
    )


def terms_of(gate: Gate) -> CostTerms:
    """What the gate file says."""
    said, training = gate.cost, gate.training
    minutes = training.checkpoint_minutes
    return CostTerms(
        training.expected_hours,
        None if minutes is None else minutes / 60,
        said.replacement_hours,
        said.usd_per_node_hour,
        Purchase(said.purchase),
    )


def price_for(instance_type: str, terms: CostTerms) -> Price | None:
    """What a node costs under the terms; None if nobody said, and no table has it."""
    if terms.usd_per_node_hour is not None:
        said = Provenance("declared for this job", "as declared", "undated", Kind.DOCUMENTED)
        return Price(instance_type, terms.purchase, "", terms.usd_per_node_hour, said)
    return price_of(builtin_prices(), instance_type, terms.purchase)


def _check_hours(report: Report) -> float | None:
    """How long the slowest node's checks took; None if nothing was timed."""
    ends = [
        started + took
        for rows in by_check(report.observations).values()
        for started, took in zip(rows.columns.started_s, rows.columns.seconds, strict=True)
    ]
    longest = max(ends, default=0.0)
    return longest / SECONDS_PER_HOUR if longest > 0 else None


def cost_json(made: Cost | None) -> Mapping[str, object] | None:
    """The cost as a document; None if nothing was judged."""
    if made is None:
        return None
    usd = made.usd_per_unit_hour
    return {
        "unit": made.unit,
        "units": made.units,
        "horizon_hours": made.horizon_hours,
        "length_known": made.length_known,
        "usd_per_unit_hour": usd,
        "price_source": None if made.price is None else str(made.price.provenance),
        **{
            name: {
                "low": value.low,
                "high": value.high,
                "low_usd": made.usd(value.low),
                "high_usd": made.usd(value.high),
            }
            for name, value in (("launching", made.launching), ("waiting", made.waiting))
        },
        "checking": made.checking,
        "worth_waiting_hours": {"low": made.worth_waiting_hours.low, "high": made.worth_waiting_hours.high},
        "losses": [
            {
                "level": loss.level.value, "cause": loss.cause.value, "check": loss.check,
                "fault": loss.fault.value, "places": loss.places,
                "probability": [loss.probability.low, loss.probability.high],
                "lost": [loss.hours_lost.low, loss.hours_lost.high],
            }
            for loss in made.losses
        ],
        "unknown": list(made.unknown),
    }  # fmt: skip
