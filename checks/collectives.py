"""collective.all_reduce and collective.all_gather: are the results right, and how fast is it, size by size?

What is decided (time, whether to go on) is decided by rank 0 from the slowest rank's times and broadcast,
so that no rank leaves a loop that another one stays in. Neither goes through the collective that is
measured.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING

from checks import patterns
from checks.check import CheckError, Context, Measurement, RankPlace, check
from checks.model import Scope

if TYPE_CHECKING:
    from torch import Tensor

ELEMENT_BYTES = 4
SIZE_STEP = 4
MIB = 1 << 20
# The median's 95% interval within 5%: less is below the run-to-run spread of healthy nodes (SuperBench uses
# 5%).
TIGHT = 0.05
LEAST_SAMPLES = 5
# A small size spends at most this part of an even share of what is left: the large ones, which need more,
# show the peak.
SHARE = 0.5
# A size is begun only if its least work fits: one warm-up, two verified runs, the samples, and some slack.
LEAST_RUNS = LEAST_SAMPLES + 4
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


@dataclass(frozen=True)
class Kind:
    """A collective: `run(own, result)` on this rank's elements, and `expected(ranks, count, round, device)`.

    With `gathers`, the result has a row a rank, and a size is that of the whole result; otherwise the
    result is `own`.
    """

    name: str
    run: Callable[[Tensor, Tensor], object]
    expected: Callable[[int, int, int, str], Tensor]
    gathers: bool


OVERRUN = 8.0
LEAST_PEAK_BYTES = 1 << 20  # smaller messages measure latency, and their rate is no bandwidth


@dataclass
class Sweep:
    """What was measured so far; the lists have one entry a size."""

    wrong: int = 0
    sizes: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    iterations: list[int] = field(default_factory=list)


def busbw_gbps(kind: str, size_bytes: int, seconds: float, ranks: int) -> float:
    """Bus bandwidth in 10^9 bytes/s as nccl-tests defines it (PERFORMANCE.md).

    `size_bytes` is the buffer for all_reduce (factor 2(n-1)/n), and all that a rank receives for all_gather
    ((n-1)/n).
    """
    factor = {"all_reduce": 2.0, "all_gather": 1.0}[kind] * (ranks - 1) / ranks
    return size_bytes / seconds / 1e9 * factor


def half_width(values: Sequence[float]) -> float:
    """Half of the median's 95% interval over the median, by order statistics; infinite below 2 values."""
    ordered, middle = sorted(values), len(values) / 2
    if len(ordered) < 2:
        return math.inf
    reach = 0.98 * math.sqrt(len(ordered))  # 1.96 standard deviations of a binomial with p = 1/2
    low, high = max(0, math.floor(middle - reach)), min(len(ordered) - 1, math.ceil(middle + reach))
    return (ordered[high] - ordered[low]) / 2 / median(ordered)


