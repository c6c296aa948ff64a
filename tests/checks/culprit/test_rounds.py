"""The schedule: who meets whom, for any size."""

from __future__ import annotations

import math
from collections import Counter
from itertools import combinations, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checks.culprit.rounds import Pair, Round, disjoint, matchings, planned, round_robin

SIZES = st.integers(2, 70)


def pairs_of(round_: Round, size: int) -> set[Pair]:
    """The pairs of a round, which must be disjoint: a partner's partner is oneself."""
    met = {one: round_.partner(one) for one in range(size)}
    assert all(other is None or (other != one and met[other] == one) for one, other in met.items())
    return {(one, other) for one, other in met.items() if other is not None and one < other}


@given(SIZES)
def test_a_round_robin_meets_every_pair_once(size: int) -> None:
    """N-1 rounds of N/2 pairs; for odd N there are N rounds, with one bye each."""
    rounds = [pairs_of(round_, size) for round_ in round_robin(size)]

    assert len(rounds) == size - 1 + size % 2
    assert {len(pairs) for pairs in rounds} == {size // 2}
    met = Counter(pair for pairs in rounds for pair in pairs)
    assert met == Counter(combinations(range(size), 2))


@given(st.integers(1, 9), st.integers(1, 9))
def test_a_job_meets_its_nodes_pairs_and_its_rails(nodes: int, per: int) -> None:
    """Each pair of one node and each pair of a rail once, inside before between, all rails at once."""
    rounds = [pairs_of(round_, nodes * per) for round_ in planned(nodes, per, 64, 5)]
    inside = [pairs for pairs in rounds if any(a // per == b // per for a, b in pairs)]
    all_pairs = [pair for pairs in rounds for pair in pairs]

    assert len(all_pairs) == len(set(all_pairs)) == nodes * math.comb(per, 2) + per * math.comb(nodes, 2)
    assert rounds[: len(inside)] == inside
    assert all(a // per == b // per or a % per == b % per for a, b in all_pairs)
    assert all({b // per - a // per for a, b in pairs} == {0} for pairs in inside)
    assert all(len(pairs) % per == 0 for pairs in rounds[len(inside) :])


@given(st.integers(2, 600), st.integers(1, 30))
def test_matchings_are_disjoint_and_differ(size: int, most: int) -> None:
    """No pair twice, no more than asked, and at least a third of the nodes in each."""
    rounds = [pairs_of(round_, size) for round_ in matchings(size, most)]
    met = [pair for pairs in rounds for pair in pairs]

    assert 1 <= len(rounds) <= most
    assert len(met) == len(set(met))
    assert min(len(pairs) for pairs in rounds) >= size // 3


@pytest.mark.parametrize("size", [300, 512, 1000, 1024])
def test_matchings_reach_near_and_far(size: int) -> None:
    """Every node meets a neighbour and one at least a quarter of the ring away."""
    rounds = matchings(size, 12)
    for node in range(size):
        partners = [met for round_ in rounds if (met := round_.partner(node)) is not None]
        apart = [min((met - node) % size, (node - met) % size) for met in partners]
        assert (min(apart) <= 2, max(apart) >= size // 4) == (True, True)


def test_a_plan_that_is_cut_short_has_met_near_and_far() -> None:
    """The first eight of 63 rounds give a node partners all round the ring."""
    partners = sorted(met for round_ in round_robin(64)[:8] if (met := round_.partner(5)) is not None)

    assert max(b - a for a, b in pairwise(partners)) <= 20


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)), max_size=60))
def test_listed_pairs_are_played_once_in_few_rounds(pairs: list[Pair]) -> None:
    """Greedy: fewer than twice as many rounds as the busiest one has pairs; a pair with itself is none."""
    wanted = {(min(pair), max(pair)) for pair in pairs if pair[0] != pair[1]}
    rounds = disjoint(pairs)
    busiest = max(Counter(end for pair in wanted for end in pair).values(), default=0)

    assert all(pairs_of(round_, 21) == set(round_.pairs()) for round_ in rounds)
    assert sum(len(round_.pairs()) for round_ in rounds) == len(wanted)
    assert {pair for round_ in rounds for pair in round_.pairs()} == wanted
    assert len(rounds) <= max(0, 2 * busiest - 1)
