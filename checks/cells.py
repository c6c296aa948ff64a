"""The numbers of a metric, each with whose it is and what it is called (pure)."""

from __future__ import annotations

from dataclasses import dataclass

from checks.model import Cause, Finding, Level, Observation
from checks.policy import Rule


@dataclass(frozen=True)
class Cell:
    """One number: whose it is, its label ("busbw_gbps[2]"), and which element of its array."""

    subject: str
    label: str
    value: float
    evidence: str
    index: int = 0


def cells_of(rule: Rule, row: Observation) -> tuple[list[Cell], str]:
    """The row's numbers under the rule's metric, and why not all of them are there, or ""."""
    metric = rule.metric
    value = row.metrics.get(metric)
    if value is None:
        return [], f"{metric} is missing"
    items = value if isinstance(value, tuple) else (value,)
    cells, fault = [], "" if items else f"{metric} is an empty list"
    for index, item in enumerate(items):
        label = f"{metric}[{index}]" if isinstance(value, tuple) else metric
        if isinstance(value, tuple) and rule.each:
            label = f"{label_of(rule, row, index)}: {metric}"
        if isinstance(item, (int, float)) and not isinstance(item, bool) and abs(item) < 1e300:
            cells.append(Cell(row.subject, label, float(item), row.evidence, index))
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
    return Finding(blind, Cause.EVIDENCE, check, row.subject, f"not measured: {fault}", row.evidence, "")


def show(value: object) -> str:
    """The value as text, cut in its middle where it is long."""
    text = str(value)
    if len(text) <= 120:
        return text
    start, end = text[:70], text[-40:]
    if " " in start and " " in end:  # at a space, so that no half of a word is read as one
        start, end = start.rpartition(" ")[0], end.partition(" ")[2]
    return f"{start} ... {end}"
