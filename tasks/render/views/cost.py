"""The cost of a verdict in words: one line beside it, and the rows of a table (pure)."""

from __future__ import annotations

from typing import TypeGuard

from checks.facts.failures import Span
from checks.facts.prices import Price
from checks.judge.cost.cost import Cost, Loss
from checks.model import ANSWER_WORDS, Answer, Cause, Level
from tasks.render.views.table import Table, table
from tasks.text.inert import one_line

ROWS = 20
LEAST = 0.001
HEAD = ("Finding", "Lost", "USD", "What it does", "Places")


def is_worth_showing(made: Cost | None) -> TypeGuard[Cost]:
    """Whether something may be lost, of a job whose length or price is known."""
    return made is not None and made.launching.high > 0 and (made.length_known or made.price is not None)


def cost_line(made: Cost) -> str:
    """What launching anyway would lose, what waiting costs, and what the check cost, in one sentence."""
    over = f"of a {_hours(made.horizon_hours)} job" if made.length_known else "of its first 24 h"
    parts = [
        f"Starting the training anyway would lose about {_amount(made, made.launching)} {over}",
        f"waiting for a replacement costs {_amount(made, made.waiting)}",
    ]
    if made.checking is not None:
        parts.append(f"this check cost {_amount(made, Span(made.checking, made.checking))}")
    at = "" if made.price is None else price_note(made.price)
    return f"{'; '.join(parts)}{at}."


def price_note(price: Price) -> str:
    """Of which region the price is, as it follows an amount: " (price of us-west-2)"; "" where nobody said."""
    return f" ({price.where})" if price.where else ""


def cost_notes(made: Cost) -> tuple[str, ...]:
    """What the numbers are based on, and what was not known."""
    worth = made.worth_waiting_hours
    notes = [f"A wait of {_span(worth, 'h')} costs no more than starting anyway."]
    if made.price is not None:
        notes.append(
            f"Price: {made.price.usd_per_node_hour:,.2f} USD per node and hour{price_note(made.price)}, {made.price.provenance}."
        )
    notes += [f"{said[:1].upper()}{said[1:]}." for said in made.unknown]
    return (
        *notes,
        "Spans are those of the published statistics: prelaunch facts prints them with their sources.",
    )


def cost_table(made: Cost) -> Table:
    """The findings that would cost most, the greatest first."""
    return table(HEAD, (_row(made, loss) for loss in made.losses), ROWS)


def _row(made: Cost, loss: Loss) -> tuple[str, ...]:
    rate = made.usd_per_unit_hour
    unknown = loss.level is Level.FAIL and loss.cause is Cause.EVIDENCE
    word = ANSWER_WORDS[Answer.CANNOT_TELL] if unknown else f"{loss.level.value} {loss.cause.value.lower()}"
    usd = "" if rate is None else _span(loss.hours_lost.scaled(rate), "USD")
    what = one_line(f"{word}: {loss.check}")
    return what, _span(loss.hours_lost, made.unit), usd, loss.fault.value, str(loss.places)


def _amount(made: Cost, span: Span) -> str:
    said = _span(span, made.unit)
    if made.usd_per_unit_hour is None:
        return said
    return f"{said} ({_span(span.scaled(made.usd_per_unit_hour), 'USD')})"


def _span(span: Span, unit: str) -> str:
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


def _hours(value: float) -> str:
    return f"{value:g} h"
