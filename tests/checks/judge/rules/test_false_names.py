"""Reports of healthy machines name nobody, whatever noise and number; test_combined.py and test_tails.py have slow machines."""

from __future__ import annotations

import pytest

from tests.benchmarks.false_names import report
from tests.benchmarks.relative_rules import ours

LONG = [pytest.param(first, marks=pytest.mark.long) for first in range(600_000, 604_000, 500)]


@pytest.mark.parametrize("first", [200_000, 200_100, *LONG])
def test_at_most_one_healthy_report_in_a_thousand_names_a_machine(first: int) -> None:
    """Before the values of all checks said together how heavy the tails are, it was one in thirty."""
    many = 500 if first >= 600_000 else 100
    drawn = (report(seed, 4000) for seed in range(first, first + many))
    named = [title for title, ranks, cells in drawn if ours(cells, ranks)]

    assert len(named) <= many // 500, named
