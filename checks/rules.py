"""A policy's rules applied to sound observations (pure)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from checks.facts.table import Instance
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


@dataclass(frozen=True)
class Known:
    """What a rule may know beyond the observations: the declared type's row, and the metrics that its GPU lacks."""

    instance: Instance | None = None
    absent: frozenset[str] = frozenset()


NOTHING_KNOWN = Known()


def apply(
    check: str,
    line: CheckPolicy,
    rows: Sequence[Observation],
    expected: int,
    known: Known = NOTHING_KNOWN,
) -> Iterator[Finding]:
    """Every finding that the policy's line makes of the check's observations.

    `expected` is how many subjects are declared: a comparison of one subject with itself is no comparison.
    """
    for rule in line.rules:
        blind = Level.FAIL if line.required else Level.WARN
        held = rows
        if rule.metric in known.absent:
            held = [row for row in (_without_nulls(row, rule) for row in rows) if row is not None]
        if rule.equals is not None:
            yield from _equals(check, rule, held, blind)
        elif rule.same:
            yield from _same(check, rule, held, blind)
        elif rule.uniform:
            yield from _uniform(check, rule, held, blind)
        elif rule.fact:
            yield from _facts(check, rule, held, blind, known)
        else:
            yield from _bounds(check, rule, held, blind, expected)


def _without_nulls(row: Observation, rule: Rule) -> Observation | None:
    """The row with the elements that are there; None without any. What is there counts, listed as absent or not."""
    value = row.metrics.get(rule.metric)
    if not isinstance(value, tuple):
        return None if value is None else row
    there = [index for index, item in enumerate(value) if item is not None]
    if not there:
        return None
    labels = row.metrics.get(rule.each)
    kept = {rule.metric: tuple(value[index] for index in there)}
    if isinstance(labels, tuple) and len(labels) == len(value):
        kept[rule.each] = tuple(labels[index] for index in there)
    return replace(row, metrics={**row.metrics, **kept})  # type: ignore[dict-item]


def _uniform(check: str, rule: Rule, rows: Sequence[Observation], blind: Level) -> Iterator[Finding]:
    for row in rows:
        value = row.metrics.get(rule.metric)
        if not isinstance(value, tuple) or None in value:
            yield _unread(check, row, f"{rule.metric} is missing or has no value for everything", blind)
            continue
        ranked = sorted(Counter(map(str, value)).items(), key=lambda pair: (-pair[1], pair[0]))
        usual = ranked[0][0]
        odd = [index for index, item in enumerate(value) if str(item) != usual]
        if odd:
            named = ", ".join(f"{_label(rule, row, index)} is {_show(value[index])}" for index in odd[:8])
            said = (
                f"{rule.metric} differs within the node: {named}; {len(value) - len(odd)} are {_show(usual)}"
            )
            yield Finding(Level(rule.level), rule.cause, check, row.subject, said, row.evidence, rule.remedy)


def _facts(
    check: str, rule: Rule, rows: Sequence[Observation], blind: Level, known: Known
) -> Iterator[Finding]:
    expected = getattr(known.instance, rule.fact, None)
    for row in rows:
        cells, fault = _cells(rule, row)
        if fault:
            yield _unread(check, row, fault, blind)
        if type(expected) is not int:
            said = f"the instance table does not say what {rule.metric} should be ({rule.fact}): not compared"
            yield Finding(Level.WARN, Cause.EVIDENCE, check, row.subject, said, row.evidence, "")
            continue
        for cell in cells:
            if cell.value < expected * (1 - rule.tolerance):
                said = f"{cell.label} is {cell.value:.6g}, the instance type has {expected}"
                yield Finding(
                    Level(rule.level), rule.cause, check, row.subject, said, row.evidence, rule.remedy
                )
            elif cell.value > expected * (1 + rule.tolerance):
                said = f"{cell.label} is {cell.value:.6g}, the instance type is known to have {expected}"
                remedy = "Correct the declared instance type, or the table."
                yield Finding(Level.WARN, Cause.CONFIGURATION, check, row.subject, said, row.evidence, remedy)


def _label(rule: Rule, row: Observation, index: int) -> str:
    """What the element is called: "GPU 3" where the row says so."""
    labels = row.metrics.get(rule.each) if rule.each else None
    if isinstance(labels, tuple) and index < len(labels) and isinstance(labels[index], str):
        return str(labels[index])
    return f"[{index}]"


def _bounds(
    check: str, rule: Rule, rows: Sequence[Observation], blind: Level, expected: int
) -> Iterator[Finding]:
    cells: list[_Cell] = []
    for row in rows:
        found, fault = _cells(rule, row)
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
        odd = [
            (index, item)
            for index, item in enumerate(items)
            if item is not None and (type(item) is not type(rule.equals) or item != rule.equals)
        ]
        if odd:
            where = ", ".join(f"{_label(rule, row, index)} is {_show(item)}" for index, item in odd[:8])
            more = f" and {len(odd) - 8} more" if len(odd) > 8 else ""
            seen = f": {where}{more}" if isinstance(value, tuple) else f" is {_show(value)}"
            said = f"{rule.metric}{seen}, it must be {rule.equals!r}"
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
            yield Finding(Level(rule.level), rule.cause, check, subject, said, "", rule.remedy)


def _cells(rule: Rule, row: Observation) -> tuple[list[_Cell], str]:
    metric = rule.metric
    value = row.metrics.get(metric)
    if value is None:
        return [], f"{metric} is missing"
    items = value if isinstance(value, tuple) else (value,)
    cells, fault = [], "" if items else f"{metric} is an empty list"
    for index, item in enumerate(items):
        label = f"{metric}[{index}]" if isinstance(value, tuple) else metric
        if isinstance(value, tuple) and rule.each:
            label = f"{_label(rule, row, index)}: {metric}"
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
