"""Whoever is bad nearly everywhere: the fabric, and no part of it."""

from __future__ import annotations

import pytest

from checks.culprit.decode import decode
from checks.culprit.matrix import Better, Direction, Endpoint, Entity, Matrix, MatrixAnswer, Span, Tolerance
from tests.checks.culprit.planted import all_pairs, matrix, named, nodes

HALF = Tolerance(0.5)


def test_decoder_blames_the_fabric_for_equal_slowness_only_below_a_floor() -> None:
    """Without a floor no part is worse than the rest; below it no part is named, but the fabric."""
    slow = matrix(nodes(8), lambda a, b: True)

    assert MatrixAnswer.NOBODY is decode(slow, HALF).answer
    decoded = decode(slow, Tolerance(0.5, floor=5.0))
    assert (MatrixAnswer.FABRIC, ()) == (decoded.answer, decoded.suspects)
    assert (56, 5.0) == (len(decoded.bad), decoded.noise.line)


def test_half_slow_is_the_fabric() -> None:
    """More nodes than may be unfit are not named, but listed."""
    decoded = decode(matrix(nodes(8), lambda a, b: min(a, b) < 4), HALF)

    assert MatrixAnswer.FABRIC is decoded.answer
    assert {f"node-{n}" for n in range(4)} == {one.subject for one in decoded.suspects}
    three = decode(matrix(nodes(8), lambda a, b: min(a, b) < 3), Tolerance(0.5, max_unfit_fraction=0.4))
    assert {f"node-{n}" for n in range(3)} == {subject for _, subject, _ in named(three)}


def test_most_nodes_slow_is_the_fabric() -> None:
    """Where the slow ones are the many, the few that reach more than is usual give it away."""
    assert MatrixAnswer.FABRIC is decode(matrix(nodes(16), lambda a, b: min(a, b) < 10), HALF).answer


def test_near_partners_are_no_fault() -> None:
    """Pairs under one switch that nobody told of are faster, and no node is blamed for the others."""
    assert MatrixAnswer.NOBODY is decode(matrix(nodes(32), lambda a, b: a // 4 != b // 4), HALF).answer


def test_a_cut_between_two_groups_blames_no_node() -> None:
    """Four nodes that reach each other well and nobody else are no four bad nodes."""
    decoded = decode(matrix(nodes(16), lambda a, b: (a < 4) != (b < 4)), HALF)

    assert MatrixAnswer.FABRIC is decoded.answer


def inside(*slow: float) -> Matrix:
    """Two nodes of two ranks; rank 3 to rank 2 was measured so often, both directions each time."""
    parts = tuple(Endpoint(f"rank {rank}", f"node-{rank // 2}", rank % 2) for rank in range(4))
    tests = [(0, 1, 0.5), (1, 0, 0.5), *((3, 2, value) for value in slow), *[(2, 3, 0.5)] * len(slow)]
    sources, targets, values = zip(*tests, strict=True)
    return Matrix("bandwidth", "GB/s", Better.HIGHER, Span.INSIDE, parts, sources, targets, values)


def test_slow_direction_of_one_pair_is_not_the_fabric() -> None:
    """It is one test of four, and a quarter of all that there is; it is unexplained until it was measured again."""
    floor = Tolerance(0.1, floor=0.02)
    once = decode(inside(0.015), floor)

    assert (MatrixAnswer.UNEXPLAINED, {(2, 3), (3, 2)}) == (once.answer, set(once.confirm))
    assert MatrixAnswer.NOBODY is decode(inside(0.015, 0.4, 0.4, 0.4), floor).answer
    assert [Entity.LINK] == [one.kind for one in decode(inside(*[0.015] * 4), floor).suspects]


def test_measuring_bad_cells_again_makes_no_fabric() -> None:
    """What counts is how many cells are bad, not how often they were measured."""
    parts = nodes(4)
    slow = [cell for cell in all_pairs(parts) if 2 in cell]
    again = all_pairs(parts) + 5 * slow
    link = all_pairs(parts) + 9 * [(0, 1)]
    three = all_pairs(parts[:3]) + 5 * slow[:4]

    floor = Tolerance(0.5, floor=5.0)
    assert {(Entity.NODE, "node-2", Direction.BOTH)} == named(
        decode(matrix(parts[:3], lambda a, b: 2 in (a, b), cells=[c for c in three if 3 not in c]), floor)
    )
    assert {(Entity.NODE, "node-2", Direction.BOTH)} == named(
        decode(matrix(parts, lambda a, b: 2 in (a, b), cells=again), HALF)
    )
    assert {(Entity.LINK, "node-0<->node-1", Direction.OUT)} == named(
        decode(matrix(parts, lambda a, b: (a, b) == (0, 1), cells=link), HALF)
    )


@pytest.mark.parametrize("share", [27, 33, 45])
def test_decoder_blames_the_fabric_for_frequent_random_hiccups(share: int) -> None:
    """Where every third test is bad at random, nobody is picked out."""
    decoded = decode(matrix(nodes(16), lambda a, b: (a * 7919 + b * 104729) % 1009 % 100 < share), HALF)

    assert MatrixAnswer.FABRIC is decoded.answer
