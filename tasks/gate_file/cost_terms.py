"""The job's length and price, from a gate file, and the cost of a verdict that follows from them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from checks.documents.columns import by_check
from checks.facts.failures import builtin_failures
from checks.facts.prices import Purchase
from checks.judge.cost.cost import NOTHING_SAID, Cost, CostTerms, cost
from checks.model import Report, Verdict

if TYPE_CHECKING:  # pydantic is slow to import, and nothing here makes a gate file
    from tasks.gate_file.model import Gate

SECONDS_PER_HOUR = 3600.0


def cost_of(report: Report, verdict: Verdict, terms: CostTerms = NOTHING_SAID) -> Cost:
    """The cost of the verdict's findings for the declared cluster, under the terms."""
    return cost(verdict, report.declared, terms, builtin_failures(), _check_hours(report))


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
    return {
        "unit": estimate.unit,
        "units": estimate.units,
        "horizon_hours": estimate.horizon_hours,
        "length_known": estimate.length_known,
        "usd_per_unit_hour": estimate.usd_per_unit_hour,
        "price_source": None if estimate.price is None else str(estimate.price.provenance),
        **{
            name: {**vars(span), "low_usd": estimate.usd(span.low), "high_usd": estimate.usd(span.high)}
            for name, span in (("launching", estimate.launching), ("waiting", estimate.waiting))
        },
        "checking": estimate.checking,
        "worth_waiting_hours": vars(estimate.worth_waiting_hours),
        "unknown": list(estimate.unknown),
    }
