"""A link that is good at times is named if it is bad at several times, and not for what others did to it at one."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import pytest

from checks.culprit.decode import decode
from checks.culprit.matrix import Entity, Matrix, Tolerance
from tests.benchmarks.localising.cluster import Cluster, Fault
from tests.benchmarks.localising.noise import CALM, Noise
from tests.benchmarks.localising.ours import swept
from tests.benchmarks.localising.pair_worlds import congested
from tests.benchmarks.localising.world import World
from tests.checks.culprit.planted import BAD, GOOD, all_pairs, matrix, nodes, on_rails

HALF = Tolerance(0.5)
LINK = [(3, 9), (9, 3)]


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
