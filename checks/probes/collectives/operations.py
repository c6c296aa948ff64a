"""The collectives that are measured: what each rank sends, what the collective does, and what each rank must receive.

Sizes and factors of bus bandwidths are those of nccl-tests (doc/PERFORMANCE.md), so that the numbers can be compared.

The ranks send small integers, which are exact in float32: element i of rank r in round s is 1 + (7 r + 5 i + s) mod 1021 + (r + i +
s) mod 127. It depends on the rank, on the index and on the round, so that a result which is untouched, doubled, permuted, partial or
from an earlier round differs somewhere, and it is never 0. A sum over n ranks is at most 1147 n: exact in float32 (below 2^24) for
up to 14,000 ranks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor
    from torch.distributed import ProcessGroup

P, Q = 1021, 127
RANK_STEP, PLACE_STEP = 7, 5
MOST_RANKS = (1 << 24) // (P + Q)


def sent(rank: int, count: int, round_: int, device: str, start: int = 0) -> Tensor:
    """The `count` elements of a rank from index `start` on."""
    import torch

    wide = torch.arange(P, dtype=torch.float32, device=device)
    narrow = torch.arange(Q, dtype=torch.float32, device=device)
    wide_at, narrow_at = RANK_STEP * rank + round_ + PLACE_STEP * start, rank + round_ + start
    return _spread(wide, narrow, wide_at, narrow_at, count) + 1


def summed(ranks: int, count: int, round_: int, device: str, start: int = 0) -> Tensor:
    """The element-wise sum over all ranks, from index `start` on. Raises ValueError if that is not exact."""
    if ranks > MOST_RANKS:
        message = f"the sum over {ranks} ranks is not exact in float32, over at most {MOST_RANKS} it is"
        raise ValueError(message)
    import torch

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
        total += ranks - modulus * counts[modulus - 1 - y]  # the greatest residues continue at 0
    return sums


@dataclass(frozen=True)
class World:
    """The ranks that take part, including this one. `first` is the global rank of the group's rank 0."""

    rank: int
    ranks: int
    device: str
    group: ProcessGroup | None = None
    first: int = 0
    members: tuple[int, ...] = ()

    def global_rank(self, rank: int) -> int:
        """The global rank of a rank of the group."""
        return self.members[rank] if self.members else rank


@dataclass(frozen=True)
class Collective:
    """A collective. With `count` elements per share, a rank sends `sends(ranks) * count` elements and receives `gets(ranks) *
    count`.

    `run(own, result, world)` runs it; `expected(world, count, round)` is what the result must be. If `in_place`, the result is
    `own`. The size of a message is that of the larger of both buffers; its bus bandwidth is `factor(ranks)` times the size divided
    by the time.
    """

    name: str
    run: Callable[[Tensor, Tensor, World], object]
    expected: Callable[[World, int, int], Tensor]
    sends: Callable[[int], int]
    gets: Callable[[int], int]
    factor: Callable[[int], float]
    in_place: bool = False

    def shares(self, ranks: int) -> int:
        """The number of shares of a message."""
        return max(self.sends(ranks), self.gets(ranks))


def _all_reduce(own: Tensor, result: Tensor, world: World) -> None:
    import torch.distributed as dist

    dist.all_reduce(own, group=world.group)


def _all_gather(own: Tensor, result: Tensor, world: World) -> None:
    import torch.distributed as dist

    # Into one tensor, because a list would be copied, and the copies would be measured as well.
    if own.is_cuda:
        gather = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
        gather(result, own, group=world.group)
    else:
        dist.all_gather(list(result.view(world.ranks, -1)), own, group=world.group)


def _reduce_scatter(own: Tensor, result: Tensor, world: World) -> None:
    import torch.distributed as dist

    scatter = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor
    scatter(result, own, group=world.group)


def _alltoall(own: Tensor, result: Tensor, world: World) -> None:
    import torch.distributed as dist

    dist.all_to_all_single(result, own, group=world.group)


def _exchanged(world: World, count: int, round_: int) -> Tensor:
    import torch

    at = world.rank * count
    return torch.cat([sent(peer, count, round_, world.device, at) for peer in range(world.ranks)])


def _sendrecv(own: Tensor, result: Tensor, world: World) -> None:
    """Sends to the next rank and receives from the previous one at the same time."""
    import torch.distributed as dist

    following = world.global_rank((world.rank + 1) % world.ranks)
    before = world.global_rank((world.rank - 1) % world.ranks)
    operations = [
        dist.P2POp(dist.isend, own, following, world.group),
        dist.P2POp(dist.irecv, result, before, world.group),
    ]
    for request in dist.batch_isend_irecv(operations):
        request.wait()


def _others(ranks: int) -> float:
    return (ranks - 1) / ranks


ALL_REDUCE = Collective(
    "all_reduce", _all_reduce, lambda world, count, round_: summed(world.ranks, count, round_, world.device),
    sends=lambda ranks: 1, gets=lambda ranks: 1, factor=lambda ranks: 2 * _others(ranks), in_place=True,
)  # fmt: skip
ALL_GATHER = Collective(
    "all_gather", _all_gather, lambda world, count, round_: gathered(world.ranks, count, round_, world.device),
    sends=lambda ranks: 1, gets=lambda ranks: ranks, factor=_others,
)  # fmt: skip
REDUCE_SCATTER = Collective(
    "reduce_scatter", _reduce_scatter,
    lambda world, count, round_: summed(world.ranks, count, round_, world.device, world.rank * count),
    sends=lambda ranks: ranks, gets=lambda ranks: 1, factor=_others,
)  # fmt: skip
ALLTOALL = Collective(
    "alltoall", _alltoall, _exchanged, sends=lambda ranks: ranks, gets=lambda ranks: ranks, factor=_others,
)  # fmt: skip
SENDRECV = Collective(
    "sendrecv", _sendrecv,
    lambda world, count, round_: sent((world.rank - 1) % world.ranks, count, round_, world.device),
    sends=lambda ranks: 1, gets=lambda ranks: 1, factor=lambda ranks: 1.0,
)  # fmt: skip
# In the order in which nccl.tests runs the programs.
KINDS = (ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER, ALLTOALL, SENDRECV)
FACTORS: Mapping[str, Callable[[int], float]] = {collective.name: collective.factor for collective in KINDS}


def busbw_gbps(collective: str, size_bytes: int, seconds: float, ranks: int) -> float:
    """The bus bandwidth in 10^9 bytes/s as nccl-tests defines it."""
    return size_bytes / seconds / 1e9 * FACTORS[collective](ranks)