def sweep_sizes(least_bytes: int, most_bytes: int, shares: int) -> tuple[int, ...]:
    """Sizes by a factor of 4, the greatest included, each a whole number of elements a share."""
    unit = ELEMENT_BYTES * shares
    sizes, size = [], max(1, least_bytes)
    while size < most_bytes:
        sizes.append(size)
        size *= SIZE_STEP
    return tuple(dict.fromkeys(max(1, size // unit) * unit for size in [*sizes, max(1, most_bytes)]))


@check(
    "collective.all_reduce",
    Scope.RANK,
    timeout_s=60,
    metrics=METRICS,
    needs="torch",
    cost="seconds",
    min_ranks=2,
    group=True,
)
def all_reduce(context: Context) -> Measurement:
    """Sums across all ranks, compares every element, and takes the bus bandwidth by size.

    `wrong_elements` is this rank's. Arrays have one entry a size: bandwidths in 10^9 bytes/s from the
    median time of the slowest rank. `sizes_left_out` are the largest, which would not have fitted into the
    budget.
    """
    return measure(context, Kind("all_reduce", _all_reduce, patterns.summed, gathers=False))


@check(
    "collective.all_gather",
    Scope.RANK,
    timeout_s=60,
    metrics=METRICS,
    needs="torch",
    cost="seconds",
    min_ranks=2,
    group=True,
)
def all_gather(context: Context) -> Measurement:
    """Gathers from all ranks, compares every element, and takes the bus bandwidth by size.

    As collective.all_reduce; a size is what each rank receives.
    """
    return measure(context, Kind("all_gather", _all_gather, patterns.gathered, gathers=True))


def measure(context: Context, kind: Kind) -> Measurement:
    """The sweep of a collective over the default group. Raises CheckError if that is not the declared one."""
    place, options = _place(context), context.options
    shares = place.world_size if kind.gathers else 1
    sizes = sweep_sizes(int(options.get("min_bytes", 1024)), int(options.get("max_bytes", 8 * MIB)), shares)
    budget_s, sweep = options.get("budget_s", 1.5), Sweep()
    begun = time.monotonic()
    for index, size in enumerate(sizes):
        spent = time.monotonic() - begun
        if sweep.sizes and not _agree(_fits(sweep, size, spent, budget_s), place):
            break
        share_s = SHARE * (budget_s - spent) / (len(sizes) - index)
        _measure_size(kind, size // ELEMENT_BYTES // shares, size, share_s, place, sweep)
    return _measurement(kind, sweep, sizes, place)


def _measure_size(kind: Kind, count: int, size: int, share_s: float, place: RankPlace, sweep: Sweep) -> None:
    sweep.wrong += _verify(kind, count, 2 * len(sweep.sizes), place)
    times, wrong = _time(kind, count, share_s, place)
    sweep.wrong += wrong + _verify(kind, count, 2 * len(sweep.sizes) + 1, place)
    sweep.sizes.append(size)
    sweep.seconds.append(median(times))
    sweep.iterations.append(len(times))


def _verify(kind: Kind, count: int, round_: int, place: RankPlace) -> int:
    """How many elements of one fresh run are wrong here; NaN is, too."""
    own = patterns.sent(place.rank, count, round_, place.device)
    result = _result(kind, own, place.world_size)
    kind.run(own, result)
    return int((result.flatten() != kind.expected(place.world_size, count, round_, place.device)).sum())


def _time(kind: Kind, count: int, share_s: float, place: RankPlace) -> tuple[list[float], int]:
    """Times of single runs, each the slowest rank's, until tight or out of time; and wrong elements.

    Every rank gets the same times.
    """
    import torch

    own = torch.zeros(count, device=place.device)  # zeros: a sum in place must not grow without bound
    result = _result(kind, own, place.world_size)
    _time_once(kind, own, result)  # the first run opens connections
    times: list[float] = []
    end, most = time.monotonic() + share_s, most_samples(place.world_size)
    enough = False
    while not enough:
        times += _slowest([_time_once(kind, own, result) for _ in range(LEAST_SAMPLES)], place)
        enough = _agree(half_width(times) <= TIGHT or len(times) >= most or time.monotonic() > end, place)
    return times, int((result != 0).sum())


def _result(kind: Kind, own: Tensor, ranks: int) -> Tensor:
    """Where the result goes. No element of a gathered one is right before the run."""
    return own.new_full((ranks, own.numel()), -1.0) if kind.gathers else own


def most_samples(ranks: int) -> int:
    """The most timed runs a size: fewer in larger worlds, where each costs more."""
    return max(2 * LEAST_SAMPLES, 100 // max(1, math.ceil(math.log2(ranks))))


def _time_once(kind: Kind, own: Tensor, result: Tensor) -> float:
    own.zero_()  # what one rank got wrong in place must not reach its peers by the next run
    _wait(own)
    begun = time.perf_counter()
    kind.run(own, result)
    _wait(own)
    return time.perf_counter() - begun


def _slowest(times: Sequence[float], place: RankPlace) -> list[float]:
    import torch
    import torch.distributed as dist

    shared = torch.tensor(times, dtype=torch.float64, device=place.device)
    dist.reduce(shared, dst=0, op=dist.ReduceOp.MAX)
    dist.broadcast(shared, src=0)
    return [float(value) for value in shared.tolist()]


def _agree(opinion: bool, place: RankPlace) -> bool:
    """Rank 0's opinion, on every rank."""
    import torch
    import torch.distributed as dist

    shared = torch.tensor([float(opinion)], device=place.device)
    dist.broadcast(shared, src=0)
    return bool(shared.item())


def _fits(sweep: Sweep, size: int, spent_s: float, budget_s: float) -> bool:
    """The budget bounds repetition; a size is left out only where it would cost several times as much."""
    return spent_s + sweep.seconds[-1] * size / sweep.sizes[-1] * LEAST_RUNS <= OVERRUN * budget_s


def _all_reduce(own: Tensor, result: Tensor) -> None:
    import torch.distributed as dist

    dist.all_reduce(own)


def _all_gather(own: Tensor, result: Tensor) -> None:
    import torch.distributed as dist

    if own.is_cuda:  # into one tensor: a list would be copied, and the copies measured
        gather = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
        gather(result, own)
    else:
        dist.all_gather(list(result), own)


def _measurement(kind: Kind, sweep: Sweep, sizes: Sequence[int], place: RankPlace) -> Measurement:
    left_out = len(sizes) - len(sweep.sizes)
    if left_out and sweep.sizes[-1] < LEAST_PEAK_BYTES <= sizes[-1]:
        raise CheckError(
            f"only {len(sweep.sizes)} of {len(sizes)} sizes fitted into the time: the host is busy, or the network slow"
        )
    measured = list(zip(sweep.sizes, sweep.seconds, strict=True))
    busbw = tuple(busbw_gbps(kind.name, size, spent, place.world_size) for size, spent in measured)
    head = f"{kind.name}, {place.world_size} ranks: size, median of the slowest rank's times, bus bandwidth"
    rows = (
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
        "\n".join([head, *rows]),
    )


def _place(context: Context) -> RankPlace:
    import torch.distributed as dist

    if context.place is None or not dist.is_initialized():
        raise CheckError("there is no process group. Run this check under torchrun.")
    if dist.get_world_size() != context.place.world_size or dist.get_rank() != context.place.rank:
        raise CheckError(
            f"the group has {dist.get_world_size()} ranks, this place is of {context.place.world_size}"
        )
    if context.place.world_size > patterns.MOST_RANKS:
        raise CheckError(
            f"sums over more than {patterns.MOST_RANKS} ranks are not exact: choose a smaller world"
        )
    return context.place


def _wait(tensor: Tensor) -> None:
    if tensor.is_cuda:
        import torch

        torch.cuda.synchronize(tensor.device)
