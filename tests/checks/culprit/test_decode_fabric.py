"""Whoever is bad nearly everywhere is the fabric and no part of it; a link that is good at times is named for several times alone."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pytest

from checks.culprit.decode import decode
from checks.culprit.matrix import Better, Direction, Endpoint, Entity, Matrix, MatrixAnswer, Span, Tolerance
from tests.benchmarks.localising.cluster import Cluster, Fault
from tests.benchmarks.localising.noise import CALM, Noise
from tests.benchmarks.localising.ours import swept
from tests.benchmarks.localising.pair_worlds import congested
from tests.benchmarks.localising.world import World
from tests.checks.culprit.planted import BAD, GOOD, all_pairs, matrix, named, nodes, on_rails, ranks

HALF = Tolerance(0.5)

LINK = [(3, 9), (9, 3)]


def _at_random(percent: int) -> Callable[[int, int], bool]:
    return lambda a, b: (a * 7919 + b * 104729) % 1009 % 100 < percent


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


@pytest.mark.parametrize(
    "made",
    [
        # Where the slow ones are the many, the few that reach more than is usual give it away.
        matrix(nodes(16), lambda a, b: min(a, b) < 10),
        # Two rails of three, or three of four, are no broken rails.
        matrix(ranks(6, 3), lambda a, b: a % 3 < 2),
        matrix(ranks(6, 4), lambda a, b: a % 4 < 3),
        # Four nodes that reach each other well and nobody else are no four bad nodes.
        matrix(nodes(16), lambda a, b: (a < 4) != (b < 4)),
        # Where every third test is bad at random, nobody is picked out.
        *(matrix(nodes(16), _at_random(percent)) for percent in (27, 33, 45)),
    ],
    ids=["most nodes", "two rails of three", "three rails of four", "a cut", "27 %", "33 %", "45 %"],
)
def test_most_parts_slow_is_the_fabric(made: Matrix) -> None:
    """No part is picked out."""
    assert MatrixAnswer.FABRIC is decode(made, HALF).answer


def test_near_partners_are_no_fault() -> None:
    """Pairs under one switch that nobody told of are faster, and no node is blamed for the others."""
    assert MatrixAnswer.NOBODY is decode(matrix(nodes(32), lambda a, b: a // 4 != b // 4), HALF).answer


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


@pytest.mark.parametrize(("number", "tolerance"), [(3, Tolerance(0.5, floor=5.0)), (4, HALF)])
def test_measuring_bad_cells_again_makes_no_fabric(number: int, tolerance: Tolerance) -> None:
    """What counts is how many cells are bad, not how often they were measured."""
    parts = nodes(number)
    slow = [cell for cell in all_pairs(parts) if 2 in cell]
    node = matrix(parts, lambda a, b: 2 in (a, b), cells=all_pairs(parts) + 5 * slow)
    link = matrix(parts, lambda a, b: (a, b) == (0, 1), cells=all_pairs(parts) + 9 * [(0, 1)])

    assert {(Entity.NODE, "node-2", Direction.BOTH)} == named(decode(node, tolerance))
    assert {(Entity.LINK, "node-0<->node-1", Direction.OUT)} == named(decode(link, HALF))


def retested(*stages: tuple[bool, ...]) -> Matrix:
    """All pairs of 32 nodes in the first second, and one link again in stages two seconds apart; True: its tests were bad."""
    parts = nodes(32)
    cells = all_pairs(parts)
    again = [bad for stage in stages for bad in stage]
    made = matrix(parts, lambda a, b: (a, b) in LINK, cells=cells + len(again) * LINK)
    values = [*made.values[: len(cells)], *(BAD if bad else GOOD for bad in again for _ in LINK)]
    moments = [0.5] * len(cells)
    moments += [
        2.0 + 2.5 * at + 0.1 * k for at, stage in enumerate(stages) for k in range(len(stage)) for _ in LINK
    ]
    return replace(made, values=values, moments=moments)


@pytest.mark.parametrize(
    ("stages", "named"),
    [
        (((True, True, True),), True),  # never good
        (((True, True, True), (False, False, False)), False),  # bad in a row, good later
        (((True, False, True), (True, False, True), (False, True, True)), True),
        (((False, False, False), (False, False, False)), False),
    ],
)
def test_a_link_is_named_for_what_returns(stages: tuple[tuple[bool, ...], ...], named: bool) -> None:
    """Congestion lasts for a while and has passed then; a bad link returns."""
    found = decode(retested(*stages), HALF)

    assert named is any(one.kind is Entity.LINK for one in found.suspects)


LEAF = tuple(range(8))


@pytest.mark.parametrize(
    ("rate", "noise", "named"),
    [
        (0.3, CALM, True),
        (0.0, replace(congested(0.3), leaf=8), False),
        (0.0, replace(congested(0.3, lasting=3.0), leaf=8), False),
    ],
)
def test_a_switch_is_named_for_tests_that_are_bad_at_all_times(
    rate: float, noise: Noise, named: bool
) -> None:
    """One of its links is slow, over which it spreads flows: of each round's tests some are bad. Congestion spoils rounds."""
    faults = (Fault(Entity.SWITCH, LEAF, factor=0.5, rate=rate),) if rate else ()
    for run in range(2):
        world = World(Cluster(24, 1, faults, 8, leaf=8), noise, random.Random(f"a switch {run}"))
        found = swept(world, tolerance=Tolerance(0.7))[1]

        assert named is any(one.kind is Entity.SWITCH for one in found.suspects), run


def test_links_that_are_bad_on_all_rails_are_no_crowd() -> None:
    """Two links have sixteen pairs on eight rails, which are two pairs of nodes; beside them two nodes are bad."""
    links = {(0, 3), (1, 2)}

    def is_bad(a: int, b: int, at: int, rng: random.Random) -> bool:
        return (b > 5 or (a, b) in links) and rng.random() < 0.8

    found = decode(on_rails(6, is_bad), HALF)

    assert {"node-6", "node-7", "node-0<->node-3", "node-1<->node-2"} == {
        one.subject for one in found.suspects
    }


@pytest.mark.parametrize(("times", "named"), [({1, 4}, set()), ({1, 4, 6}, {"node-0<->node-3"})])
def test_a_single_bad_test_on_eight_rails_is_no_return_of_a_bad_link(
    times: set[int], named: set[str]
) -> None:
    """Half of a link's sixteen tests were bad at these times, and one of them, as by chance, at each other time."""
    tests = Counter[int]()

    def is_bad(a: int, b: int, at: int, rng: random.Random) -> bool:
        stage = at // 7
        if (a, b) != (0, 3):
            return False
        tests[stage] += 1
        return rng.random() < 0.5 if stage in times else tests[stage] == 1 + 5 * stage % 8

    found = decode(on_rails(8, is_bad), HALF)

    assert named == {one.subject for one in found.suspects}
