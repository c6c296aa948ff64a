"""compute.gemm: is a matrix product right, in every element, and how fast is it?

The operands are small integers, A[i,k] = f(i) + g(k) and B[k,j] = h(k) + m(j), so that the product is known
in closed form, C[i,j] = f(i) H + G + (n f(i) + S) m(j) with H = sum h, G = sum g h, S = sum g. All sums
stay below 2^24, where float32 (and TF32, whose operands have 11 bits) is exact in any order: a single
different element is wrong.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from checks.check import CheckError, Context, Measurement, check
from checks.model import Scope, Value

if TYPE_CHECKING:
    import torch
    from torch import Tensor

# 512: 0.27 GFLOP, some 10 ms on one core. 8192: 1.1 TFLOP, the size of the public tables of GPU products.
SIZES = {"cpu": 512, "cuda": 8192}
SECONDS = 0.5
LEAST_REPEATS = 4
EXACT = 1 << 24
# bfloat16 rounds to 8 bits of significance: half a unit is 2^-9 of the value, split sums may round once more.
BF16_TOLERANCE = 2.0**-7


@dataclass(frozen=True)
class Problem:
    """Operands and the product that they must have, on the device; and the checksums of that product's lines.

    `row_sums` and `column_sums` come from the operands by sums in 64-bit integers, another way than the
    closed form of `product` and other units than those that multiply (algorithm-based fault tolerance,
    Huang and Abraham 1984).
    """

    left: Tensor
    right: Tensor
    product: Tensor
    row_sums: Tensor
    column_sums: Tensor


@dataclass
class Score:
    """What a series of products showed."""

    wrong_elements: int = 0
    wrong_checksums: int = 0
    repeats: int = 0
    best_s: float = float("inf")


@check(
    "compute.gemm",
    Scope.RANK,
    timeout_s=60,
    metrics=("wrong_elements", "wrong_checksums", "gflops", "size", "repeats"),
    needs="torch",
    cost="seconds",
)
def gemm(context: Context) -> Measurement:
    """Multiplies integer matrices whose product is known, and takes the best rate.

    `wrong_elements` counts over all repeats, each of which is compared whole, `wrong_checksums` wrong row
    and column sums. `gflops` is 10^9 float32 operations a second at n = `size`; on CUDA `bf16_gflops` is
    there too, and its elements count as wrong beyond 2^-7 of their value.
    """
    if context.place is None:
        raise CheckError("compute.gemm needs a rank's place. Run it under torchrun.")
    device = context.place.device
    size = SIZES["cuda" if device.startswith("cuda") else "cpu"]
    return measure(device, size, context.options.get("seconds", SECONDS))


def measure(device: str, size: int, seconds: float) -> Measurement:
    """The measurement on a torch device, in about `seconds`, of products of order `size`."""
    import torch

    problems = [make_problem(size, seed, device) for seed in (0, 1)]
    score = run(problems, torch.float32, seconds, tolerance=0.0)
    wrong, metrics = score.wrong_elements, dict[str, Value]()
    if device.startswith("cuda"):
        half = run(problems, torch.bfloat16, seconds, BF16_TOLERANCE)
        wrong += half.wrong_elements
        metrics["bf16_gflops"] = _gflops(size, half.best_s)
    metrics |= {
        "wrong_elements": wrong,
        "wrong_checksums": score.wrong_checksums,
        "gflops": _gflops(size, score.best_s),
        "size": size,
        "repeats": score.repeats,
    }
    return Measurement(
        metrics, f"{device}: best of {score.repeats} products of order {size}: {score.best_s:.6f} s"
    )


def make_problem(size: int, seed: int, device: str) -> Problem:
    """Operands that no transposed, constant or earlier product satisfies; each seed has another answer."""
    import torch

    index = torch.arange(size, dtype=torch.int64, device=device)
    f, g = (index * 5 + seed) % 7, (index * 3 + 2 * seed) % 5
    h, m = (index * 7 + seed) % 6, (index * 4 + 3 * seed + 1) % 9
    product = _outer_sum(f * h.sum() + (g * h).sum(), size * f + g.sum(), m)
    if int(product.max()) >= EXACT:
        raise CheckError(f"order {size} is too large for an exact float32 product")
    left, right = f[:, None] + g[None, :], h[:, None] + m[None, :]
    return Problem(
        left=left.to(torch.float32),
        right=right.to(torch.float32),
        product=product.to(torch.float32),
        row_sums=(left * right.sum(dim=1)).sum(dim=1),
        column_sums=(left.sum(dim=0)[:, None] * right).sum(dim=0),
    )


def run(problems: list[Problem], dtype: torch.dtype, seconds: float, tolerance: float) -> Score:
    """Products of the problems in turn until the time is spent, each timed alone and then compared whole."""
    score, end = Score(), time.monotonic() + seconds
    _multiply(problems[0], dtype)  # the first product pays for loading and clocks
    while score.repeats < LEAST_REPEATS or time.monotonic() < end:
        problem = problems[score.repeats % len(problems)]
        result, spent = _multiply(problem, dtype)
        score.best_s = min(score.best_s, spent)
        score.repeats += 1
        score.wrong_elements += wrong_elements(result, problem, tolerance)
        if not tolerance:
            score.wrong_checksums += wrong_checksums(result, problem)
    return score


def wrong_elements(result: Tensor, problem: Problem, tolerance: float) -> int:
    """How many elements differ from the known product, all of them if its shape does. NaN differs."""
    if result.shape != problem.product.shape:
        return problem.product.numel()
    if not tolerance:
        return int((result != problem.product).sum())
    near = (result.float() - problem.product).abs() <= tolerance * problem.product
    return int((~near).sum())


def wrong_checksums(result: Tensor, problem: Problem) -> int:
    """How many row and column sums differ from those that the operands promise."""
    if result.shape != problem.product.shape:
        return len(problem.row_sums) + len(problem.column_sums)
    exact = result.double()  # sums of up to 8192 integers below 2^24 are exact in it
    rows, columns = exact.sum(dim=1), exact.sum(dim=0)
    return int((rows != problem.row_sums).sum()) + int((columns != problem.column_sums).sum())


def _multiply(problem: Problem, dtype: torch.dtype) -> tuple[Tensor, float]:
    import torch

    left, right = problem.left.to(dtype), problem.right.to(dtype)
    _wait(left)
    begun = time.perf_counter()
    result = torch.matmul(left, right)
    _wait(left)
    return result, time.perf_counter() - begun


def _wait(tensor: Tensor) -> None:
    if tensor.is_cuda:
        import torch

        torch.cuda.synchronize(tensor.device)


def _outer_sum(rows: Tensor, slopes: Tensor, columns: Tensor) -> Tensor:
    return rows[:, None] + slopes[:, None] * columns[None, :]


def _gflops(size: int, seconds: float) -> float:
    return 2 * size**3 / seconds / 1e9
