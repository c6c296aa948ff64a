"""A policy's rules applied to sound observations (pure)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from checks.model import CLUSTER, EVIDENCE_BYTES, Cause, Finding, Level, Observation, node_of
from checks.policy import CheckPolicy, Over, Rule
from checks.statistics import median_of


@dataclass(frozen=True)
class _Cell:
    """One number: whose it is, and its label ("busbw_gbps[2]")."""

    subject: str
    label: str
    value: float
    evidence: str


def apply(check: str, line: CheckPolicy, rows: Sequence[Observation], expected: int) -> Iterator[Finding]:
    """Every finding that the policy's line makes of the check's observations.

    `expected` is how many subjects are declared: a comparison of one subject with itself is no comparison.
    """
    for rule in line.rules:
        blind = Level.FAIL if line.required else Level.WARN
        if rule.equals is not None:
            yield from _equals(check, rule, rows, blind)
        elif rule.same:
            yield from _same(check, rule, rows, blind)
        else:
            yield from _bounds(check, rule, rows, blind, expected)


def _bounds(
    check: str, rule: Rule, rows: Sequence[Observation], blind: Level, expected: int
) -> Iterator[Finding]:
    cells: list[_Cell] = []
    for row in rows:
        found, fault = _cells(rule.metric, row)
        cells += found
        if fault:
            yield _unread(check, row, fault, blind)
    if rule.over is Over.PEERS:
        for label in sorted({cell.label for cell in cells}) or [rule.metric]:
            peers = [cell for cell in cells if cell.label == label]
            yield from _against_peers(check, rule, label, peers, expected)
    elif rule.over is Over.CLUSTER and cells:
        ordered = sorted(cells, key=lambda cell: (cell.value, cell.subject, cell.label))
        for extreme in (ordered[0], ordered[-1]):
            cell = _Cell(CLUSTER, extreme.label, extreme.value, extreme.evidence)
            yield from _held(check, rule, cell, 1.0, "")
    else:
        for cell in cells:
            yield from _held(check, rule, cell, 1.0, "")


def _against_peers(
    check: str, rule: Rule, label: str, cells: Sequence[_Cell], expected: int
) -> Iterator[Finding]:
    if len(cells) < rule.min_peers:
        if expected >= rule.min_peers:
            said = f"{label}: only {len(cells)} of {expected} values to compare, {rule.min_peers} are needed"
            yield Finding(
                Level.WARN, Cause.EVIDENCE, check, CLUSTER, said, "", "Find out why the others are missing."
            )
        return
    middle = median_of([cell.value for cell in cells])
    if middle <= 0:
        said = f"the median of {label} is {middle:g}: nothing can be compared with it"
        yield Finding(Level.FAIL, Cause.EVIDENCE, check, CLUSTER, said, "", "The measurement is broken.")
        return
    for cell in cells:
        yield from _held(check, rule, cell, middle, " times the median of its peers")


def _held(check: str, rule: Rule, cell: _Cell, unit: float, suffix: str) -> Iterator[Finding]:
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


def _equals(check: str, rule: Rule, rows: Sequence[Observation], blind: Level) -> Iterator[Finding]:
    for row in rows:
        value = row.metrics.get(rule.metric)
        if value is None:
            yield _unread(check, row, f"{rule.metric} is missing", blind)
            continue
        items = value if isinstance(value, tuple) else (value,)
        known = [item for item in items if item is not None]
        if len(known) < len(items) or not items:
            yield _unread(check, row, f"{rule.metric} has no value for everything", blind)
        if any(type(item) is not type(rule.equals) or item != rule.equals for item in known):
            said = f"{rule.metric} is {_show(value)}, it must be {rule.equals!r}"
            yield Finding(Level(rule.level), rule.cause, check, row.subject, said, row.evidence, rule.remedy)


def _same(check: str, rule: Rule, rows: Sequence[Observation], blind: Level) -> Iterator[Finding]:
    values: dict[str, str] = {}
    for row in rows:
        value = row.metrics.get(rule.metric)
        if value is None or (isinstance(value, tuple) and None in value):
            yield _unread(check, row, f"{rule.metric} is missing or has no value for everything", blind)
        else:
            values[row.subject] = str(value)
    ranked = sorted(Counter(values.values()).items(), key=lambda pair: (-pair[1], pair[0]))
    if len(ranked) < 2:
        return
    usual, most = ranked[0]
    voters = {node_of(subject) for subject, value in values.items() if value == usual}
    alone = len(voters) == 1 and len({node_of(subject) for subject in values}) > 1
    if 2 * most <= len(values) or alone:  # no majority, or one of a node's own ranks: nobody is blamed
        said = f"{rule.metric} differs, and no value is the usual one"
        shown = "\n".join(f"{subject}: {_show(value)}" for subject, value in sorted(values.items()))
        yield Finding(
            Level(rule.level), rule.cause, check, CLUSTER, said, shown[:EVIDENCE_BYTES], rule.remedy
        )
        return
    for subject, value in values.items():
        if value != usual:
            said = f"{rule.metric} is {_show(value)}, on {most} of {len(values)} it is {_show(usual)}"
            yield Finding(Level(rule.level), rule.cause, check, node_of(subject), said, "", rule.remedy)


def _cells(metric: str, row: Observation) -> tuple[list[_Cell], str]:
    value = row.metrics.get(metric)
    if value is None:
        return [], f"{metric} is missing"
    items = value if isinstance(value, tuple) else (value,)
    cells, fault = [], "" if items else f"{metric} is an empty list"
    for index, item in enumerate(items):
        label = f"{metric}[{index}]" if isinstance(value, tuple) else metric
        if isinstance(item, (int, float)) and not isinstance(item, bool) and abs(item) < 1e300:
            cells.append(_Cell(row.subject, label, float(item), row.evidence))
        else:
            fault = f"{label} is {item!r:.40}, not a number that can be compared"
    return cells, fault


def _show(value: object) -> str:
    text = str(value)
    return text if len(text) <= 120 else f"{text[:70]}...{text[-40:]}"


def _unread(check: str, row: Observation, fault: str, blind: Level) -> Finding:
    return Finding(blind, Cause.EVIDENCE, check, row.subject, f"not measured: {fault}", row.evidence, "")
