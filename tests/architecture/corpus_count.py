"""How much of the fault corpus ran and what came of it, in one line at the end: tests record it, the controller adds up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import pytest

CASE, MUTATIONS = "corpus", "mutations"


def counted(reports: Iterable[pytest.TestReport]) -> str:
    """The line, from what the tests that ran recorded; "" if none did."""
    cases, checks = Counter[tuple[str, bool]](), set[str]()
    mutated, wrong, excused = 0, 0, 0
    for report in reports:
        for name, value in report.user_properties:
            if name == CASE and isinstance(value, (list, tuple)):
                check, sort, level = map(str, value)
                checks.add(check)
                cases[sort, level == "PASS"] += 1
            elif name == MUTATIONS and isinstance(value, (list, tuple)):
                mutated, wrong, excused = (
                    total + int(n) for total, n in zip((mutated, wrong, excused), value, strict=True)
                )
    if not cases and not mutated:
        return ""
    wrongly = cases["faulty", True] + cases["unmeasurable", True]
    return (
        f"fault corpus: {len(checks)} checks, {cases.total():,} cases: {cases['healthy', True]} healthy passed, "
        f"{cases['faulty', False]} faulty and {cases['unmeasurable', False]} unmeasurable refused, "
        f"{wrongly} passed wrongly; {mutated:,} mutated recordings: {mutated - wrong - excused:,} refused, "
        f"{excused} passed that lost nothing but lines without evidence, {wrong} passed wrongly"
    )
