"""The cost of a verdict in one sentence (pure)."""

from __future__ import annotations

from checks.facts.failures import ValueSpan
from checks.judge.cost.cost import Cost

LEAST = 0.001


def cost_line(cost: Cost | None) -> str:
    """What launching anyway may lose, in US dollars where the price is known, and how long a replacement takes; "" where nothing can
    be lost, or neither the job's length nor a price is known.
    """
    if cost is None or cost.launching.high <= 0 or not (cost.length_known or cost.price is not None):
        return ""
    over = f"of a {cost.horizon_hours:g} h job" if cost.length_known else "in its first 24 h"
    at = f" ({cost.price.where})" if cost.price is not None and cost.price.where else ""
    usd, hours = cost.usd_per_unit_hour, _span(cost.waiting.scaled(1 / cost.units), "h")
    loss = _span(cost.launching, cost.unit) if usd is None else _span(cost.launching.scaled(usd), "USD")
    return f"Starting the training anyway may lose {loss} {over}{at}; a replacement of a node takes {hours}."


def _span(span: ValueSpan, unit: str) -> str:
    low, high = _number(span.low), _number(span.high)
    return f"{low} {unit}" if low == high else f"{low} to {high} {unit}"


def _number(value: float) -> str:
    """Three significant digits: no statistic here has more, and none is of thousandths."""
    if 0 < value < LEAST:
        return f"under {LEAST:g}"
    if value >= 999.5:
        digits = len(f"{value:.0f}") - 3
        return f"{round(value, -digits):,.0f}"
    return f"{value:.3g}"
