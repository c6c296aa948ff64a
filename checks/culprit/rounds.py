"""Which ranks are tested with each other in which round: every rank has at most one partner per round. Pure.

A round is asked for the partner of one rank, so that a rank of thousands never lists the pairs of all others. Inside rounds: the
ranks of each node with each other, on all nodes at once. Between rounds: node with node, each rank with the one of its own local
rank ("rail") on the other node, on all rails at once.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

Pair = tuple[int, int]
GOLDEN = (math.sqrt(5) - 1) / 2
# Simulated (docs/evidence/culprit.md): a node that is bad for a fifth of the time, in periods of six rounds, shows that in 4 sweeps of
# five if these have so many rounds. A sweep of 64 nodes has them.
SWEEP_ROUNDS = 63
# A link that is bad in half of its tests is good in both tests of one sweep once in four times, and in those of two once in sixteen.
# Judgement: up to so many nodes a second sweep takes seconds.
TWICE_NODES = 64
# Judgement: three nodes have too few pairs, and sixteen take 15 rounds.
LEAST_AGAIN, MOST_AGAIN = 4, 16


class Round(Protocol):
    """Disjoint pairs of the numbers 0 to n-1."""

    def partner(self, number: int) -> int | None:
        """The partner of `number`; None if it has none. The partner's partner is `number`."""


@dataclass(frozen=True)
class Circle:
    """Round `turn` of a round robin of `size`: two numbers are partners if their sum is `turn`, modulo the number of rounds.

    This is the circle method: the last number is the partner of the one that would be its own partner. With an odd size that one has
    no partner.
    """

    size: int
    turn: int

    def partner(self, number: int) -> int | None:
        """The partner; None if there is none."""
        # A round robin of odd size is one of even size, in which the last number is nobody.
        last = self.size - 1 + self.size % 2
        middle = (self.turn if self.turn % 2 == 0 else self.turn + last) // 2  # it would be its own partner
        met = {last: middle, middle: last}.get(number, (self.turn - number) % last)
        return met if met < self.size else None


@dataclass(frozen=True)
class Shift:
    """Pairs of numbers that are `distance` apart on a ring of `size`; `phase` 1 has the pairs that phase 0 leaves out.

    Steps of `distance` form gcd(size, distance) cycles; every second step of each is a pair. In a cycle of odd length one number has
    no partner.
    """

    size: int
    distance: int
    phase: int = 0

    def partner(self, number: int) -> int | None:
        """The partner; None if there is none."""
        cycles = math.gcd(self.size, self.distance)
        length = self.size // cycles
        if length < 2:
            return None
        inverse = pow(self.distance // cycles, -1, length)
        index = (number // cycles * inverse - self.phase) % length
        if index == length - 1 and length % 2:
            return None
        return (number + (self.distance if index % 2 == 0 else -self.distance)) % self.size


@dataclass(frozen=True)
class Inside:
    """The ranks of each node with each other, on all nodes at once."""

    ranks_per_node: int
    locals: Round

    def partner(self, rank: int) -> int | None:
        """The partner; None if there is none."""
        node, local = divmod(rank, self.ranks_per_node)
        met = self.locals.partner(local)
        return None if met is None else node * self.ranks_per_node + met


@dataclass(frozen=True)
class Between:
    """Nodes with each other, on all rails at once."""

    ranks_per_node: int
    nodes: Round

    def partner(self, rank: int) -> int | None:
        """The partner; None if there is none."""
        node, local = divmod(rank, self.ranks_per_node)
        met = self.nodes.partner(node)
        return None if met is None else met * self.ranks_per_node + local


@dataclass(frozen=True)
class ListedPairs:
    """Exactly these pairs."""

    partners: Mapping[int, int]

    def partner(self, number: int) -> int | None:
        """The partner; None if there is none."""
        return self.partners.get(number)

    def pairs(self) -> tuple[Pair, ...]:
        """All pairs, the lower number first."""
        return tuple((first, other) for first, other in self.partners.items() if first < other)


def planned(nodes: int, ranks_per_node: int, all_pairs_nodes: int, most: int) -> tuple[Round, ...]:
    """The rounds of a job: inside, then between.

    Up to `all_pairs_nodes` nodes every pair of a rail is tested once; with more nodes there are `most` matchings.
    """
    inside = (Inside(ranks_per_node, r) for r in round_robin(ranks_per_node))
    nodes_rounds = round_robin(nodes) if nodes <= all_pairs_nodes else matchings(nodes, most)
    return (*inside, *(Between(ranks_per_node, r) for r in nodes_rounds))


def sweeps(nodes: int) -> int:
    """How often a sweep of all pairs between so many nodes is made, if there is time for it. A few nodes have a few rounds only, and
    what is bad for some of the time would be good in all of them.
    """
    if nodes < 2:
        return 1
    rounds = nodes - 1 + nodes % 2
    return max(2 if nodes <= TWICE_NODES else 1, round(SWEEP_ROUNDS / rounds))


def is_small(nodes: int) -> bool:
    """Whether it takes a few seconds to sweep so many nodes again, if a sweep left questions open."""
    return LEAST_AGAIN <= nodes <= MOST_AGAIN


def round_robin(size: int) -> tuple[Round, ...]:
    """Every pair once, in size - 1 rounds (size, if that is odd).

    If the rounds are cut short, near and far pairs must both have been tested: each round is a golden section further than the one
    before.
    """
    if size < 2:
        return ()
    rounds = size - 1 + size % 2
    stride = next(
        s for s in range(max(1, round(rounds * GOLDEN)), 2 * rounds + 1) if math.gcd(s, rounds) == 1
    )
    return tuple(Circle(size, index * stride % rounds) for index in range(rounds))


def matchings(size: int, most: int) -> tuple[Round, ...]:
    """At most `most` rounds, in each of which nearly all have a partner, at distances of powers of two, including the far ones.

    If there is room for more, each distance comes a second time, with the pairs that the first round left out.
    """
    powers = [1 << bit for bit in range(max(1, size // 2).bit_length())] if size > 1 else []
    first = [Shift(size, distance) for distance in powers]
    second = [Shift(size, distance, 1) for distance in powers if size != 2 * distance]
    return (*_spread(first, most), *_spread(second, most - len(first)))


def disjoint(pairs: Iterable[Pair]) -> tuple[ListedPairs, ...]:
    """The pairs are made, each once, in as few rounds as a greedy colouring finds. The first pairs come in the first rounds."""
    rounds: list[dict[int, int]] = []
    for first, other in dict.fromkeys((min(pair), max(pair)) for pair in pairs if pair[0] != pair[1]):
        free = next((r for r in rounds if first not in r and other not in r), None)
        if free is None:
            rounds.append(free := {})
        free.update({first: other, other: first})
    return tuple(ListedPairs(partners) for partners in rounds)


def _spread(rounds: list[Shift], most: int) -> list[Shift]:
    """At most this many of them, evenly from first to last."""
    if most >= len(rounds):
        return rounds
    steps = range(max(0, most))
    return [rounds[round(step * (len(rounds) - 1) / max(1, most - 1))] for step in steps]
