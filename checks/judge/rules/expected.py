"""Rules over = "expected": compares what was measured with what the facts expect of the declared machine. Pure.

There is one finding per subject, about its worst element, or one for a node or the cluster if all of its subjects are slow. A
subject that is slow while others are not has a fault of its own (HARDWARE). If all are equally slow, the reason is what they share:
a setting, a driver, the fabric (CONFIGURATION), but a subject that is far slower than the others has a fault of its own; a part
without peers cannot be told from its settings. A value above the roofline was measured wrongly and is no speed (EVIDENCE). If no
expected value is known, one finding says so.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from statistics import median_high
from typing import Any, cast

from checks.documents.columns import CheckTable
from checks.judge.not_measured import not_measured
from checks.judge.rules.expected_questions import ExpectedQuestion, questions
from checks.judge.rules.expected_values import Expected
from checks.judge.rules.prefilter import parts_of, span
from checks.judge.rules.values import RuleContext, cells_of, crossing
from checks.judge.rules.wording import bounded, noun_of, subject_text, unit_of
from checks.model import CLUSTER, Cause, Finding, FindingKind, Level, Observation, node_of
from checks.model_details import Comparison, Reference, Relation, Unmeasured
from checks.policy import Expect, Rule
from checks.value_types import listed_names

LEARN = 'Learn a baseline: prelaunch fleet baseline learn REPORT... --out FILE. In the gate file, write [policy] baseline = "FILE".'
# If the low end of an expected value is further below it than this share, the threshold is computed from the low end: half of what
# the WARN line (0.90) leaves for the run-to-run spread of healthy machines.
WIDE = 0.95
NUMBERS, MOST = frozenset((int, float)), 1e300


@dataclass(frozen=True)
class _Mark:
    """One element of a subject that is not as expected: `ratio` to the expected value, or to the roofline."""

    records: Sequence[Observation]
    position: int
    subject: str
    index: int
    value: float
    question: ExpectedQuestion
    expected: Expected
    level: Level
    ratio: float
    above: bool

    @property
    def record(self) -> Observation:
        """The observation, which is made only for marks that are reported."""
        return self.records[self.position]


@dataclass(frozen=True)
class _Plan:
    """The questions about rows that were measured in the same way; `wanted` are the elements that have an expected value."""

    questions: Sequence[ExpectedQuestion]
    fault: str
    wanted: Sequence[tuple[int, Expected]]


@dataclass
class _Collected:
    """The elements that are not as expected, the subjects whose numbers were compared, and the questions."""

    marks: list[_Mark] = field(default_factory=list)
    compared: list[str] = field(default_factory=list)
    plans: list[_Plan] = field(default_factory=list)


def judge(
    check: str, rule: Rule, records: Sequence[Observation], context: RuleContext, blind: Level
) -> Iterator[Finding]:
    """The findings of a rule over expected values. One finding says that no expected value is known, if that is so."""
    collected = _by_columns(check, rule, records, context) if isinstance(records, CheckTable) else None
    if collected is None:
        collected = _Collected()
        yield from _one_by_one(check, rule, records, context, blind, collected)
    yield from _spoken(check, rule, _worst(collected.marks), collected.compared)
    yield from _unknown(check, rule, [plan.questions for plan in collected.plans])


def _by_columns(check: str, rule: Rule, records: CheckTable, context: RuleContext) -> _Collected | None:
    """The result is that of `_one_by_one`, computed by columns, if all rows are numbers that were measured in the same way. It is None
    if a value may have a finding.
    """
    column, labels = records.column(rule.metric), records.column(rule.at)
    columns = parts_of(column)
    if columns is None or labels.count(labels[0]) < len(labels) or len(_kinds(records.objects(rule.at))) > 1:
        return None
    plan = _plan(questions(check, rule, records[0], context))
    if plan.fault or any(span(values) is None for values in columns):
        return None
    odd: set[int] = set()
    for index, expected in plan.wanted:
        values = columns[index]
        # A greater number has a greater ratio, so everything between two acceptable values is acceptable.
        if any(_held(rule, value, expected)[0] is not Level.PASS for value in (min(values), max(values))):
            odd |= {i for i, v in enumerate(values) if _held(rule, v, expected)[0] is not Level.PASS}
    marks = [
        mark
        for at in sorted(odd)
        for mark in _marks(rule, records, at, [values[at] for values in columns], plan, plan.wanted)
    ]
    return _Collected(marks, list(records.columns.subjects) if plan.wanted else [], [plan])


def _kinds(labels: Sequence[Any]) -> set[type]:
    """The types of the values: 1.0 equals 1, but is not a size."""
    return set(map(type, chain.from_iterable(label for label in labels if type(label) is tuple)))


def _one_by_one(
    check: str,
    rule: Rule,
    records: Sequence[Observation],
    context: RuleContext,
    blind: Level,
    collected: _Collected,
) -> Iterator[Finding]:
    plans: dict[object, _Plan] = {}
    for index, record in enumerate(records):
        value, labels = record.metrics.get(rule.metric), record.metrics.get(rule.at)
        items = value if isinstance(value, tuple) else (value,)
        # 1.0 equals 1, but is not a size: the labels of one row must not be used for another.
        key = (*((labels, *map(type, labels)) if isinstance(labels, tuple) else ()), len(items))
        if key not in plans:  # thousands of ranks are measured at the same sizes
            plans[key] = _plan(questions(check, rule, record, context))
        plan = plans[key]
        sound = _are_numbers(items)
        if plan.fault or not sound:
            fault = cells_of(rule, record)[1] or Unmeasured("", plan.fault)
            yield not_measured(check, record.subject, fault, blind, record.evidence)
        wanted = [pair for pair in plan.wanted if sound or _are_numbers((items[pair[0]],))]
        collected.compared += [record.subject] if wanted else []
        collected.marks += _marks(rule, records, index, items, plan, wanted)
    collected.plans += plans.values()


def _plan(response: Sequence[ExpectedQuestion] | str) -> _Plan:
    if isinstance(response, str):
        return _Plan((), response, ())
    pairs = ((index, question.expected) for index, question in enumerate(response))
    return _Plan(response, "", [(index, expected) for index, expected in pairs if expected is not None])


def _are_numbers(items: Sequence[object]) -> bool:
    if not items or not NUMBERS.issuperset(map(type, items)):
        return False
    numbers = cast("Sequence[float]", items)
    return -MOST < min(numbers) and max(numbers) < MOST


def _marks(
    rule: Rule,
    records: Sequence[Observation],
    at: int,
    items: Sequence[object],
    plan: _Plan,
    wanted: Sequence[tuple[int, Expected]],
) -> Iterator[_Mark]:
    subject = records.columns.subjects[at] if isinstance(records, CheckTable) else records[at].subject
    for index, expected in wanted:
        value: float = items[index]  # type: ignore[assignment]
        level, ratio, above = _held(rule, value, expected)
        if level is not Level.PASS:
            yield _Mark(
                records, at, subject, index, value, plan.questions[index], expected, level, ratio, above
            )


def _held(rule: Rule, value: float, expected: Expected) -> tuple[Level, float, bool]:
    """The level, the ratio from which it follows, and whether that is a ratio to the roofline."""
    above = expected.most is not None and value > expected.most
    ratio = value / expected.most if above and expected.most else value / _reference(expected)
    crossed = _line(rule, ratio, expected)
    level = crossed[0] if crossed else Level.PASS
    return Level.FAIL if above else level, ratio, above


def _reference(expected: Expected) -> float:
    return expected.low if _is_wide(expected) else expected.value


def _is_wide(expected: Expected) -> bool:
    return expected.low < WIDE * expected.value


def _comparison(rule: Rule, mark: _Mark) -> Comparison:
    expected, unit = mark.expected, unit_of(rule.metric)
    if mark.above and expected.most is not None:
        return Comparison(mark.value, unit, Relation.ABOVE, expected.most, Reference.POSSIBLE)
    reference = Reference.EXPECTED
    if expected.is_floor:
        reference = Reference.MINIMUM
    elif expected.is_limit:
        reference = Reference.LIMIT
    elif _is_wide(expected):
        reference = Reference.LOW_END
    _, relation, line = _line(rule, mark.ratio, expected) or (mark.level, Relation.BELOW, 1.0)
    return Comparison(mark.value, unit, relation, line, reference, _reference(expected))


def _element(rule: Rule, mark: _Mark) -> str:
    """The label of the element: of the metric's own list, or how it was measured."""
    if mark.question.label:
        return mark.question.label
    return next((cell.element for cell in cells_of(rule, mark.record)[0] if cell.index == mark.index), "")


