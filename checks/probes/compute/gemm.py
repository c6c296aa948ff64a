"""compute.gemm: whether a matrix product is right in every element, and how fast it is, at its best and over time.

The operands are small integers, A[i,k] = f(i) + g(k) and B[k,j] = h(k) + m(j), so that the product is known in closed form, C[i,j] =
f(i) H + G + (n f(i) + S) m(j) with H = sum h, G = sum g h, S = sum g. All sums stay below 2^24, where float32 (and TF32, whose
operands have 11 bits) is exact in any order: every element that differs is wrong.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from checks.check import Basis, CheckError, Context, Measurement
from checks.facts.profile_options import GEMM_ORDER
from checks.facts.rooflines import limit_tflops
from checks.model_details import Contents
from checks.probes.compute import device as devices
from checks.probes.compute.device import FP16, FP32, Precision, is_cuda, multiplying, torch_check, wait

if TYPE_CHECKING:
    from torch import Tensor

# 512: 0.27 GFLOP, some 10 ms on one core. 8192: 1.1 TFLOP, the size of the public tables of GPU products.
SECONDS = 0.5
LEAST_REPEATS = 4
EXACT = 1 << 24
# Half a unit of rounding is 2^-9 of a bfloat16 and 2^-12 of a float16; split sums may round once more.
TOLERANCE = {"fp32": 0.0, "tf32": 0.0, "bf16": 2.0**-7, "fp16": 2.0**-10}
# Keeps float16 below its greatest number, 65504. A power of two changes no digits.
FP16_SHRINK = 2.0**-7
# On a GPU products are timed in batches of this length: it would be idle if each were waited for.
BATCH_S = 0.2
MOST_BATCH = 1000


@dataclass(frozen=True)
class GemmProblem:
    """Operands and their product on the device, and the sums of the product's rows and columns.

    `row_sums` and `column_sums` are computed from the operands by sums of 64-bit integers, in another way than the closed form of
    `product` and by other units than those that multiply (algorithm-based fault tolerance, Huang and Abraham 1984).
    """

    left: Tensor
    right: Tensor
    product: Tensor
    row_sums: Tensor
    column_sums: Tensor


@dataclass
class GemmRuns:
    """The results of a series of products: `repeats` were compared completely, `products` were timed in
    `timed_s` after the warm-up.
    """

    wrong_elements: int = 0
    wrong_checksums: int = 0
    repeats: int = 0
    best_s: float = float("inf")
    products: int = 0
    timed_s: float = 0.0


def holds(basis: Basis) -> tuple[Contents, ...]:
    """All precisions of the device, and each product compared."""
    names = devices.expected(basis)
    return Contents("precisions", labels=names), Contents("repeats", LEAST_REPEATS * len(names))


@torch_check(
    "compute.gemm",
    (
        "wrong_elements",
        "wrong_checksums",
        "gflops",
        "precisions",
        "tflops",
        "sustained_tflops",
        "above_peak",
        "of_peak",
        "size",
        "repeats",
    ),
    timeout_s=180,
    holds=holds,
)
def gemm(context: Context) -> Measurement:
    """Multiplies integer matrices whose product is known in every precision, and takes the rates.

    `wrong_elements` counts over all products that were compared whole (`repeats`), `wrong_checksums` wrong row and
    column sums of the float32 ones. `precisions` labels the rates, in 10^12 operations a second at n = `size`:
    `tflops` of the fastest product (or batch), `sustained_tflops` over all the time after the warm-up. `gflops`
    is the best of float32, in 10^9. bfloat16 and float16 elements are wrong beyond 2^-7 and 2^-10 of their value.
    `above_peak` counts rates beyond what the device can do by its maker's word, in each precision: they were mistimed,
    or not computed. `of_peak` is the best sustained rate as a fraction of the 16-bit peak; where nobody knows that, of the
    fastest known device's.
    """
    device = devices.place_of(context, "compute.gemm").device
    options = context.options
    size = max(GEMM_ORDER["cuda" if is_cuda(device) else "cpu"], int(options.get("size", 0)))
    with devices.released(device):
        return measure(device, size, options.get("seconds", SECONDS), options.get("warmup_s", 0.0))


def measure(device: str, size: int, seconds: float, warmup_s: float = 0.0) -> Measurement:
    """The measurement on a torch device, in about `seconds` per precision, with products of order `size`."""
    problems = [make_problem(size, seed, device) for seed in (0, 1)]
    tried = devices.precisions(device)
    scores = [run(problems, precision, device, seconds, warmup_s) for precision in tried]
    best = [_tflops(size, 1, score.best_s) for score in scores]
    sustained = [_tflops(size, score.products, score.timed_s) for score in scores]
    name = devices.name_of(device)
    limits = [limit_tflops(name, precision.name) for precision in tried]
    above = sum(rate > most for rates in (best, sustained) for rate, most in zip(rates, limits, strict=True))
    limit = limit_tflops(name)
    return Measurement(
        {
            "wrong_elements": sum(score.wrong_elements for score in scores),
            "wrong_checksums": sum(score.wrong_checksums for score in scores),
            "gflops": best[tried.index(FP32)] * 1000,
            "precisions": tuple(precision.name for precision in tried),
            "tflops": tuple(best),
            "sustained_tflops": tuple(sustained),
            "above_peak": above,
            "of_peak": max(sustained) / limit,
            "size": size,
            "repeats": sum(score.repeats for score in scores),
        },
        "\n".join(
            [f"{name} ({device}), products of order {size}; at most {limit:g} TFLOP/s"]
            + [
                f"{precision.name}: best {top:.4g}, sustained {held:.4g} TFLOP/s over {score.timed_s:.2f} s, "
                f"{score.products} products, {score.repeats} compared whole, "
                f"{score.repeats * size * size} elements checked, {score.wrong_elements} of them wrong"
                for precision, score, top, held in zip(tried, scores, best, sustained, strict=True)
            ]
        ),
    )


def make_problem(size: int, seed: int, device: str) -> GemmProblem:
    """Operands whose product differs from every transposed, constant or earlier one; each seed has another product."""
    import torch

    index = torch.arange(size, dtype=torch.int64, device=device)
    f, g = (index * 5 + seed) % 7, (index * 3 + 2 * seed) % 5
    h, m = (index * 7 + seed) % 6, (index * 4 + 3 * seed + 1) % 9
    product = (f * h.sum() + (g * h).sum())[:, None] + (size * f + g.sum())[:, None] * m[None, :]
    if int(product.max()) >= EXACT:
        raise CheckError(f"order {size} is too large: the float32 product would not be exact")
    left, right = f[:, None] + g[None, :], h[:, None] + m[None, :]
    return GemmProblem(
        left=left.to(torch.float32),
        right=right.to(torch.float32),
        product=product.to(torch.float32),
        row_sums=(left * right.sum(dim=1)).sum(dim=1),
        column_sums=(left.sum(dim=0)[:, None] * right).sum(dim=0),
    )


def run(
    problems: Sequence[GemmProblem], precision: Precision, device: str, seconds: float, warmup_s: float = 0.0
) -> GemmRuns:
    """Products of the problems in turn: first each is compared completely, then batches run until the time is over, and the last
    product of each batch is compared.
    """
    operand_pairs = [operands(problem, precision) for problem in problems]
    score, turn = GemmRuns(), 0
    with multiplying(precision, device):
        # The first product includes loading libraries and raising clocks.
        _multiply(*operand_pairs[0], device, 1)
        for turn in range(LEAST_REPEATS):
            _judge(score, problems, operand_pairs, precision, device, turn, 1)
        count = max(1, min(MOST_BATCH, int(BATCH_S / score.best_s))) if is_cuda(device) else 1
        warm = time.monotonic() + warmup_s
        end = warm + seconds
        while not score.products or time.monotonic() < end:
            turn += 1
            spent = _judge(score, problems, operand_pairs, precision, device, turn, count)
            if time.monotonic() >= warm:
                score.products += count
                score.timed_s += spent
    return score


def operands(problem: GemmProblem, precision: Precision) -> tuple[Tensor, Tensor]:
    """The problem's operands in the precision."""
    shrink = FP16_SHRINK if precision == FP16 else 1.0
    return (problem.left * shrink).to(precision.torch_dtype), problem.right.to(precision.torch_dtype)


