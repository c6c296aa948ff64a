"""compute.overlap: whether results are right, and how much slower they are, if the ranks compute and communicate at the same time.

Some faults show under neither load alone, because power, heat and the paths to memory and links are shared. (SuperBench, USENIX ATC
2024, runs both at the same time for that reason.)
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from checks.check import Context, Measurement, RankPlace
from checks.model_details import Contents
from checks.probes.collectives import operations
from checks.probes.collectives.sweep import whole_world
from checks.probes.compute import device as devices
from checks.probes.compute import gemm
from checks.probes.compute.device import BF16, FP32, Precision, is_cuda, joint_check, multiplying, timed, wait

if TYPE_CHECKING:
    from torch import Tensor

KIB = 1 << 10
SIZES = {"cpu": 256, "cuda": 8192}
BUFFERS_KIB = {"cpu": 1024, "cuda": 256 * KIB}
ROUNDS, ALONE_ROUNDS, MOST_PRODUCTS = 8, 3, 64


@dataclass(frozen=True)
class OverlapWork:
    """The work of a rank in a round: products of `problem`, and a sum over all ranks."""

    problem: gemm.GemmProblem
    left: Tensor
    right: Tensor
    precision: Precision
    elements: int
    own: RankPlace


@dataclass(frozen=True)
class OverlapRound:
    """The times and errors of one round: `products_s` until the products were done, `whole_s` until everything was done."""

    products_s: float
    whole_s: float
    wrong_products: int
    wrong_sums: int


@joint_check(
    "compute.overlap",
    ("wrong_products", "wrong_sums", "overlap_gflops", "of_sequential", "rounds"),
    timeout_s=180,
    holds=lambda basis: (Contents("rounds", int(basis.options.get("rounds", ROUNDS))),),
)
def overlap(context: Context) -> Measurement:
    """Multiplies while the ranks sum, compares the results, and takes the times against each alone.

    `wrong_products` and `wrong_sums` count elements, of each round's last product and whole sum. `overlap_gflops` is
    this rank's rate in 10^9 operations a second while it communicates (median of `rounds`); `gemm_slowdown`, the time
    of its products over that alone, is there too. `of_sequential` is the time of both at once over the sum of each
    alone: 1 means that nothing overlaps.
    """
    own = devices.place_of(context, "compute.overlap")
    whole_world(context)
    device_type = "cuda" if is_cuda(own.device) else "cpu"
    with devices.released(own.device):
        rounds = int(context.options.get("rounds", ROUNDS))
        return measure(own, SIZES[device_type], BUFFERS_KIB[device_type] * KIB, rounds)


def measure(own: RankPlace, size: int, buffer_bytes: int, rounds: int) -> Measurement:
    """The measurement over the default group. Every rank runs the same number of rounds and products."""
    work = prepare(own, size, buffer_bytes)
    with multiplying(work.precision, own.device):
        first = run_round(work, 1, 0)  # the first sum opens connections and loads libraries, and is not timed
        zeros = work.left.new_zeros(work.elements, dtype=work.problem.product.dtype)
        sum_s = _single(own.device, lambda: _begin_sum(zeros)())
        products = _agreed(
            sum_s / _single(own.device, lambda: gemm.multiplied(work.left, work.right, 1)), own
        )
        alone_s = _single(own.device, lambda: gemm.multiplied(work.left, work.right, products))
        rounds_measured = [run_round(work, products, index) for index in range(1, max(1, rounds) + 1)]
    products_s = median(round_.products_s for round_ in rounds_measured)
    whole_s = median(round_.whole_s for round_ in rounds_measured)
    return Measurement(
        {
            "wrong_products": sum(round_.wrong_products for round_ in (first, *rounds_measured)),
            "wrong_sums": sum(round_.wrong_sums for round_ in (first, *rounds_measured)),
            "overlap_gflops": 2 * size**3 * products / products_s / 1e9,
            "of_sequential": whole_s / (alone_s + sum_s),
            "gemm_slowdown": products_s / alone_s,
            "rounds": len(rounds_measured),
        },
        f"{own.device}, {own.world_size} ranks, {work.precision.name}: {products} products of order {size} take "
        f"{alone_s * 1e3:.3f} ms alone, the sum of {buffer_bytes} bytes {sum_s * 1e3:.3f} ms; at once "
        f"{products_s * 1e3:.3f} ms and {whole_s * 1e3:.3f} ms together (medians of {len(rounds_measured)} rounds)",
    )


def prepare(own: RankPlace, size: int, buffer_bytes: int) -> OverlapWork:
    """The operands, in bfloat16 on GPUs that have it, because its load is the highest."""
    precision = BF16 if BF16 in devices.precisions(own.device) else FP32
    problem = gemm.make_problem(size, own.rank % 2, own.device)
    left, right = gemm.operands(problem, precision)
    return OverlapWork(problem, left, right, precision, buffer_bytes // 4, own)


def run_round(work: OverlapWork, products: int, index: int) -> OverlapRound:
    """One round: starts the sum, then the products, waits for both and compares them."""
    own = work.own
    summed = operations.sent(own.rank, work.elements, index, own.device)
    wait(own.device)
    begun = time.perf_counter()
    pending = _begin_sum(summed)
    result = gemm.multiplied(work.left, work.right, products)
    # The time until the stream of the products is done; the sum has a stream, or threads, of its own.
    if is_cuda(work.own.device):
        import torch

        torch.cuda.current_stream(work.own.device).synchronize()
    products_s = time.perf_counter() - begun
    pending()
    wait(own.device)
    whole_s = time.perf_counter() - begun
    expected = operations.summed(own.world_size, work.elements, index, own.device)
    wrong_sums = int((summed != expected).sum())
    wrong = gemm.wrong_elements(result, work.problem, gemm.TOLERANCE[work.precision.name])
    return OverlapRound(products_s, whole_s, wrong, wrong_sums)


def _begin_sum(tensor: Tensor) -> Callable[[], object]:
    """Starts the sum. Returns a function that waits for it."""
    import torch.distributed as dist

    pending = dist.all_reduce(tensor, async_op=True)
    return pending.wait if pending is not None else lambda: None


def _single(device: str, run: Callable[[], object]) -> float:
    """The median time of one kind of work by itself."""
    return median(timed(run, device) for _ in range(ALONE_ROUNDS))


def _agreed(products: float, own: RankPlace) -> int:
    """Rank 0's number of products that take as long as one sum, on every rank."""
    import torch
    import torch.distributed as dist

    shared = torch.tensor([float(min(max(round(products), 1), MOST_PRODUCTS))], device=own.device)
    dist.broadcast(shared, src=0)
    return max(1, int(shared.item()))
