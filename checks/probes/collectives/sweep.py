"""Runs a collective with several message sizes, verifies the results and measures the bandwidths.

Rank 0 decides how often to repeat and when to stop, from the times of the slowest rank, and broadcasts its decisions, so that no
rank leaves a loop in which another one stays. Times and decisions are not sent through the collective that is measured.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING

from checks.check import Basis, Body, Check, CheckError, Context, Measurement, check
from checks.model import Declared, MachinePart, Scope
from checks.model_details import Contents
from checks.probes.collectives import operations
from checks.probes.collectives.operations import Collective, World, busbw_gbps

if TYPE_CHECKING:
    from torch import Tensor

ELEMENT_BYTES = 4
SIZE_STEP = 4
MIB = 1 << 20
# The 95% interval of the median must be within 5%: less is below the run-to-run spread of healthy nodes (SuperBench uses
# 5%).
TIGHT = 0.05
LEAST_SAMPLES = 5
# A small size uses at most this part of an even share of the remaining time: the large sizes, which need more,
# show the peak.
SHARE = 0.5
# A size is only started if its least work fits into the time: one warm-up, two verified runs, the samples, and some slack.
LEAST_RUNS = LEAST_SAMPLES + 4
OVERRUN = 8.0
LEAST_PEAK_BYTES = 1 << 20  # smaller messages measure latency, so their rate is not a bandwidth
METRICS = (
    "wrong_elements",
    "sizes_bytes",
    "sizes_left_out",
    "busbw_gbps",
    "algbw_gbps",
    "iterations",
    "latency_us",
    "busbw_peak_gbps",
)


@dataclass
class Sweep:
    """The results so far. The lists have one entry per size."""

    wrong: int = 0
    sizes: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    iterations: list[int] = field(default_factory=list)


def sweep_check(
    name: str,
    collective: Collective,
    *,
    hardware: MachinePart,
    needs: str,
    timeout_s: float,
    more: tuple[str, ...] = (),
    min_nodes: int = 1,
    min_ranks: int = 2,
    ranks: Callable[[Declared], int] = lambda declared: declared.ranks,
) -> Callable[[Body], Check]:
    """Declares a check that sweeps a collective over so many `ranks`; `more` are metrics in addition to those of every sweep."""

    def holds(basis: Basis) -> tuple[Contents, ...]:
        sizes = _sizes(basis.options, collective, ranks(basis.declared))
        return (Contents("sizes_bytes", len(sizes), less="sizes_left_out"),)

    return check(
        name,
        Scope.RANK,
        timeout_s=timeout_s,
        metrics=(*METRICS, *more),
        needs=needs,
        cost="seconds",
        min_nodes=min_nodes,
        min_ranks=min_ranks,
        part=hardware,
        group=True,
        holds=holds,
    )


def half_width(values: Sequence[float]) -> float:
    """Half of the width of the median's 95% interval, divided by the median, by order statistics; infinite for fewer than 2 values."""
    ordered, middle = sorted(values), len(values) / 2
    if len(ordered) < 2:
        return math.inf
    reach = 0.98 * math.sqrt(len(ordered))  # 1.96 standard deviations of a binomial with p = 1/2
    low, high = max(0, math.floor(middle - reach)), min(len(ordered) - 1, math.ceil(middle + reach))
    return (ordered[high] - ordered[low]) / 2 / median(ordered)


