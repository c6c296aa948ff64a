"""Congestion of one of the two leaves of a small cluster befalls all of its nodes."""

from __future__ import annotations

import random

from checks.culprit.decode import decode
from checks.culprit.matrix import Answer, Tolerance
from tests.checks.culprit.planted import on_rails

HALF = Tolerance(0.5)


def test_congestion_of_a_leaf_is_one_period_on_eight_rails() -> None:
    """Half of the tests between nodes 0 to 3 and the others are slow in these rounds. Once in a sweep each node meets one of its own
    leaf, and 64 tests are good: that is one round, and not the end of the congestion.
    """

    def is_bad(a: int, b: int, at: int, rng: random.Random) -> bool:
        return 12 <= at <= 42 and (a < 4) != (b < 4) and rng.random() < 0.4

    found = decode(on_rails(10, is_bad), HALF)

    assert ([(12, 42)], Answer.NOBODY) == ([(one.first, one.last) for one in found.congestion], found.answer)