def _judge(
    score: GemmRuns,
    problems: Sequence[GemmProblem],
    results: Sequence[tuple[Tensor, Tensor]],
    precision: Precision,
    device: str,
    turn: int,
    count: int,
) -> float:
    """Times `count` products of one problem and compares the last one. Returns the seconds that they took."""
    which = turn % len(problems)
    result, spent = _multiply(*results[which], device, count)
    if precision == FP16:
        result = result.float() / FP16_SHRINK
    score.best_s = min(score.best_s, spent / count)
    score.repeats += 1
    score.wrong_elements += wrong_elements(result, problems[which], TOLERANCE[precision.name])
    if not TOLERANCE[precision.name]:
        score.wrong_checksums += wrong_checksums(result, problems[which])
    return spent


def wrong_elements(result: Tensor, problem: GemmProblem, tolerance: float) -> int:
    """How many elements differ from the known product; all of them if the shape differs. NaN counts as different."""
    if result.shape != problem.product.shape:
        return problem.product.numel()
    if not tolerance:
        return int((result != problem.product).sum())
    near = (result.float() - problem.product).abs() <= tolerance * problem.product
    return int((~near).sum())


def wrong_checksums(result: Tensor, problem: GemmProblem) -> int:
    """How many sums of rows and columns differ from those of the operands."""
    if result.shape != problem.product.shape:
        return len(problem.row_sums) + len(problem.column_sums)
    exact = result.double()  # sums of up to 8192 integers below 2^24 are exact in this type
    row_sums, columns = exact.sum(dim=1), exact.sum(dim=0)
    return int((row_sums != problem.row_sums).sum()) + int((columns != problem.column_sums).sum())


def _multiply(left: Tensor, right: Tensor, device: str, count: int) -> tuple[Tensor, float]:
    wait(device)
    begun = time.perf_counter()
    result = multiplied(left, right, count)
    wait(device)
    return result, time.perf_counter() - begun


def multiplied(left: Tensor, right: Tensor, count: int) -> Tensor:
    """The product, after so many multiplications."""
    import torch

    result = torch.matmul(left, right)
    for _ in range(count - 1):
        result = torch.matmul(left, right)
    return result


def _tflops(size: int, products: int, seconds: float) -> float:
    return 2 * size**3 * products / seconds / 1e12
