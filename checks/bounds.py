"""Rules that bound a number: of each subject, or the extreme one of the cluster (pure)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from checks.cells import Cell, cells_of, unread
from checks.model import CLUSTER, Cause, Finding, Level, Observation
from checks.policy import Over, Rule


def judge(check: str, rule: Rule, rows: Sequence[Observation], blind: Level) -> Iterator[Finding]:
    """Findings of a rule with bounds over each subject, or over the cluster.

    A rule that bounds from above alone is of counts, shares and times, of which none is below 0: a tool that cannot
    tell prints -1, and that is not a small one.
    """
    cells: list[Cell] = []
    for row in rows:
        found, fault = cells_of(rule, row)
        cells += found
        if fault:
            yield unread(check, row, fault, blind)
    if rule.warn_below is None and rule.fail_below is None:
        for cell in cells:
            if cell.value < 0:
                said = f"not measured: {cell.label} is {cell.value:.4g}, and nothing of its kind is below 0"
                yield Finding(blind, Cause.EVIDENCE, check, cell.subject, said, cell.evidence, "")
    if rule.over is Over.CLUSTER:
        if cells:
            ordered = sorted(cells, key=lambda cell: (cell.value, cell.subject, cell.label))
            for extreme in (ordered[0], ordered[-1]):
                cell = Cell(CLUSTER, extreme.label, extreme.value, extreme.evidence)
                yield from held(check, rule, cell, 1.0, "")
    else:
        for cell in cells:
            yield from held(check, rule, cell, 1.0, "")


def edges(rule: Rule) -> tuple[float, float]:
    """The least and the greatest value of which nothing is to be said; without a lower line nothing is below 0."""
    lows = [line for line in (rule.warn_below, rule.fail_below) if line is not None]
    highs = [line for line in (rule.warn_above, rule.fail_above) if line is not None]
    return max(lows, default=0.0), min(highs, default=math.inf)


def held(check: str, rule: Rule, cell: Cell, unit: float, suffix: str) -> Iterator[Finding]:
    """The finding that the rule makes of the value in this unit; none for one within the bounds."""
    value = cell.value / unit
    for level, low, high in (
        (Level.FAIL, rule.fail_below, rule.fail_above),
        (Level.WARN, rule.warn_below, rule.warn_above),
    ):
        line = low if low is not None and value < low else high if high is not None and value > high else None
        if line is not None:
            side = "below" if line == low and value < line else "above"
            said = f"{cell.label} is {value:.4g}{suffix}, {side} {line:.4g}"
            yield Finding(level, rule.cause, check, cell.subject, said, cell.evidence, rule.remedy)
            return
