"""The values of a metric with their subjects and names, and the rules that set a threshold for a value. Pure.

A threshold applies to the value of each subject, or to the smallest or greatest value of the cluster.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from checks.facts.instances import Facts, Instance
from checks.judge.not_measured import not_measured
from checks.judge.rules.tails import Tails
from checks.model import CLUSTER, Declared, Finding, Level, Observation, Unmeasured
from checks.policy import FALSE_NAMES, Over, Rule


@dataclass(frozen=True)
class Cell:
    """One value: its subject, its label ("busbw_gbps[2]"), the index of its element in the array, and that element's own label
    ("[2]").
    """

    subject: str
    label: str
    value: float
    evidence: str
    index: int = 0
    element: str = ""


def cells_of(rule: Rule, row: Observation) -> tuple[list[Cell], Unmeasured | None]:
    """The row's numbers under the rule's metric, and the last one that is not there, or None."""
    metric = rule.metric
    value = row.metrics.get(metric)
    if value is None:
        return [], Unmeasured(metric, "is missing")
    items = value if isinstance(value, tuple) else (value,)
    cells: list[Cell] = []
    fault = None if items else Unmeasured(metric, "is an empty list")
    for index, item in enumerate(items):
        element = label_of(rule, row, index) if isinstance(value, tuple) else ""
        label = f"{element}: {metric}" if element and rule.each else f"{metric}{element}"
        if isinstance(item, (int, float)) and not isinstance(item, bool) and abs(item) < 1e300:
            cells.append(Cell(row.subject, label, float(item), row.evidence, index, element))
        else:
            fault = Unmeasured(label, f"is {item!r:.40}, not a number that can be compared")
    return cells, fault


def label_of(rule: Rule, row: Observation, index: int) -> str:
    """The name of the element: "GPU 3" if the row says so."""
    labels = row.metrics.get(rule.each) if rule.each else None
    if isinstance(labels, tuple) and index < len(labels) and isinstance(labels[index], str):
        return str(labels[index])
    return f"[{index}]"


def figure(value: float) -> str:
    """The number with at least four digits, as people write it: "19,961" and not "1.996e+04"."""
    return f"{value:,.0f}" if 1e4 <= abs(value) < 1e15 else f"{value:.4g}"


def show(value: object) -> str:
    """The value as text. A long text is cut in its middle."""
    text = str(value)
    if len(text) <= 120:
        return text
    start, end = text[:70], text[-40:]
    if " " in start and " " in end:  # cut at a space, so that a part of a word is not read as a word
        start, end = start.rpartition(" ")[0], end.partition(" ")[2]
    return f"{start} ... {end}"


def judge(check: str, rule: Rule, rows: Sequence[Observation], blind: Level) -> Iterator[Finding]:
    """Findings of a rule with thresholds for each subject, or for the cluster.

    A rule with upper thresholds alone is about counts, shares and times, which are never below 0: a tool that cannot tell prints -1,
    and that is not a small value.
    """
    cells: list[Cell] = []
    for row in rows:
        found, fault = cells_of(rule, row)
        cells += found
        if fault:
            yield not_measured(check, row.subject, fault, blind, row.evidence)
    if rule.warn_below is None and rule.fail_below is None:
        for cell in cells:
            if cell.value < 0:
                said = f"is {figure(cell.value)}, which is impossible: it cannot be below 0"
                fault = Unmeasured(cell.label, said)
                yield not_measured(check, cell.subject, fault, blind, cell.evidence)
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
    """The smallest and the greatest value without a finding. If there is no lower threshold, values below 0 have one."""
    lows = [line for line in (rule.warn_below, rule.fail_below) if line is not None]
    highs = [line for line in (rule.warn_above, rule.fail_above) if line is not None]
    return max(lows, default=0.0), min(highs, default=math.inf)


def held(check: str, rule: Rule, cell: Cell, unit: float, suffix: str) -> Iterator[Finding]:
    """The finding that the rule makes about the value in this unit; none if the value is within the thresholds."""
    value = cell.value / unit
    for level, low, high in (
        (Level.FAIL, rule.fail_below, rule.fail_above),
        (Level.WARN, rule.warn_below, rule.warn_above),
    ):
        line = low if low is not None and value < low else high if high is not None and value > high else None
        if line is not None:
            side = "below" if line == low and value < line else "above"
            said = f"{cell.label} is {figure(value)}{suffix}, {side} the threshold {figure(line)}"
            elements = (cell.element,) if cell.element else ()
            yield Finding(
                level, rule.cause, check, cell.subject, said, cell.evidence, rule.remedy, elements=elements
            )
            return


@dataclass(frozen=True)
class Chances:
    """With which probability noise alone may name a single value, the median of a subject's values, and the median of a node's."""

    value: float = FALSE_NAMES
    subject: float = FALSE_NAMES
    node: float = FALSE_NAMES


@dataclass(frozen=True)
class RuleContext:
    """What a rule may use besides the observations: the declared type's row, the metrics that its GPU lacks, the declaration, all
    facts, and each node's machine.

    `unreported` holds, for a subject, the metrics that its driver is too old to report. The others are None if nothing is declared
    (the output of a tool), or the table has no row. `chances` are the probabilities with which noise alone may name one of what is
    compared. `slow` are subjects that are slow in all that belongs together, and `tails` are those of the noise of a rule's values
    (checks.judge.rules.combined).
    """

    instance: Instance | None = None
    absent: frozenset[str] = frozenset()
    declared: Declared | None = None
    facts: Facts | None = None
    unreported: Mapping[str, frozenset[str]] = field(default_factory=dict)
    hosts: Mapping[str, str] = field(default_factory=dict)  # node -> boot id, "" if it is unknown
    chances: Chances = Chances()
    slow: frozenset[str] = frozenset()
    tails: Mapping[Rule, Tails] = field(default_factory=dict)


NOTHING_KNOWN = RuleContext()
