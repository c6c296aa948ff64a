"""What an explanation remembers about its candidates is what it would compute."""

from __future__ import annotations

import random

import pytest

from checks.culprit.candidates import Candidates
from checks.culprit.explanation import Explanation
from checks.culprit.links import Links
from checks.culprit.matrix import Tolerance
from checks.culprit.noise import screen
from checks.culprit.search import STARTS
from tests.checks.culprit.planted import all_pairs, matrix, nodes, ranks


@pytest.mark.parametrize("rails", [1, 2])
@pytest.mark.parametrize("seed", range(3))
def test_a_surplus_that_is_kept_is_the_present_one(rails: int, seed: int) -> None:
    """A stale one would name a part whose tests another part explains by now, or miss one."""
    rng = random.Random(seed)
    parts = nodes(7) if rails == 1 else ranks(5, rails)
    sick, one, other = rng.sample(range(len(parts)), 3)

    def is_bad(a: int, b: int) -> bool:
        return sick in (a, b) or {a, b} == {one, other} or rng.random() < 0.1

    made = matrix(parts, is_bad, cells=4 * all_pairs(parts), seed=seed)
    bad, candidates = screen(made, Tolerance(0.5)).bad, Candidates(made)
    kept = _explanation(candidates, bad)
    for _ in range(12):
        for at in kept.possible:
            kept.surplus(at)
        free = [at for at in kept.possible if at not in kept.blamed]
        if kept.blamed and (not free or rng.random() < 0.4):
            kept.acquit(rng.choice(list(kept.blamed)))
        else:
            kept.blame(rng.choice(free))
        remembered = {at: kept.surplus(at) for at in kept.possible}
        kept._surplus.clear()

        assert remembered == {at: kept.surplus(at) for at in kept.possible}


def _explanation(candidates: Candidates, bad: list[int]) -> Explanation:
    made = candidates.matrix
    links = Links(made, bad, candidates.node_of)
    explanation = Explanation(candidates, links, STARTS[-1])
    explanation.fit(STARTS[0])
    return explanation
