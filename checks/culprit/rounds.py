"""Who meets whom in which round: every rank at most one partner a round (pure).

A round is asked for one rank's partner, so that a rank of thousands never lists the pairs of all others.
Inside rounds: the ranks of each node among themselves, all nodes at once. Between rounds: node against node, each
rank with the one of its own local rank ("rail") on the other node, all rails at once.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

Pair = tuple[int, int]
GOLDEN = (math.sqrt(5) - 1) / 2


class Round(Protocol):
    """Disjoint pairs of the numbers 0 to n-1."""

    def partner(self, one: int) -> int | None:
        """Whom `one` meets; None if nobody. The partner's partner is `one`."""


@dataclass(frozen=True)
class Circle:
    """Round `turn` of a round robin of `size`: those whose numbers add up to it, modulo the number of rounds.

    The circle method: the last stays in the middle and meets the one that would meet itself. With an odd size that
    one has a bye.
    """

    size: int
    turn: int

    def partner(self, one: int) -> int | None:
        """Whom `one` meets."""
        last = self.size - 1 + self.size % 2  # an odd round robin is an even one against nobody
        middle = (self.turn if self.turn % 2 == 0 else self.turn + last) // 2  # it would meet itself
        met = middle if one == last else last if one == middle else (self.turn - one) % last
        return met if met < self.size else None


@dataclass(frozen=True)
class Shift:
    """Those `distance` apart on a ring of `size`, in pairs; `phase` 1 takes the pairs that phase 0 leaves out.

    Steps of `distance` make gcd(size, distance) cycles; every second step of each is a pair. A cycle of odd length
    leaves one bye.
    """

    size: int
    distance: int
    phase: int = 0

    def partner(self, one: int) -> int | None:
        """Whom `one` meets."""
        cycles = math.gcd(self.size, self.distance)
        length = self.size // cycles
        if length < 2:
            return None
        inverse = pow(self.distance // cycles, -1, length)
        place = (one // cycles * inverse - self.phase) % length
        if place == length - 1 and length % 2:
            return None
        return (one + (self.distance if place % 2 == 0 else -self.distance)) % self.size


@dataclass(frozen=True)
class Inside:
    """The ranks of each node among themselves, all nodes at once."""

    ranks_per_node: int
    locals: Round

    def partner(self, one: int) -> int | None:
        """Whom `one` meets."""
        node, local = divmod(one, self.ranks_per_node)
        met = self.locals.partner(local)
        return None if met is None else node * self.ranks_per_node + met


@dataclass(frozen=True)
class Between:
    """Nodes against each other, all rails at once."""

    ranks_per_node: int
    nodes: Round

    def partner(self, one: int) -> int | None:
        """Whom `one` meets."""
        node, local = divmod(one, self.ranks_per_node)
        met = self.nodes.partner(node)
        return None if met is None else met * self.ranks_per_node + local


@dataclass(frozen=True)
class Listed:
    """These pairs alone."""

    partners: Mapping[int, int]

    def partner(self, one: int) -> int | None:
        """Whom `one` meets."""
        return self.partners.get(one)

    def pairs(self) -> tuple[Pair, ...]:
        """All of them, the lower number first."""
        return tuple((one, other) for one, other in self.partners.items() if one < other)


def planned(nodes: int, ranks_per_node: int, all_pairs_nodes: int, most: int) -> tuple[Round, ...]:
    """The rounds of a job: inside, then between.

    Up to `all_pairs_nodes` nodes every pair of a rail meets once; above, there are `most` matchings.
    """
    inside = (Inside(ranks_per_node, r) for r in round_robin(ranks_per_node))
    nodes_rounds = round_robin(nodes) if nodes <= all_pairs_nodes else matchings(nodes, most)
    return (*inside, *(Between(ranks_per_node, r) for r in nodes_rounds))


def round_robin(size: int) -> tuple[Round, ...]:
    """Every pair once, in size - 1 rounds (size, if that is odd).

    A plan that is cut short must have met near ones and far ones: round after round lies a golden section further.
    """
    if size < 2:
        return ()
    rounds = size - 1 + size % 2
    stride = next(
        s for s in range(max(1, round(rounds * GOLDEN)), 2 * rounds + 1) if math.gcd(s, rounds) == 1
    )
    return tuple(Circle(size, index * stride % rounds) for index in range(rounds))


def matchings(size: int, most: int) -> tuple[Round, ...]:
    """At most `most` rounds, in each of which nearly all meet: at distances of powers of two, the far ones included.

    Where there is room for more, each distance comes a second time, with the pairs that the first left out.
    """
    powers = [1 << bit for bit in range(max(1, size // 2).bit_length())] if size > 1 else []
    first = [Shift(size, distance) for distance in powers]
    second = [Shift(size, distance, 1) for distance in powers if size != 2 * distance]
    return (*_spread(first, most), *_spread(second, most - len(first)))


def disjoint(pairs: Iterable[Pair]) -> tuple[Listed, ...]:
    """These pairs, each once, in as few rounds as a greedy colouring finds; the first ones come in the first rounds."""
    rounds: list[dict[int, int]] = []
    for one, other in dict.fromkeys((min(pair), max(pair)) for pair in pairs if pair[0] != pair[1]):
        free = next((r for r in rounds if one not in r and other not in r), None)
        if free is None:
            rounds.append(free := {})
        free.update({one: other, other: one})
    return tuple(Listed(partners) for partners in rounds)


def _spread(rounds: list[Shift], most: int) -> list[Shift]:
    """At most so many of them, from first to last."""
    if most >= len(rounds):
        return rounds
    steps = range(max(0, most))
    return [rounds[round(step * (len(rounds) - 1) / max(1, most - 1))] for step in steps]
