"""Reports of healthy machines name nobody, whatever noise and number; test_combined.py and test_tails.py have slow machines."""

from __future__ import annotations

import pytest

from tests.benchmarks.false_names import report
from tests.benchmarks.relative_rules import ours


def named(first: int, many: int, most: int) -> list[str]:
    """The titles of those of so many reports, of at most so many values, that name somebody."""
    drawn = (report(seed, most) for seed in range(first, first + many))
    return [title for title, ranks, cells in drawn if ours(cells, ranks)]


MANY = [pytest.mark.long, pytest.mark.timeout(1800)]
FEW = [(1000, 900, 300), (1900, 900, 300), (200_000, 200, 4000)]
BLOCKS = [pytest.param(at, 5000, 300, marks=MANY) for at in range(10_000, 30_000, 5000)]


@pytest.mark.parametrize(("first", "many", "most"), [*FEW, *BLOCKS])
def test_healthy_reports_of_any_noise_name_hardly_anybody(first: int, many: int, most: int) -> None:
    """At most one in a thousand."""
    assert max(1, many // 1000) >= len(named(first, many, most))


@pytest.mark.parametrize(
    "seed", [600356, 600821, 601062, 601812, 602309, 602528, 602829, 603025, 603579, 704264, 705934]
)
def test_healthy_reports_that_named_somebody_name_nobody(seed: int) -> None:
    """A limit that held whatever the noise, medians that were taken for less skewed than they are, and a machine of wider noise."""
    assert [] == named(seed, 1, 4000)
