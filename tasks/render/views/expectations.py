"""What the declared machines should reach by message size, and the policy's own minimums, with sources (pure).

They are drawn beside what was measured. Whether that is good enough is decided by the verdict alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from checks.documents.columns import by_check
from checks.facts.instances import Facts
from checks.judge.rules.expected_questions import LEAST_BYTES, taking_part
from checks.judge.rules.expected_values import expected_busbw, transport_of
from checks.model import Report, Value
from checks.policy import Over, Policy, Rule

BUSBW, PEAK = "busbw_gbps", "busbw_peak_gbps"
MOST_SIZES = 1024


@dataclass(frozen=True)
class ExpectedAt:
    """At one size: most likely `value`, at least `low`, in 10^9 bytes/s."""

    size_bytes: float
    value: float
    low: float


@dataclass(frozen=True)
class ExpectedCurve:
    """One check's expectation at the sizes that were measured; `source` says who measured what on which machines."""

    check: str
    points: tuple[ExpectedAt, ...]
    source: str


@dataclass(frozen=True)
class Floor:
    """A bandwidth below which the policy warns or fails, whatever the size; `of_peak`: of the best size alone."""

    check: str
    word: str
    gbps: float
    of_peak: bool
    source: str


@dataclass(frozen=True)
class Expectations:
    """`unknown` says of which collectives nothing is expected, and why: no expectation must not look like one that is met."""

    curves: tuple[ExpectedCurve, ...] = ()
    floors: tuple[Floor, ...] = ()
    unknown: tuple[str, ...] = ()

    def curve(self, check: str) -> ExpectedCurve | None:
        """The check's expectation."""
        return next((curve for curve in self.curves if curve.check == check), None)

    def at(self, check: str, size_bytes: float) -> ExpectedAt | None:
        """The expected value of the check at this size; None if none is known."""
        curve = self.curve(check)
        return next((p for p in curve.points if p.size_bytes == size_bytes), None) if curve else None


NOTHING_EXPECTED = Expectations(
    unknown=("No table of expected rates was given, so the measured rates are compared with nothing here.",)
)


def expectations(report: Report, policy: Policy, facts: Facts | None) -> Expectations:
    """For every check of the report that measured bus bandwidth by size. `facts` are those that it was judged by."""
    if facts is None:
        return NOTHING_EXPECTED
    curves, unknown = [], []
    for check, sizes in _measured(report):
        made = _curve(check, sizes, report, facts)
        if isinstance(made, str):
            unknown.append(made)
        else:
            curves.append(made)
    drawn = [check for check, _ in _measured(report)]
    floors = tuple(floor for check in drawn for floor in _floors(check, policy))
    return Expectations(tuple(curves), floors, tuple(dict.fromkeys(unknown)))


def floors_said(found: Expectations) -> tuple[str, ...]:
    """Each threshold of the policy once, with all checks that it applies to."""
    checks: dict[tuple[str, float, bool, str], list[str]] = {}
    for floor in found.floors:
        checks.setdefault((floor.word, floor.gbps, floor.of_peak, floor.source), []).append(floor.check)
    return tuple(
        f"{', '.join(named)}: {word} {gbps:.4g} GB/s{' at the best size' if of_peak else ''} ({source})"
        for (word, gbps, of_peak, source), named in checks.items()
    )


def held_from() -> int:
    """The size in bytes from which the policy's thresholds over an expectation hold: smaller messages show latency."""
    return LEAST_BYTES


def _measured(report: Report) -> Iterator[tuple[str, list[float]]]:
    for check, rows in sorted(by_check(report.observations).items()):
        sizes = {
            float(size)
            for column in set(_hashable(rows.column("sizes_bytes")))
            for size in column
            if size > 0
        }
        if sizes and any(column is not None for column in rows.column(BUSBW)):
            yield check, sorted(sizes)[-MOST_SIZES:]


def _hashable(columns: object) -> Iterator[tuple[float, ...]]:
    """Thousands of ranks measured at the same sizes: each list of them once."""
    values: tuple[Value | None, ...] = tuple(columns) if isinstance(columns, (tuple, list)) else ()
    for column in values:
        if isinstance(column, tuple):
            yield tuple(item for item in column if isinstance(item, (int, float)))


def _curve(check: str, sizes: list[float], report: Report, facts: Facts) -> ExpectedCurve | str:
    declared, facts = report.declared, facts.of(report.declared)
    instance = facts.instances.get(declared.instance_type)
    group = taking_part(check, declared)
    named = f"{group.collective} over {group.ranks} ranks of {group.nodes} x {declared.instance_type}"
    if instance is None:
        return f"Nothing is known of {declared.instance_type}, so nothing is expected of {named}."
    transport = transport_of(instance, group.nodes)
    found = [
        (size, expected_busbw(
            facts, declared.instance_type, group.nodes, group.ranks, group.collective, size, transport
        ))
        for size in sizes
    ]  # fmt: skip
    known = [(size, expected) for size, expected in found if expected is not None and expected.value > 0]
    if not known:
        return f"Nothing is known of {named}{f' ({transport})' if transport else ''}: nothing is expected of it here."
    origin = known[-1][1].provenance
    return ExpectedCurve(check, tuple(ExpectedAt(size, e.value, e.low) for size, e in known), str(origin))


def _floors(check: str, policy: Policy) -> Iterator[Floor]:
    line = policy.checks.get(check)
    for rule in line.rules if line else ():
        if rule.metric in (BUSBW, PEAK) and rule.over in (Over.SUBJECT, Over.CLUSTER):
            yield from _bounds(check, rule)


def _bounds(check: str, rule: Rule) -> Iterator[Floor]:
    for word, bound in (("FAIL below", rule.fail_below), ("WARN below", rule.warn_below)):
        if bound is not None:
            yield Floor(check, word, bound, rule.metric == PEAK, rule.source)
