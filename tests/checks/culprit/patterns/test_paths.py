"""Pairs that are slow for good: a few are links, many are a property of the fabric, and neither is a node."""

from __future__ import annotations

import random

import pytest

from checks.culprit.decode import decode
from checks.culprit.matrix import Answer, Kind, Matrix, Tolerance
from tests.checks.culprit.planted import all_pairs, matrix, named, nodes, ranks

HALF = Tolerance(0.5)
Pairs = set[frozenset[int]]


def colliding(share: float, number: int = 32, seed: int = 4) -> Pairs:
    rng = random.Random(seed)
    return {frozenset((a, b)) for a in range(number) for b in range(a) if rng.random() < share}


def measured(slow: Pairs, number: int = 32, bad_node: int = -1, again: int = 3) -> Matrix:
    """All pairs, and the bad ones again."""

    def is_bad(a: int, b: int) -> bool:
        return frozenset((a, b)) in slow or bad_node in (a, b)

    cells = all_pairs(nodes(number))
    return matrix(nodes(number), is_bad, cells=cells + again * [cell for cell in cells if is_bad(*cell)])


@pytest.mark.parametrize("share", [0.05, 0.15])
def test_many_slow_pairs_are_a_property_of_the_fabric(share: float) -> None:
    """No node or link is named; it is said how many pairs, and what they cost an exchange of all with all."""
    slow = colliding(share)
    found = decode(measured(slow), HALF)

    assert (Answer.NOBODY, ()) == (found.answer, found.suspects)
    assert found.paths is not None
    assert (len(slow), 32 * 31 / 2) == (found.paths.pairs, found.paths.every)
    # a bad test reaches 0.3 of the usual value, so that it takes 2.3 times as much time more
    assert len(slow) / 496 * (1 / 0.3 - 1) == pytest.approx(found.paths.cost, rel=0.03)


def test_a_bad_node_among_colliding_paths_is_named_alone() -> None:
    """It is bad towards all of its partners."""
    found = decode(measured(colliding(0.05), bad_node=7), HALF)

    assert {"node-7"} == {one.subject for one in found.suspects}
    assert found.paths is not None


def test_three_slow_pairs_are_links() -> None:
    """Broken cables, not the fabric."""
    found = decode(measured({frozenset((1, 2)), frozenset((5, 9)), frozenset((20, 30))}), HALF)

    assert {Kind.LINK} == {kind for kind, _, _ in named(found)} and 3 == len(found.suspects)
    assert found.paths is None


def test_slow_pairs_of_one_node_are_not_the_fabrics() -> None:
    """All of them have one end in common."""
    found = decode(measured({frozenset((3, other)) for other in range(20, 30)}), HALF)

    assert found.paths is None


def test_pairs_that_were_good_again_are_not_slow_for_good() -> None:
    """They were slow in one test of four."""
    slow = colliding(0.05)
    first = matrix(nodes(32), lambda a, b: frozenset((a, b)) in slow)
    cells = [cell for cell in all_pairs(nodes(32)) if frozenset(cell) in slow]
    again = matrix(nodes(32), cells=3 * cells)
    both = Matrix(
        first.what, first.unit, first.better, first.span, first.parts,
        [*first.sources, *again.sources], [*first.targets, *again.targets], [*first.values, *again.values],
    )  # fmt: skip

    assert decode(both, HALF).paths is None


def test_a_link_with_a_pair_on_each_rail_is_one_link() -> None:
    """Eight pairs of ranks are slow, between two nodes of four."""
    parts = ranks(4, 8)
    cells = all_pairs(parts)
    slow = [(a, b) for a, b in cells if {a // 8, b // 8} == {1, 2}]
    found = decode(matrix(parts, lambda a, b: (a, b) in slow, cells=cells + 3 * slow), HALF)

    assert {Kind.LINK} == {kind for kind, _, _ in named(found)} and found.paths is None
