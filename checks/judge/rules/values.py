"""The numbers of a metric, each with whose it is and what it is called (pure).

Rules that bound a number: of each subject, or the extreme one of the cluster (pure).

What a rule may know beyond the observations (pure).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from checks.facts.instances import Facts, Instance
from checks.model import CLUSTER, Cause, Declared, Finding, FindingKind, Level, Observation
from checks.policy import Over, Rule


@dataclass(frozen=True)
class Cell:
    """One number: whose it is, its label ("busbw_gbps[2]"), which element of its array, and that element's own label ("[2]")."""

    subject: str
    label: str
    value: float
    evidence: str
    index: int = 0
    element: str = ""


def cells_of(rule: Rule, row: Observation) -> tuple[list[Cell], str]:
    """The row's numbers under the rule's metric, and why not all of them are there, or ""."""
    metric = rule.metric
    value = row.metrics.get(metric)
    if value is None:
        return [], f"{metric} is missing"
    items = value if isinstance(value, tuple) else (value,)
    cells, fault = [], "" if items else f"{metric} is an empty list"
    for index, item in enumerate(items):
        element = label_of(rule, row, index) if isinstance(value, tuple) else ""
        label = f"{element}: {metric}" if element and rule.each else f"{metric}{element}"
        if isinstance(item, (int, float)) and not isinstance(item, bool) and abs(item) < 1e300:
            cells.append(Cell(row.subject, label, float(item), row.evidence, index, element))
        else:
            fault = f"{label} is {item!r:.40}, not a number that can be compared"
    return cells, fault


def label_of(rule: Rule, row: Observation, index: int) -> str:
    """What the element is called: "GPU 3" where the row says so."""
    labels = row.metrics.get(rule.each) if rule.each else None
    if isinstance(labels, tuple) and index < len(labels) and isinstance(labels[index], str):
        return str(labels[index])
    return f"[{index}]"


def unread(check: str, row: Observation, fault: str, blind: Level) -> Finding:
    """The finding about a value that a rule could not look at."""
    said = f"not measured: {fault}"
    return Finding(
        blind, Cause.EVIDENCE, check, row.subject, said, row.evidence, kind=FindingKind.NOT_MEASURED
    )


def show(value: object) -> str:
    """The value as text, cut in its middle where it is long."""
    text = str(value)
    if len(text) <= 120:
        return text
    start, end = text[:70], text[-40:]
    if " " in start and " " in end:  # at a space, so that no half of a word is read as one
        start, end = start.rpartition(" ")[0], end.partition(" ")[2]
    return f"{start} ... {end}"


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
                said = f"not measured: {cell.label} is {cell.value:.4g}, which is impossible: it cannot be below 0"
                yield Finding(
                    blind, Cause.EVIDENCE, check, cell.subject, said, cell.evidence,
                    kind=FindingKind.NOT_MEASURED,
                )  # fmt: skip
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
            said = f"{cell.label} is {value:.4g}{suffix}, {side} the threshold {line:.4g}"
            elements = (cell.element,) if cell.element else ()
            yield Finding(
                level, rule.cause, check, cell.subject, said, cell.evidence, rule.remedy, elements=elements
            )
            return


@dataclass(frozen=True)
class Known:
    """The declared type's row, the metrics that its GPU lacks, what is declared, all facts, and each node's machine.

    `unreported` holds, for a subject, the metrics that its driver is too old to report. The others are None where
    nothing is declared (the output of a tool), or the table has no row.
    """

    instance: Instance | None = None
    absent: frozenset[str] = frozenset()
    declared: Declared | None = None
    facts: Facts | None = None
    unreported: Mapping[str, frozenset[str]] = field(default_factory=dict)
    hosts: Mapping[str, str] = field(default_factory=dict)  # node -> boot id, "" where it is not known


NOTHING_KNOWN = Known()
