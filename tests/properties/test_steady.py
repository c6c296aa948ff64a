"""For any report: order does not count, judging twice is the same to the byte, and nothing bad ever helps."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from checks.documents.report import load
from checks.facts.builtin import builtin
from checks.judge.verdict import decide
from checks.model import Report
from checks.policy import Over
from tests.properties.shipped import Case, faulty
from tests.properties.spoils import Document, bad, mixed

FAST = settings(max_examples=6)


@FAST
@given(faulty(), st.randoms(use_true_random=False))
def test_order_changes_nothing(case: Case, chance: Any) -> None:
    """Nodes, checks, columns and the rows of a check in any order give the same verdict, but for the file's digest."""
    shuffled: Document = json.loads(json.dumps(case.before))
    mixed(shuffled, chance)
    one, other = case.judged(case.before), case.judged(shuffled)

    assert replace(one, digests=other.digests) == other
    # A report that was never written is judged as the one that was.
    report = load(json.dumps(shuffled).encode())
    rows = tuple(chance.sample(list(report.observations), len(report.observations)))
    loose: Report = replace(report, observations=rows)
    again = decide(loose, case.policy, builtin(), case.baseline)
    assert replace(again, digests=other.digests) == other


@FAST
@given(faulty(), st.integers(0, 10_000))
def test_a_value_gone_bad_never_helps(case: Case, index: int) -> None:
    """One more value out of its bounds: the level gets no better."""
    after: Document = json.loads(json.dumps(case.before))
    name = sorted(after["checks"])[index % len(after["checks"])]
    bounded = {
        rule.metric
        for rule in case.policy.checks[name].rules
        if rule.over in (Over.SUBJECT, Over.EXPECTED) and (rule.equals == 0 or rule.fail_below is not None)
    }
    metrics = {
        metric: column for metric, column in after["checks"][name]["metrics"].items() if metric in bounded
    }
    assume(metrics)
    column = metrics[sorted(metrics)[index % len(metrics)]]
    column[index % len(column)] = bad(column[index % len(column)])

    assert case.judged(after).level.rank >= case.judged(case.before).level.rank
