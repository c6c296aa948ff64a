"""What the ranks send in a collective, and what they must receive: small integers, exact in float32.

Element i of rank r in round s is 1 + (7 r + 5 i + s) mod 1021 + (r + i + s) mod 127. It depends on the
rank, on the place and on the round, so that an untouched, doubled, permuted, partial or earlier result
differs somewhere, and is never 0. A sum over n ranks is at most 1147 n: exact in float32 (below 2^24) for
up to 14,000 ranks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

P, Q = 1021, 127
RANK_STEP, PLACE_STEP = 7, 5
MOST_RANKS = (1 << 24) // (P + Q)


def sent(rank: int, count: int, round_: int, device: str, start: int = 0) -> Tensor:
    """The `count` elements of a rank from place `start` on."""
    import torch

    wide = torch.arange(P, dtype=torch.float32, device=device)
    narrow = torch.arange(Q, dtype=torch.float32, device=device)
    wide_at, narrow_at = RANK_STEP * rank + round_ + PLACE_STEP * start, rank + round_ + start
    return _spread(wide, narrow, wide_at, narrow_at, count) + 1


def summed(ranks: int, count: int, round_: int, device: str, start: int = 0) -> Tensor:
    """The element-wise sum over all ranks, from place `start` on. Raises ValueError where that is not exact."""
    import torch

    if ranks > MOST_RANKS:
        raise ValueError(
            f"the sum over {ranks} ranks is not exact in float32, over at most {MOST_RANKS} it is"
        )
    wide = torch.tensor(_residue_sums(ranks, P, RANK_STEP), device=device)
    narrow = torch.tensor(_residue_sums(ranks, Q, 1), device=device)
    return _spread(wide, narrow, round_ + PLACE_STEP * start, round_ + start, count) + ranks


def gathered(ranks: int, count: int, round_: int, device: str) -> Tensor:
    """The elements of all ranks, one rank after the other."""
    import torch

    return torch.cat([sent(rank, count, round_, device) for rank in range(ranks)])


def _spread(wide: Tensor, narrow: Tensor, wide_at: int, narrow_at: int, count: int) -> Tensor:
    """wide[(wide_at + 5 i) mod P] + narrow[(narrow_at + i) mod Q] for i < count."""
    import torch

    steps = (torch.arange(P, device=wide.device) * PLACE_STEP + wide_at) % P
    turns = (torch.arange(Q, device=wide.device) + narrow_at) % Q
    return _cycle(wide[steps], count) + _cycle(narrow[turns], count)


def _cycle(period: Tensor, count: int) -> Tensor:
    return period.repeat(-(-count // len(period)))[:count]


def _residue_sums(ranks: int, modulus: int, step: int) -> list[float]:
    """For each y: the sum over ranks r of (step r + y) mod modulus."""
    counts = [0] * modulus
    for rank in range(ranks):
        counts[step * rank % modulus] += 1
    total = sum(residue * times for residue, times in enumerate(counts))
    sums = []
    for y in range(modulus):
        sums.append(float(total))
        total += ranks - modulus * counts[modulus - 1 - y]  # those at the top wrap round to 0
    return sums