def _line(rule: Rule, ratio: float, expected: Expected) -> tuple[Level, Relation, float] | None:
    """The threshold that was crossed, as in `crossing`. A published limit is used as it is, and has no WARN range above it."""
    if expected.is_limit:
        return (Level.FAIL, Relation.BELOW, 1.0) if ratio < 1 else None
    return crossing(rule, ratio)


def _worst(marks: Sequence[_Mark]) -> list[_Mark]:
    """One mark per subject: an impossible value first, then the worst level, then the smallest ratio."""
    best: dict[str, _Mark] = {}
    for mark in marks:
        held = best.get(mark.subject)
        if held is None or _rank(mark) < _rank(held):
            best[mark.subject] = mark
    return list(best.values())


def _rank(mark: _Mark) -> tuple[object, ...]:
    return (not mark.above, -mark.level.rank, -mark.ratio if mark.above else mark.ratio)


def _spoken(check: str, rule: Rule, marks: Sequence[_Mark], compared: Sequence[str]) -> Iterator[Finding]:
    for cause, some, among in _by_cause(rule, marks, compared) if marks else ():
        for subject, group in _grouped(some, among).items():
            worst = min(group, key=lambda mark: (_rank(mark), mark.subject))
            crossed, element = _comparison(rule, worst), _element(rule, worst)
            text, is_predicate = bounded(check, rule.metric, element, crossed)
            if len(group) > 1:
                it = f"it {text}" if is_predicate else text
                others = " others" if len(among) < len(compared) else ""
                text, is_predicate = (
                    f"all {len(group)}{others} are affected; the worst is {subject_text(worst.subject)}: {it}",
                    False,
                )
            draft = Finding(
                worst.level, cause, check, subject, text, worst.record.evidence, rule.remedy,
                elements=(element,) if element and not worst.question.label else (),
                is_predicate=is_predicate, compared=crossed,
            )  # fmt: skip
            yield draft if cause is Cause.EVIDENCE else replace(draft, source=str(worst.expected.provenance))


