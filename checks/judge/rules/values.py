"""The values of a metric with their subjects and names, and the rules that set a threshold for a value. Pure.

A threshold applies to the value of each subject, or to the smallest or greatest value of the cluster.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from checks.facts.instances import Facts, Instance
from checks.judge.not_measured import not_measured
from checks.judge.rules.noise import SharedNoise
from checks.judge.rules.tails import PooledTails
from checks.judge.rules.wording import bounded, figure, unit_of
from checks.model import CLUSTER, Declared, Finding, Level, Observation
from checks.model_details import Comparison, Reference, Relation, Unmeasured
from checks.policy import FALSE_NAMES, Over, Rule


@dataclass(frozen=True)
class Cell:
    """One value: its subject, its metric, its element's label if the metric is an array ("GPU 3", or "[2]" if nothing names it), and
    the index of the element.
    """

    subject: str
    metric: str
    value: float
    evidence: str
    index: int = 0
    element: str = ""

    @property
    def label(self) -> str:
        """The name of the value: "busbw_gbps[2]", "GPU 3: memory_used_mib"."""
        return label_text(self.metric, self.element)


def cells_of(rule: Rule, record: Observation) -> tuple[list[Cell], Unmeasured | None]:
    """The row's numbers under the rule's metric, and the last one that is not there, or None."""
    metric = rule.metric
    value = record.metrics.get(metric)
    if value is None:
        return [], Unmeasured(metric, "is missing")
    items = value if isinstance(value, tuple) else (value,)
    cells: list[Cell] = []
    fault = None if items else Unmeasured(metric, "is an empty list")
    for index, item in enumerate(items):
        element = label_of(rule, record, index) if isinstance(value, tuple) else ""
        if isinstance(item, (int, float)) and not isinstance(item, bool) and abs(item) < 1e300:
            cells.append(Cell(record.subject, metric, float(item), record.evidence, index, element))
        else:
            reason = "has no value" if item is None else f"is {item!r:.40}, not a number that can be compared"
            fault = Unmeasured(label_text(metric, element), reason)
    return cells, fault


def label_of(rule: Rule, record: Observation, index: int) -> str:
    """The name of the element: "GPU 3" if the row says so."""
    labels = record.metrics.get(rule.each) if rule.each else None
    if isinstance(labels, tuple) and index < len(labels) and isinstance(labels[index], str):
        return str(labels[index])
    return f"[{index}]"


def label_text(metric: str, element: str) -> str:
    """Such as "GPU 3: memory_used_mib"; "busbw_gbps[2]" for an element that nothing names."""
    return f"{element}: {metric}" if element and not element.startswith("[") else f"{metric}{element}"


def judge(check: str, rule: Rule, records: Sequence[Observation], blind: Level) -> Iterator[Finding]:
    """Findings of a rule with thresholds for each subject, or for the cluster.

    A rule with upper thresholds alone is about counts, shares and times, which are never below 0: a tool that cannot tell prints -1,
    and that is not a small value.
    """
    cells: list[Cell] = []
    for record in records:
        numbers, fault = cells_of(rule, record)
        cells += numbers
        if fault:
            yield not_measured(check, record.subject, fault, blind, record.evidence)
    if rule.warn_below is None and rule.fail_below is None:
        for cell in cells:
            if cell.value < 0:
                message = f"is {figure(cell.value)}, which is impossible: it cannot be below 0"
                fault = Unmeasured(cell.label, message)
                yield not_measured(check, cell.subject, fault, blind, cell.evidence)
    if rule.over is Over.CLUSTER:
        if cells:
            ordered = sorted(cells, key=lambda cell: (cell.value, cell.subject, cell.label))
            for extreme in (ordered[0], ordered[-1]):
                yield from held(check, rule, replace(extreme, subject=CLUSTER))
    else:
        for cell in cells:
            yield from held(check, rule, cell)


def edges(rule: Rule) -> tuple[float, float]:
    """The smallest and the greatest value without a finding. If there is no lower threshold, values below 0 have one."""
    lows = [line for line in (rule.warn_below, rule.fail_below) if line is not None]
    highs = [line for line in (rule.warn_above, rule.fail_above) if line is not None]
    return max(lows, default=0.0), min(highs, default=math.inf)


def held(
    check: str, rule: Rule, cell: Cell, basis: float | None = None, reference: Reference = Reference.THRESHOLD
) -> Iterator[Finding]:
    """The finding that the rule makes about the value, as a ratio to the reference value `of` if there is one; none if it is within
    the thresholds.
    """
    crossed = crossing(rule, cell.value if basis is None else cell.value / basis)
    if crossed is None:
        return
    level, relation, line = crossed
    compared = Comparison(cell.value, unit_of(cell.metric), relation, line, reference, basis)
    text, is_predicate = bounded(check, cell.metric, cell.element, compared)
    yield Finding(
        level, rule.cause, check, cell.subject, text, cell.evidence, rule.remedy,
        elements=(cell.element,) if cell.element else (), is_predicate=is_predicate, compared=compared,
    )  # fmt: skip


def crossing(rule: Rule, value: float) -> tuple[Level, Relation, float] | None:
    """The worst level whose threshold the value crosses, on which side, and that threshold; None if it is within all of them."""
    for level, low, high in (
        (Level.FAIL, rule.fail_below, rule.fail_above),
        (Level.WARN, rule.warn_below, rule.warn_above),
    ):
        if low is not None and value < low:
            return level, Relation.BELOW, low
        if high is not None and value > high:
            return level, Relation.ABOVE, high
    return None


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
    compared. `slow` are subjects that are slow in all that belongs together, `refused` those of them with a FAIL, `shared` is what
    the values of several rules say together of the noise of each, and `pooled` what all values of the report say
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
    refused: frozenset[str] = frozenset()
    shared: Mapping[Rule, SharedNoise] = field(default_factory=dict)
    pooled: Callable[[], PooledTails] = PooledTails


NOTHING_KNOWN = RuleContext()
