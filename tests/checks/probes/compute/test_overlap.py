"""compute.overlap: in a real world of two ranks, what is wrong while both are busy is found and named."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from checks.check import CheckError, RankPlace
from checks.probes.compute import overlap
from tests.checks.local_policy import findings, verdicts
from tests.checks.worlds import context
from tests.fakes import compute as fakes

Worlds = Mapping[str, list[Mapping[str, Any]]]


def test_two_ranks_compute_and_communicate(world: Worlds) -> None:
    """Nothing is wrong, and all that is promised is there."""
    rows = world["overlap/healthy"]

    assert [row["fault"] for row in rows] == ["", ""]
    assert [(row["wrong_products"], row["wrong_sums"]) for row in rows] == [(0, 0), (0, 0)]


def test_overlap_check_names_the_rank_with_a_wrong_sum(world: Worlds) -> None:
    """One element a round, on one rank."""
    rows = world["overlap/one_element"]

    assert [row["wrong_sums"] for row in rows] == [0, 4]  # three rounds and the one that warms up
    assert ["node-0/rank-1"] == [finding.subject for finding in findings("compute.overlap", *rows)]


@pytest.mark.parametrize("sabotage", ["identity", "doubled"])
def test_sums_that_are_not_sums_fail(world: Worlds, sabotage: str) -> None:
    """A collective that does nothing, or too much, is wrong everywhere."""
    found = verdicts("compute.overlap", *world[f"overlap/{sabotage}"])

    wrong = ("FAIL", "HARDWARE", "wrong_sums")
    assert [wrong] * 2 == [verdict for verdict in found if verdict[1] == "HARDWARE"]


def test_more_ranks_than_sums_are_exact_for_are_refused(tmp_path: Any) -> None:
    """Where a right sum could look wrong, nothing is measured."""
    place = RankPlace(0, 0, 20_000, "cpu")

    with fakes.group_of_one(tmp_path), pytest.raises(CheckError, match="not exact"):
        overlap.overlap.body(context(place=place))


def test_a_slow_link_raises_the_number_of_products(tmp_path: Any) -> None:
    """They last about as long as the sum, within bounds, and at least one is made."""
    place = RankPlace(0, 0, 1, "cpu")

    with fakes.group_of_one(tmp_path):
        assert [overlap._agreed(x, place) for x in (0.01, 3.4, 1e9)] == [1, 3, overlap.MOST_PRODUCTS]
