"""What one rank knows about silent ranks, and tells every rank that it meets. Pure.

It is sent in the greeting of each exchange, so that it needs no server: after k rounds 2^k ranks know it. One accuser is not
believed, because the link between the two may be what is broken; two are, if no rank has heard from the accused since.
"""

from __future__ import annotations

from collections.abc import Sequence

SLOTS = 64
FIELDS = 6
LENGTH = SLOTS * FIELDS


class Gossip:
    """In which round each rank was last heard, and which ranks got no answer from which."""

    def __init__(self, ranks: int) -> None:
        self.ranks = ranks
        self._heard: dict[int, int] = {}
        self._accusers: dict[int, dict[int, int]] = {}

    def heard(self, rank: int, round_: int) -> None:
        """The rank answered in this round: what was said about it up to then no longer counts."""
        self._heard[rank] = max(round_, self._heard.get(rank, -1))
        self._settle(rank)

    def accuse(self, rank: int, accuser: int, round_: int) -> None:
        """The accuser got no answer from the rank in this round. A rank that says this about itself is believed alone."""
        claims = self._accusers.setdefault(rank, {})
        claims[accuser] = max(round_, claims.get(accuser, -1))
        self._settle(rank)

    def accusers(self, rank: int) -> tuple[int, ...]:
        """The ranks that got no answer from the rank, if no rank has heard from it since; in order."""
        return tuple(sorted(self._accusers.get(rank, ())))

    def silent(self, rank: int) -> bool:
        """Whether waiting for this rank is useless."""
        accusers = self.accusers(rank)
        return len(accusers) > 1 or rank in accusers

    @property
    def any_silent(self) -> bool:
        """Whether waiting for some rank is useless."""
        return any(self.silent(rank) for rank in self._accusers)

    def encode(self) -> list[int]:
        """The message, of a fixed length: (accused, last heard, accuser, round, accuser, round), plus 1.

        If there are more than SLOTS accused ranks, the latest are sent; if there are more than two accusers, the latest two.
        """
        latest = sorted(self._accusers, key=lambda rank: -max(self._accusers[rank].values()))[:SLOTS]
        numbers = [number for rank in latest for number in self._encoded(rank)]
        return numbers + [0] * (LENGTH - len(numbers))

    def learn(self, numbers: Sequence[int]) -> None:
        """Reads the message of another rank. Parts that are malformed are ignored."""
        for at in range(0, min(len(numbers), LENGTH) - FIELDS + 1, FIELDS):
            accused, heard, *claims = (number - 1 for number in numbers[at : at + FIELDS])
            if not 0 <= accused < self.ranks:
                continue
            self.heard(accused, heard)
            for accuser, round_ in (claims[:2], claims[2:]):
                if 0 <= accuser < self.ranks and round_ > self._heard[accused]:
                    self.accuse(accused, accuser, round_)

    def _encoded(self, rank: int) -> tuple[int, ...]:
        claims = self._accusers[rank]
        latest = sorted(claims, key=lambda accuser: (accuser != rank, -claims[accuser], accuser))[:2]
        pairs = [(accuser, claims[accuser]) for accuser in latest] + [(-1, -1)] * (2 - len(latest))
        return tuple(number + 1 for number in (rank, self._heard.get(rank, -1), *pairs[0], *pairs[1]))

    def _settle(self, rank: int) -> None:
        """Removes what was said about a rank before it was last heard."""
        since, claims = self._heard.get(rank, -1), self._accusers.get(rank, {})
        remaining = {accuser: round_ for accuser, round_ in claims.items() if round_ > since}
        if remaining:
            self._accusers[rank] = remaining
        else:
            self._accusers.pop(rank, None)
