"""For any report: order does not count."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from checks.documents.report import load
from checks.facts.builtin import builtin
from checks.judge.verdict import decide
from checks.model import Report
from tests.properties.shipped import Case, faulty
from tests.properties.spoils import Document, mixed

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
