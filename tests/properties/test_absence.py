"""For any report: whatever planned is taken away or made invalid, the verdict says so, and gets no better.

And the order of what is in a report does not count.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from checks.documents.report import load
from checks.facts import withheld_kernel_log
from checks.facts.builtin import builtin
from checks.judge.completeness import FAMILIES, GPUS
from checks.judge.verdict import decide
from checks.model import Answer, KernelLog, Level, Report
from tests.properties.shipped import CONFINED, Case, faulty, missed, says_so
from tests.properties.spoils import ROW_SPOILS, Document, lose_value, mixed, skipped, without_subjects

FAST = settings(max_examples=10)


def _copied(document: Document) -> Document:
    made: Document = json.loads(json.dumps(document))
    return made


@st.composite
def _row_taken(draw: st.DrawFn) -> Case:
    case = draw(faulty())
    after = _copied(case.before)
    name = draw(st.sampled_from(sorted(after["checks"])))
    spoil = draw(st.sampled_from(ROW_SPOILS))
    # A skip that the policy accepts is an answer, which leaves a WARN; nothing else is.
    assume(spoil is not skipped or not case.policy.checks[name].accept_skips)
    spoil(after["checks"][name], draw(st.integers(0, len(after["checks"][name]["subjects"]) - 1)))
    assume(after != case.before)
    return case.spoilt(name, spoil.__name__, after)


@FAST
@given(_row_taken())
def test_an_observation_that_is_lost_is_missed(case: Case) -> None:
    """Dropped, errored, skipped, doubled, empty or of a stranger: at least a WARN, cause EVIDENCE, and never better."""
    now = missed(case.judged, case.before, case.after)

    if case.policy.checks[case.check].required:
        assert now.level is Level.FAIL


@st.composite
def _value_taken(draw: st.DrawFn) -> Case:
    case = draw(faulty())
    after = _copied(case.before)
    name, what = lose_value(draw, after, case.policy.checks, case.kind)
    assume(after != case.before)
    return case.spoilt(name, what, after)


@FAST
@given(_value_taken())
def test_a_value_that_is_lost_is_missed(case: Case) -> None:
    """Null, empty, cut, of another type or out of range: at least a WARN, cause EVIDENCE, and never better."""
    missed(case.judged, case.before, case.after)


@FAST
@given(
    faulty(),
    st.integers(0, 10),
    st.sampled_from(["node", "rows of a node", "rank", "check", "metric", "plan", "a GPU"]),
)
def test_a_part_that_is_lost_is_missed(case: Case, index: int, part: str) -> None:
    """A node with or without its rows, a rank, a GPU, a check, a metric everywhere, a line of the plan: never better."""
    after = _copied(case.before)
    names = sorted(after["checks"])
    name = names[index % len(names)]
    _lose(after, case.policy.checks, name, index, part)
    assume(after != case.before)
    missed(case.judged, case.before, after)


def _lose(document: Document, lines: Any, name: str, index: int, part: str) -> None:
    if part in ("node", "rows of a node"):
        node = document["nodes"][index % len(document["nodes"])]["name"]
        if part == "node":
            document["nodes"] = [each for each in document["nodes"] if each["name"] != node]
        without_subjects(document, lambda subject: subject.partition("/")[0] == node)
    elif part == "rank":
        ranks = sorted({s for check in document["checks"].values() for s in check["subjects"] if "/" in s})
        without_subjects(document, lambda subject: subject == ranks[index % len(ranks)])
    elif part == "check":
        del document["checks"][name]
    elif part == "plan":
        document["plan"] = [line for line in document["plan"] if line["check"] != name]
    elif part == "metric":
        planned = [m for line in document["plan"] if line["check"] == name for m in line["metrics"]]
        document["checks"][name]["metrics"].pop(sorted(planned)[index % len(planned)], None)
    elif name.startswith(FAMILIES) and any(rule.each == GPUS for rule in lines[name].rules):
        for column in document["checks"][name]["metrics"].values():
            if isinstance(column[0], list) and len(column[0]) > 1:
                column[0] = column[0][:-1]


@FAST
@given(
    faulty(CONFINED),
    st.sets(st.sampled_from(sorted(withheld_kernel_log.STAND_INS)), min_size=1),
    st.sampled_from([*ROW_SPOILS, None]),
)
def test_missing_substitute_of_a_withheld_log_is_never_a_go(
    case: Case, names: set[str], spoil: Callable[[Document, int], None] | None
) -> None:
    """Any of it lost on one node, or left out of the plan and of the report: never a go, whatever the policy requires."""
    after = _copied(case.before)
    for name in names & after["checks"].keys():
        if spoil is None:
            del after["checks"][name]
            after["plan"] = [line for line in after["plan"] if line["check"] != name]
        else:
            spoil(after["checks"][name], 0)
    assume(after != case.before)
    now = case.judged(after)

    assert says_so(now)
    assert (Level.FAIL, False) == (now.level, now.answer is Answer.GO)


@FAST
@given(faulty(), st.sampled_from(list(KernelLog)))
def test_a_declaration_that_was_edited_is_never_the_better_one(case: Case, log: KernelLog) -> None:
    """Withheld made readable, or readable withheld: at least as bad as it was."""
    after = _copied(case.before)
    after["declared"]["kernel_log"] = log.value
    assume(after != case.before)
    missed(case.judged, case.before, after)


@settings(max_examples=6)
@given(faulty(), st.randoms(use_true_random=False))
def test_order_changes_nothing(case: Case, chance: Any) -> None:
    """Nodes, checks, columns and the rows of a check in any order give the same verdict, but for the file's digest."""
    shuffled = _copied(case.before)
    mixed(shuffled, chance)
    one, other = case.judged(case.before), case.judged(shuffled)

    assert replace(one, digests=other.digests) == other
    # A report that was never written is judged as the one that was.
    report = load(json.dumps(shuffled).encode())
    rows = tuple(chance.sample(list(report.observations), len(report.observations)))
    loose: Report = replace(report, observations=rows)
    again = decide(loose, case.policy, builtin(), case.baseline)
    assert replace(again, digests=other.digests) == other
