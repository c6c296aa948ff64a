"""Pairs that are slow for good: a few are links, many are a property of the fabric, and neither is a node."""

from __future__ import annotations

import math
import random
from collections import Counter
from dataclasses import replace

import pytest

from checks.culprit.decode import decode
from checks.culprit.matrix import Entity, Matrix, MatrixAnswer, Tolerance
from tests.checks.culprit.planted import all_pairs, matrix, named, nodes, ranks, together

HALF = Tolerance(0.5)
Pairs = set[frozenset[int]]


def colliding(share: float, number: int = 32, seed: int = 4) -> Pairs:
    rng = random.Random(seed)
    return {frozenset((a, b)) for a in range(number) for b in range(a) if rng.random() < share}


def measured(slow: Pairs, number: int = 32, bad_node: int = -1) -> Matrix:
    """All pairs, and the bad ones again."""

    def is_bad(a: int, b: int) -> bool:
        return frozenset((a, b)) in slow or bad_node in (a, b)

    cells = all_pairs(nodes(number))
    return matrix(nodes(number), is_bad, cells=cells + 3 * [cell for cell in cells if is_bad(*cell)])


@pytest.mark.parametrize("share", [0.05, 0.15])
@pytest.mark.parametrize(("number", "seed"), [(32, 4), (64, 0), (64, 1)])
def test_many_slow_pairs_are_a_property_of_the_fabric(share: float, number: int, seed: int) -> None:
    """No node or link is named; it is said how many pairs, and what they cost an exchange of all with all."""
    slow = colliding(share, number, seed)
    found = decode(measured(slow, number), HALF)

    assert (MatrixAnswer.NOBODY, ()) == (found.answer, found.suspects)
    assert found.paths is not None
    assert (len(slow), math.comb(number, 2)) == (found.paths.pairs, found.paths.every)
    # a bad test reaches 0.3 of the usual value, so that it takes 2.3 times as much time more
    assert len(slow) / found.paths.every * (1 / 0.3 - 1) == pytest.approx(found.paths.cost, rel=0.03)


def test_a_bad_node_among_colliding_paths_is_named_alone() -> None:
    """It is bad towards all of its partners."""
    found = decode(measured(colliding(0.05), bad_node=7), HALF)

    assert {"node-7"} == {one.subject for one in found.suspects}
    assert found.paths is not None


def test_three_slow_pairs_are_links() -> None:
    """Broken cables, not the fabric."""
    found = decode(measured({frozenset((1, 2)), frozenset((5, 9)), frozenset((20, 30))}), HALF)

    assert {Entity.LINK} == {kind for kind, _, _ in named(found)} and 3 == len(found.suspects)
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

    assert decode(together(first, again), HALF).paths is None


def test_a_link_with_a_pair_on_each_rail_is_one_link() -> None:
    """Eight pairs of ranks are slow, between two nodes of four."""
    parts = ranks(4, 8)
    cells = all_pairs(parts)
    slow = [(a, b) for a, b in cells if {a // 8, b // 8} == {1, 2}]
    found = decode(matrix(parts, lambda a, b: (a, b) in slow, cells=cells + 3 * slow), HALF)

    assert {Entity.LINK} == {kind for kind, _, _ in named(found)} and found.paths is None


@pytest.mark.parametrize("value", [None, 0.01, 1.9])
def test_pairs_that_no_shared_link_explains_are_links(value: float | None) -> None:
    """Four cables are broken: no value, or less than a fifth of the usual rate; one in each direction is enough."""
    slow = {(2 * n, 2 * n + 1) for n in range(4)}
    cells = all_pairs(nodes(24))
    made = matrix(
        nodes(24), lambda a, b: (a, b) in slow, cells=cells + 3 * [*slow, *((b, a) for a, b in slow)],
        value=lambda _: value,
    )  # fmt: skip
    found = decode(made, HALF)

    assert found.paths is None
    assert {Entity.LINK} == {kind for kind, _, _ in named(found)} and 4 == len(found.suspects)


def test_pairs_below_the_floor_are_links() -> None:
    """The policy says what is too slow."""
    slow = measured({frozenset((2 * n, 2 * n + 1)) for n in range(6)})

    assert decode(slow, HALF).paths is not None
    found = decode(slow, Tolerance(0.5, floor=4.0))
    assert found.paths is None
    assert {Entity.LINK} == {kind for kind, _, _ in named(found)} and 6 == len(found.suspects)


@pytest.mark.parametrize("number", [32, 64])
@pytest.mark.parametrize("sick", [(5, 17), (5, 17, 30)])
def test_slow_pairs_of_a_few_nodes_are_not_the_fabrics(number: int, sick: tuple[int, ...]) -> None:
    """Each of these nodes is slow towards 44 % of its partners: chance does not gather pairs so."""
    rng = random.Random(number)
    slow = {
        frozenset((a, b))
        for a in sick
        for b in range(number)
        if a != b and (b in sick or rng.random() < 0.44)
    }
    found = decode(measured(slow, number), HALF)

    assert found.paths is None
    assert {f"node-{n}" for n in sick} <= {one.subject for one in found.suspects} or found.unexplained


@pytest.mark.parametrize("hiccup", [None, 0.5])
def test_a_pair_of_the_fabric_may_hiccup_once(hiccup: float | None) -> None:
    """One test in four of some of the pairs gave no value, or next to none: none of them is a broken link."""
    made = measured(colliding(0.15, 64), 64)
    values, times = list(made.values), Counter[tuple[int, int]]()
    for test, cell in enumerate(zip(made.sources, made.targets, strict=True)):
        times[cell] += 1
        if times[cell] == 2 and cell[0] < cell[1] and cell[0] % 8 == 0:
            values[test] = hiccup
    found = decode(replace(made, values=values), HALF)

    assert (MatrixAnswer.NOBODY, ()) == (found.answer, found.suspects)
    assert found.paths is not None
