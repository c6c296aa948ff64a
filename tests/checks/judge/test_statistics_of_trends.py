"""The statistics that the old rule for trends used, which the simulator compares with the new one."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.benchmarks.mann_kendall import mann_kendall, theil_sen


@pytest.mark.parametrize("many", [2, 3, 4, 5])
def test_the_exact_chance_is_what_counting_all_orders_gives(many: int) -> None:
    """Against every permutation."""
    orders = list(itertools.permutations(range(many)))
    scores = [mann_kendall(order)[0] for order in orders]
    for order, score in zip(orders, scores, strict=True):
        if score:
            as_far = sum(other >= score if score > 0 else other <= score for other in scores)
            assert mann_kendall(order)[1] == pytest.approx(as_far / len(orders))


def test_the_approximation_agrees_with_the_exact_chance() -> None:
    """With a tie, which the exact one does not take, close to the same without."""
    exact, tied = (
        mann_kendall([1, 2, 3, 5, 4, 6, 7, 8, 9, 10])[1],
        mann_kendall([1, 2, 3, 4, 4, 6, 7, 8, 9, 10])[1],
    )

    assert exact < 1e-4 and tied == pytest.approx(exact, abs=1e-3)


def test_equal_values_have_no_trend() -> None:
    """Neither side, for certain."""
    assert (0, 1.0) == mann_kendall([3.0] * 9)


@settings(max_examples=50)
@given(st.floats(-100, 100), st.lists(st.integers(0, 1000), min_size=5, max_size=20, unique=True))
def test_the_slope_of_a_line_is_its_own(slope: float, times: list[int]) -> None:
    """Also with one point of five that is wild."""
    times.sort()
    values = [slope * time for time in times]
    values[len(values) // 2] += 1e6

    assert theil_sen([float(time) for time in times], values) == pytest.approx(slope, abs=1e-6, rel=1e-6)
