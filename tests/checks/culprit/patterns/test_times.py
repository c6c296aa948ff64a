"""What time tells: congestion of a while is nobody's fault, and a node that is bad for some of the time is."""

from __future__ import annotations

import random

import pytest

from checks.culprit.decode import decode
from checks.culprit.matrix import Direction, Entity, MatrixAnswer, Tolerance
from tests.checks.culprit.planted import IsBad, named, on_rails, sweep

HALF = Tolerance(0.5)


def leaf_congested(first: int, last: int, seed: int = 3) -> IsBad:
    """Nodes 8 to 15 lose half of what leaves or enters their leaf in these rounds."""

    def is_bad(a: int, b: int, at: int) -> bool:
        crosses = (8 <= a < 16) != (8 <= b < 16)
        return first <= at <= last and crosses and random.Random(f"{seed} {a} {b} {at}").random() < 0.5

    return is_bad


@pytest.mark.parametrize("leaf", [0, 8])
def test_congestion_of_a_leaf_is_an_explanation_of_its_own(leaf: int) -> None:
    """No node is blamed; the rounds and the nodes are said, and the leaf if it is known. What was bad is asked for again."""
    found = decode(sweep(32, leaf_congested(10, 25), leaf=leaf), HALF)

    assert () == found.suspects
    (one,) = found.congestion
    assert 9 <= one.first <= 12 and 23 <= one.last <= 27
    assert {f"node-{n}" for n in range(8, 16)} == set(one.nodes)
    assert ("leaf-1" if leaf else "") == one.switch
    assert set(one.tests) <= set(found.bad) and len(one.tests) >= 0.95 * len(found.bad)
    assert found.confirm and MatrixAnswer.UNEXPLAINED is found.answer


def test_congestion_that_has_passed_leaves_nothing_to_explain() -> None:
    """The retests were good; what it cost is a number."""
    found = decode(sweep(32, leaf_congested(10, 25), again=1), HALF)

    assert (MatrixAnswer.NOBODY, ()) == (found.answer, found.unexplained)
    assert 0 < found.cost < 0.3


def test_a_bad_node_under_a_congested_leaf_is_named_alone() -> None:
    """It is bad before and after as well."""
    congested = leaf_congested(10, 25)
    found = decode(sweep(32, lambda a, b, at: 9 in (a, b) or congested(a, b, at), again=1), HALF)

    assert {(Entity.NODE, "node-9", Direction.BOTH)} == named(found)


def test_a_leaf_that_is_always_bad_is_no_congestion() -> None:
    """There is no time at which it was good."""
    found = decode(sweep(32, lambda a, b, at: (8 <= a < 16) != (8 <= b < 16), again=1, leaf=8), HALF)

    assert ({(Entity.SWITCH, "leaf-1", Direction.BOTH)}, ()) == (named(found), found.congestion)


def _sick(*spells: tuple[int, int], node: int = 5) -> IsBad:
    return lambda a, b, at: node in (a, b) and any(first <= at <= last for first, last in spells)


@pytest.mark.parametrize("spells", [((10, 16),), ((3, 6), (20, 24))])
def test_a_spell_of_one_node_is_that_nodes(spells: tuple[tuple[int, int], ...]) -> None:
    """It was bad towards everybody whom it met in that time, and nobody else was; no link is blamed."""
    found = decode(sweep(32, _sick(*spells), again=1), HALF)

    assert {("node-5",)} == {one.nodes for one in found.suspects}
    assert Entity.NODE is found.suspects[0].kind
    assert () == found.congestion


def test_without_rounds_a_spell_is_a_bad_moment() -> None:
    """Where the report does not say when, nobody is blamed for what was good when it was measured again."""
    known = decode(sweep(32, _sick((10, 16)), again=2), HALF)
    unknown = decode(sweep(32, _sick((10, 16)), again=2, known=False), HALF)

    assert known.suspects and MatrixAnswer.NOBODY is unknown.answer


def test_retests_that_are_bad_do_not_make_a_spell() -> None:
    """Eight links of good nodes are measured again in a row of rounds, in which their ends are bad each time."""
    links = {(n, n + 16) for n in range(8)}
    found = decode(sweep(32, lambda a, b, at: (min(a, b), max(a, b)) in links, again=3), HALF)

    assert () == found.congestion
    assert {one.kind for one in found.suspects} <= {Entity.LINK}


@pytest.mark.parametrize("seed", range(2))
def test_hiccups_are_no_periods(seed: int) -> None:
    """Two tests in a hundred, at random."""
    found = decode(sweep(32, lambda a, b, at: random.Random(f"{seed} {a} {b} {at}").random() < 0.02), HALF)

    assert ((), ()) == (found.congestion, found.suspects)


@pytest.mark.parametrize(("first", "last"), [(19, 999), (4, 28)])
def test_unended_trouble_is_not_called_congestion(first: int, last: int) -> None:
    """Three nodes are bad until the end of the sweep, or for most of it."""
    found = decode(sweep(32, lambda a, b, at: first <= at <= last and bool({a, b} & {5, 9, 20})), HALF)

    assert () == found.congestion
    assert {"node-5", "node-9", "node-20"} == {one.subject for one in found.suspects} or found.unexplained


def test_congestion_at_the_end_of_the_sweep_has_passed_if_the_retests_are_good() -> None:
    """The retests come later, each in a round of its own."""
    made = sweep(32, leaf_congested(20, 30), again=4)

    assert decode(made, HALF).congestion
    assert (MatrixAnswer.NOBODY, ()) == ((found := decode(made, HALF)).answer, found.suspects)


def test_congestion_of_a_leaf_is_one_period_on_eight_rails() -> None:
    """Half of the tests between nodes 0 to 3 and the others are slow in these rounds. Once in a sweep each node meets one of its own
    leaf, and 64 tests are good: that is one round, and not the end of the congestion.
    """

    def is_bad(a: int, b: int, at: int, rng: random.Random) -> bool:
        return 12 <= at <= 42 and (a < 4) != (b < 4) and rng.random() < 0.4

    found = decode(on_rails(10, is_bad), HALF)

    assert [(12, 42)] == [(one.first, one.last) for one in found.congestion]
    assert MatrixAnswer.NOBODY is found.answer