def _grouped(marks: Sequence[_Mark], compared: Sequence[str]) -> dict[str, list[_Mark]]:
    """The marks by the subject of their finding: the cluster or a node if all of it is slow, else each subject by itself."""
    if len(marks) > 1 and len(marks) == len(compared):
        return {CLUSTER: list(marks)}
    of_node: dict[str, int] = {}
    for subject in compared:
        of_node[node_of(subject)] = of_node.get(node_of(subject), 0) + 1
    slow: dict[str, list[_Mark]] = {}
    for mark in marks:
        slow.setdefault(node_of(mark.subject), []).append(mark)
    groups: dict[str, list[_Mark]] = {}
    for node, group in slow.items():
        if len(group) > 1 and len(group) == of_node[node]:
            groups[node] = group
        else:
            groups.update({mark.subject: [mark] for mark in group})
    return groups


def _by_cause(
    rule: Rule, marks: Sequence[_Mark], compared: Sequence[str]
) -> Iterator[tuple[Cause, list[_Mark], Sequence[str]]]:
    """The marks of each cause, and the subjects among which they are grouped. The ranks of a collective share one time, so that nodes
    are compared, not ranks. Beside a common cause a part has a fault of its own if it would also fail in comparison with the others.
    """
    part_of: Callable[[str], str] = node_of if rule.expect is Expect.COLLECTIVE else str
    yield Cause.EVIDENCE, [mark for mark in marks if mark.above], compared
    slow = [mark for mark in marks if not mark.above]
    whole = set(map(part_of, compared))
    # The smallest ratio of each part comes last.
    ratios = {part_of(mark.subject): mark.ratio for mark in sorted(slow, key=lambda mark: -mark.ratio)}
    least = (rule.fail_below or 0.0) * median_high(ratios.values() or (0.0,))
    if len(whole) > 1 and 2 * len(ratios) <= len(whole):
        least = math.inf
    own = {name for name, ratio in ratios.items() if ratio < least}
    yield Cause.HARDWARE, [mark for mark in slow if part_of(mark.subject) in own], compared
    others = [subject for subject in compared if part_of(subject) not in own]
    yield Cause.CONFIGURATION, [mark for mark in slow if part_of(mark.subject) not in own], others


def _unknown(check: str, rule: Rule, plans: Sequence[Sequence[ExpectedQuestion]]) -> Iterator[Finding]:
    every = [question for plan in plans for question in plan if question.about]
    judged: dict[str, bool] = {}
    for question in every:
        judged[question.about] = judged.get(question.about, False) or question.expected is not None
    nothing = sorted(text for text, is_known in judged.items() if not is_known)
    floor = sorted(
        {
            q.about
            for q in every
            if q.expected is not None and q.expected.is_floor and (q.too_small or not rule.accept_floor)
        }
    )
    too_small = {question.about for question in every if question.too_small}
    for about, held in (
        (nothing, "was not judged"),
        (floor, "was only compared with the minimum for its links"),
    ):
        if about:
            message = f"{noun_of(check, rule.metric)} {held}, because there is no baseline: {listed_names(about, 8)}"
            small = not too_small.isdisjoint(about)
            category = FindingKind.ONLY_SMALL_MESSAGES if small else FindingKind.NO_BASELINE
            yield Finding(Level.WARN, Cause.EVIDENCE, check, CLUSTER, message, "", LEARN, kind=category)
