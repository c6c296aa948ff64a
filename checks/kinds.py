"""The collectives that are measured: what a rank sends in each, what it does, and what it must receive.

Sizes and bus-bandwidth factors are those of nccl-tests (doc/PERFORMANCE.md), so that the numbers compare.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from checks import patterns

if TYPE_CHECKING:
    from torch import Tensor
    from torch.distributed import ProcessGroup


@dataclass(frozen=True)
class World:
    """The ranks that take part, this one among them. `first` is the global rank of the group's rank 0."""

    rank: int
    ranks: int
    device: str
    group: ProcessGroup | None = None
    first: int = 0
    members: tuple[int, ...] = ()

    def global_rank(self, rank: int) -> int:
        """What torch calls this rank of the group."""
        return self.members[rank] if self.members else rank


@dataclass(frozen=True)
class Kind:
    """A collective. Of `count` elements a share, a rank sends `sends(ranks) * count` and gets `gets(ranks) * count`.

    `run(own, result, world)` does it; `expected(world, count, round)` is what the result must be. Where `in_place`,
    the result is `own`. A message's size is that of the larger of both buffers.
    """

    name: str
    run: Callable[[Tensor, Tensor, World], object]
    expected: Callable[[World, int, int], Tensor]
    sends: Callable[[int], int]
    gets: Callable[[int], int]
    in_place: bool = False

    def shares(self, ranks: int) -> int:
        """How many shares a message has."""
        return max(self.sends(ranks), self.gets(ranks))


FACTORS: dict[str, Callable[[int], float]] = {
    "all_reduce": lambda n: 2 * (n - 1) / n,
    "all_gather": lambda n: (n - 1) / n,
    "reduce_scatter": lambda n: (n - 1) / n,
    "alltoall": lambda n: (n - 1) / n,
    "sendrecv": lambda n: 1.0,
}


def busbw_gbps(kind: str, size_bytes: int, seconds: float, ranks: int) -> float:
    """Bus bandwidth in 10^9 bytes/s as nccl-tests defines it."""
    return size_bytes / seconds / 1e9 * FACTORS[kind](ranks)


def _one(ranks: int) -> int:
    return 1


def _each(ranks: int) -> int:
    return ranks


def _all_reduce(own: Tensor, result: Tensor, world: World) -> None:
    import torch.distributed as dist

    dist.all_reduce(own, group=world.group)


def _summed(world: World, count: int, round_: int) -> Tensor:
    return patterns.summed(world.ranks, count, round_, world.device)


def _all_gather(own: Tensor, result: Tensor, world: World) -> None:
    import torch.distributed as dist

    if own.is_cuda:  # into one tensor: a list would be copied, and the copies measured
        gather = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
        gather(result, own, group=world.group)
    else:
        dist.all_gather(list(result.view(world.ranks, -1)), own, group=world.group)


def _gathered(world: World, count: int, round_: int) -> Tensor:
    return patterns.gathered(world.ranks, count, round_, world.device)


def _reduce_scatter(own: Tensor, result: Tensor, world: World) -> None:
    import torch.distributed as dist

    scatter = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor
    scatter(result, own, group=world.group)


def _scattered(world: World, count: int, round_: int) -> Tensor:
    return patterns.summed(world.ranks, count, round_, world.device, world.rank * count)


def _alltoall(own: Tensor, result: Tensor, world: World) -> None:
    import torch.distributed as dist

    dist.all_to_all_single(result, own, group=world.group)


def _exchanged(world: World, count: int, round_: int) -> Tensor:
    import torch

    at = world.rank * count
    return torch.cat([patterns.sent(peer, count, round_, world.device, at) for peer in range(world.ranks)])


def _sendrecv(own: Tensor, result: Tensor, world: World) -> None:
    """To the next rank, from the one before, both at once."""
    import torch.distributed as dist

    following = world.global_rank((world.rank + 1) % world.ranks)
    before = world.global_rank((world.rank - 1) % world.ranks)
    operations = [
        dist.P2POp(dist.isend, own, following, world.group),
        dist.P2POp(dist.irecv, result, before, world.group),
    ]
    for request in dist.batch_isend_irecv(operations):
        request.wait()


def _from_before(world: World, count: int, round_: int) -> Tensor:
    return patterns.sent((world.rank - 1) % world.ranks, count, round_, world.device)


ALL_REDUCE = Kind("all_reduce", _all_reduce, _summed, _one, _one, in_place=True)
ALL_GATHER = Kind("all_gather", _all_gather, _gathered, _one, _each)
REDUCE_SCATTER = Kind("reduce_scatter", _reduce_scatter, _scattered, _each, _one)
ALLTOALL = Kind("alltoall", _alltoall, _exchanged, _each, _each)
SENDRECV = Kind("sendrecv", _sendrecv, _from_before, _one, _one)