def sweep_sizes(least_bytes: int, most_bytes: int, shares: int) -> tuple[int, ...]:
    """Sizes that differ by a factor of 4, including the greatest, each a whole number of elements per share."""
    unit = ELEMENT_BYTES * shares
    sizes, size = [], max(1, least_bytes)
    while size < most_bytes:
        sizes.append(size)
        size *= SIZE_STEP
    return tuple(dict.fromkeys(max(1, size // unit) * unit for size in [*sizes, max(1, most_bytes)]))


def whole_world(context: Context) -> World:
    """All ranks of the default group. Raises CheckError if that is not the declared group."""
    import torch.distributed as dist

    own = context.rank_place
    if own is None or not dist.is_initialized():
        raise CheckError("there is no process group. Run this check under torchrun.")
    if own.world_size > operations.MOST_RANKS:
        raise CheckError(f"sums over more than {operations.MOST_RANKS} ranks are not exact: use fewer ranks")
    if dist.get_world_size() != own.world_size or dist.get_rank() != own.rank:
        message = f"the process group has {dist.get_world_size()} ranks, but {own.world_size} were started"
        raise CheckError(message)
    return World(own.rank, own.world_size, own.device)


def measure(context: Context, collective: Collective) -> Measurement:
    """The sweep of the collective over the default group. Raises CheckError if that is not the declared group."""
    return measure_in(whole_world(context), context, collective)


def measure_in(world: World, context: Context, collective: Collective) -> Measurement:
    """The sweep of the collective over these ranks, with the numbers of the check's profile."""
    sizes, shares = _sizes(context.options, collective, world.ranks), collective.shares(world.ranks)
    budget_s, sweep = context.options.get("budget_s", 1.5), Sweep()
    _connect(collective, sizes[0] // ELEMENT_BYTES // shares, world)
    begun = time.monotonic()
    for index, size in enumerate(sizes):
        spent = time.monotonic() - begun
        if sweep.sizes and not _agree(_fits(sweep, size, spent, budget_s), world):
            break
        share_s = SHARE * (budget_s - spent) / (len(sizes) - index)
        count = size // ELEMENT_BYTES // shares
        sweep.wrong += _verify(collective, count, 2 * len(sweep.sizes), world)
        times, wrong = _time(collective, count, share_s, world)
        sweep.wrong += wrong + _verify(collective, count, 2 * len(sweep.sizes) + 1, world)
        sweep.sizes.append(size)
        sweep.seconds.append(median(times))
        sweep.iterations.append(len(times))
    if world.device.startswith("cuda"):
        import torch

        torch.cuda.empty_cache()  # free the buffers of the largest size, because the next check measures the free memory
    return _measurement(collective, sweep, sizes, world)


def _sizes(options: Mapping[str, float], collective: Collective, ranks: int) -> tuple[int, ...]:
    least, most = int(options.get("min_bytes", 1024)), int(options.get("max_bytes", 8 * MIB))
    return sweep_sizes(least, most, collective.shares(ranks))


def _connect(collective: Collective, count: int, world: World) -> None:
    """Runs the collective once before the timing: NCCL initialises a communicator in the first call, which takes many seconds."""
    import torch

    own = torch.zeros(count * collective.sends(world.ranks), device=world.device)
    _time_once(collective, own, _result(collective, own, count, world), world)


def _verify(collective: Collective, count: int, round_: int, world: World) -> int:
    """How many elements of one new run are wrong on this rank; NaN counts as wrong."""
    own = operations.sent(world.rank, count * collective.sends(world.ranks), round_, world.device)
    result = _result(collective, own, count, world)
    collective.run(own, result, world)
    return int((result != collective.expected(world, count, round_)).sum())


def _time(collective: Collective, count: int, share_s: float, world: World) -> tuple[list[float], int]:
    """The times of single runs, each that of the slowest rank, until they are precise enough or the time is over; and the number of
    wrong elements.

    Every rank gets the same times.
    """
    import torch

    # zeros, because a sum in place must not grow without bound
    own = torch.zeros(count * collective.sends(world.ranks), device=world.device)
    result = _result(collective, own, count, world)
    _time_once(collective, own, result, world)  # the first run opens connections, and is not timed
    times: list[float] = []
    end, most = time.monotonic() + share_s, most_samples(world.ranks)
    enough = False
    while not enough:
        times += _slowest([_time_once(collective, own, result, world) for _ in range(LEAST_SAMPLES)], world)
        enough = _agree(half_width(times) <= TIGHT or len(times) >= most or time.monotonic() > end, world)
    return times, int((result != 0).sum())


def _result(collective: Collective, own: Tensor, count: int, world: World) -> Tensor:
    """The buffer for the result. No element of it is right before the run."""
    return own if collective.in_place else own.new_full((count * collective.gets(world.ranks),), -1.0)


def most_samples(ranks: int) -> int:
    """The most timed runs per size: fewer in larger worlds, where each costs more."""
    return max(2 * LEAST_SAMPLES, 100 // max(1, math.ceil(math.log2(ranks))))


def _time_once(collective: Collective, own: Tensor, result: Tensor, world: World) -> float:
    own.zero_()  # a wrong value that one rank got in place must not reach its peers with the next run
    _wait(own)
    begun = time.perf_counter()
    collective.run(own, result, world)
    _wait(own)
    return time.perf_counter() - begun


def _slowest(times: Sequence[float], world: World) -> list[float]:
    import torch
    import torch.distributed as dist

    shared = torch.tensor(times, dtype=torch.float64, device=world.device)
    dist.reduce(shared, dst=world.first, op=dist.ReduceOp.MAX, group=world.group)
    dist.broadcast(shared, src=world.first, group=world.group)
    return [float(value) for value in shared.tolist()]


def _agree(opinion: bool, world: World) -> bool:
    """The value of the group's rank 0, on every rank."""
    import torch
    import torch.distributed as dist

    shared = torch.tensor([float(opinion)], device=world.device)
    dist.broadcast(shared, src=world.first, group=world.group)
    return bool(shared.item())


def _fits(sweep: Sweep, size: int, spent_s: float, budget_s: float) -> bool:
    """Whether a size fits into the time. The budget limits repetition; a size is only left out if it would take several times as
    long.
    """
    return spent_s + sweep.seconds[-1] * size / sweep.sizes[-1] * LEAST_RUNS <= OVERRUN * budget_s


def _measurement(collective: Collective, sweep: Sweep, sizes: Sequence[int], world: World) -> Measurement:
    left_out = len(sizes) - len(sweep.sizes)
    if left_out and sweep.sizes[-1] < LEAST_PEAK_BYTES <= sizes[-1]:
        message = f"only {len(sweep.sizes)} of {len(sizes)} sizes were measured in time: the host is busy or the network is slow"
        raise CheckError(message)
    measured = list(zip(sweep.sizes, sweep.seconds, strict=True))
    busbw = tuple(busbw_gbps(collective.name, size, spent, world.ranks) for size, spent in measured)
    head = f"{collective.name}, {world.ranks} ranks: size, median of the slowest rank's times, bus bandwidth"
    lines = (
        f"{size:>12} B {spent * 1e6:12.1f} us {bus:9.4f} GB/s"
        for (size, spent), bus in zip(measured, busbw, strict=True)
    )
    return Measurement(
        {
            "wrong_elements": sweep.wrong,
            "sizes_bytes": tuple(sweep.sizes),
            "sizes_left_out": left_out,
            "busbw_gbps": busbw,
            "algbw_gbps": tuple(size / spent / 1e9 for size, spent in measured),
            "iterations": tuple(sweep.iterations),
            "latency_us": sweep.seconds[0] * 1e6,
            "busbw_peak_gbps": max(busbw),
        },
        "\n".join([head, *lines]),
    )


def _wait(tensor: Tensor) -> None:
    if tensor.is_cuda:
        import torch

        torch.cuda.synchronize(tensor.device)
