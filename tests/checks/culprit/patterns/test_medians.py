"""Nodes that are a little slower than the others, from noise that was measured."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from checks.culprit.decode import decode
from checks.culprit.matrix import Decoded, Direction, Entity, Matrix, Tolerance
from tests.checks.culprit.planted import matrix, nodes

SHIPPED = Tolerance(0.7)


def uneven(
    number: int, spread: float, slow: dict[int, float], way: Direction = Direction.BOTH, seed: int = 2
) -> Matrix:
    """All pairs scatter log-normally; these nodes reach so much of the others."""
    rng = random.Random(seed)
    made = matrix(nodes(number))
    values = []
    for a, b in zip(made.sources, made.targets, strict=True):
        share = 1.0 if way is Direction.IN else slow.get(a, 1.0)
        share *= 1.0 if way is Direction.OUT else slow.get(b, 1.0)
        values.append(10 * share * rng.lognormvariate(0, spread))
    return replace(made, values=values)


def slow_ones(found: Decoded) -> set[tuple[str, Direction]]:
    assert all(one.kind is Entity.NODE for one in found.slow)
    return {(one.subject, one.way) for one in found.slow}


@pytest.mark.parametrize("number", [8, 16, 64])
@pytest.mark.parametrize("way", Direction)
def test_a_node_at_nine_tenths_is_named_with_its_way(number: int, way: Direction) -> None:
    """Its tests are good by the policy's ratio; the noise is 2 %."""
    found = decode(uneven(number, 0.02, {3: 0.9}, way), SHIPPED)

    assert ({("node-3", way)}, ()) == (slow_ones(found), found.suspects)
    assert 0.9 == pytest.approx(found.slow[0].ratio or 0, abs=0.02)
    assert found.slow[0].probability > 0.95


@pytest.mark.parametrize("spread", [0.0, 0.02, 0.08, 0.4])
@pytest.mark.parametrize(("number", "seeds"), [(8, 8), (16, 8), (64, 1)])
def test_good_nodes_are_not_slow_and_have_no_slow_half(number: int, seeds: int, spread: float) -> None:
    """However much the tests scatter."""
    for seed in range(seeds):
        found = decode(uneven(number, spread, {}, seed=seed), SHIPPED)
        assert ((), None) == (found.slow, found.many_slower)


def test_the_least_slowness_that_would_have_been_seen_follows_from_the_noise() -> None:
    """Never less than what healthy nodes differ by for good."""
    seen = [
        decode(uneven(16, spread, {}), SHIPPED).seen_from.get(Entity.NODE, 0)
        for spread in (0.0, 0.02, 0.08, 0.4)
    ]

    assert sorted(seen) == seen
    assert 0.05 == pytest.approx(seen[0], abs=0.001)
    assert seen[1] < 0.1 < seen[3]


def test_slow_nodes_are_found_as_often_as_the_printed_slowness_says() -> None:
    """Nine times of ten, or more often."""
    seen = decode(uneven(16, 0.05, {}), SHIPPED).seen_from.get(Entity.NODE, 0)
    found = [decode(uneven(16, 0.05, {5: 1 - seen}, seed=seed), SHIPPED) for seed in range(20)]

    assert sum(slow_ones(one) == {("node-5", Direction.BOTH)} for one in found) >= 16


def test_if_half_of_the_nodes_are_slower_none_is_named() -> None:
    """There is no usual speed then."""
    assert () == decode(uneven(16, 0.02, dict.fromkeys(range(7), 0.85)), SHIPPED).slow


def test_a_node_that_is_named_already_is_not_named_twice() -> None:
    """A node at a third is bad by the policy's ratio."""
    found = decode(uneven(16, 0.02, {3: 0.33, 8: 0.9}), SHIPPED)

    assert {"node-3"} == {one.subject for one in found.suspects}
    assert {("node-8", Direction.BOTH)} == slow_ones(found)
