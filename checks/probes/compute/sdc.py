"""compute.sdc: whether the device computes wrong results without an error (silent data corruption).

The answer of each product is known, so that a fault which gives the same wrong answer every
time is found, too; comparing a device with itself would miss it. Results are also compared and hashed on the host, because a device
that multiplies wrongly may compare wrongly. The answers are integers, so the digest is the same on every GPU model and library.

The products are of integer matrices, and known without multiplying, exact in float32, TF32, bfloat16 and float16.

The rows of a Hadamard matrix H of order k (entries 1 and -1) are orthogonal: H[p] . H[q] is k if p = q, else 0.
With rows and columns drawn from it and scaled, C[i,j] = a_i b_j k s where row i and column j are the same row of
H, and 0 elsewhere: every 0 is the exact cancellation of k products, so one that is lost or altered shows.

orthogonal: k is the order of the product; each row and column has a scale of 1, 2 or 3. The most is 9 k.
alternating: k = 256; along k the operands alternate between 85 and 51, and between 3 and 5 (in binary 1010101,
    110011, 11, 101), so that neighbours differ in many bits; 85 x 3 = 51 x 5 = 255. The most is 255 x 256.
Each also transposed, which other kernels multiply.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from checks.check import Basis, Context, Measurement
from checks.model_details import Contents
from checks.probes.compute import device as devices
from checks.probes.compute.device import Precision, is_cuda, multiplying, torch_check

if TYPE_CHECKING:
    from torch import Tensor

ALTERNATING_ORDER = 256
LEFT_PAIR, RIGHT_PAIR, PAIR_PRODUCT = (85.0, 51.0), (3.0, 5.0), 255.0
KINDS, TRANSPOSED = ("orthogonal", "alternating"), " transposed"
# 9 k and 255 x 256 must stay below 65504, the greatest float16, and 2^24, where float32 sums are exact.
MOST_ORDER = 4096
GOLDEN, STRIDE = 0x9E3779B1, 0x85EBCA6B  # odd, with bits spread evenly (Knuth's multiplicative hashing)
SIZES = {"cpu": 256, "cuda": 4096}
# The number of products for each one that is fetched and hashed, so that the device works more than it waits.
BURST = {"cpu": 1, "cuda": 16}
SECONDS, SEEDS, LEAST_REPEATS = 0.2, 1, 2


@dataclass
class ProblemResult:
    """The results of the repeats of one problem; `digest` is that of the bytes of the first one."""

    wrong: int = 0
    unsteady: int = 0
    repeats: int = 0
    products: int = 0
    digest: str = ""
    places: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class KnownProduct:
    """A product that is known in advance. Operands and answer are float32 on the host. `transposed`: the transposes are multiplied."""

    name: str
    left: Tensor
    right: Tensor
    answer: Tensor
    transposed: bool

    def operands(self, precision: Precision, device: str) -> tuple[Tensor, Tensor]:
        """The operands on the device."""
        left = self.left.to(precision.torch_dtype).to(device)
        right = self.right.to(precision.torch_dtype).to(device)
        return (right.t(), left.t()) if self.transposed else (left, right)

    def expected(self) -> Tensor:
        """The product of `operands`, in float32 on the host."""
        return self.answer.t().contiguous() if self.transposed else self.answer


def names(seeds: int) -> tuple[str, ...]:
    """The names of the problems that `all_known` yields."""
    return tuple(
        f"{family} {seed}{turned}" for family in KINDS for seed in range(seeds) for turned in ("", TRANSPOSED)
    )


def all_known(size: int, seeds: int) -> Iterator[KnownProduct]:
    """Every problem of the order, one at a time, because at a GPU's order each takes hundreds of MiB. They are equal on all ranks."""
    for family in KINDS:
        for seed in range(seeds):
            left, right, answer = (
                orthogonal(size, seed) if family == "orthogonal" else alternating(size, seed)
            )
            for transposed in (False, True):
                name = f"{family} {seed}{TRANSPOSED if transposed else ''}"
                yield KnownProduct(name, left, right, answer, transposed)


def orthogonal(size: int, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Permuted and scaled rows and columns of a whole Hadamard matrix: each row and column of the product has one number."""
    row_ids, columns, a, b = _drawn(size, size, seed)
    pattern = hadamard(size)
    left, right = a[:, None] * pattern[row_ids], (b[:, None] * pattern[columns]).t().contiguous()
    return left, right, _answer(row_ids, columns, a, b, float(size))


def alternating(size: int, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Rows of a small Hadamard matrix, each used many times, multiplied with the alternating scales along k; rows and columns differ
    by signs alone.
    """
    order = min(ALTERNATING_ORDER, size)
    row_ids, columns, a, b = _drawn(size, order, seed)
    a, b, pattern = a.sign(), b.sign(), hadamard(order)
    left = a[:, None] * pattern[row_ids] * _alternate(LEFT_PAIR, order)
    right = (b[:, None] * pattern[columns] * _alternate(RIGHT_PAIR, order)).t().contiguous()
    return left, right, _answer(row_ids, columns, a, b, order * PAIR_PRODUCT)


def hadamard(order: int) -> Tensor:
    """Sylvester's matrix; the order is a power of two. Raises ValueError if products would not be exact."""
    import torch

    if order > MOST_ORDER:
        raise ValueError(f"order {order} is too large for exact products: the maximum is {MOST_ORDER}")
    matrix = torch.ones((1, 1))
    while matrix.shape[0] < order:
        matrix = torch.cat([torch.cat([matrix, matrix], 1), torch.cat([matrix, -matrix], 1)])
    if matrix.shape[0] != order:
        raise ValueError(f"{order} is not a power of two")
    return matrix


def _drawn(size: int, order: int, seed: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The row of the Hadamard matrix for each line, and its scale: 1, 2 or 3 with a sign.

    It uses integer arithmetic alone, so that every version of torch gives the same result.
    """
    import torch

    index = torch.arange(size, dtype=torch.int64)
    mixed = [(index * GOLDEN + (2 * seed + side + 1) * STRIDE) % (1 << 32) for side in (0, 1)]
    # An odd factor permutes the residues of a power of two.
    row_ids, columns = ((index * (2 * seed + factor) + seed) % size % order for factor in (77, 1113))
    a, b = (((mix >> 11) % 3 + 1).float() * (1 - 2 * ((mix >> 17) % 2)).float() for mix in mixed)
    return row_ids, columns, a, b


def _alternate(pair: tuple[float, float], order: int) -> Tensor:
    import torch

    return torch.tensor(pair).repeat(order)[:order]


def _answer(row_ids: Tensor, columns: Tensor, a: Tensor, b: Tensor, most: float) -> Tensor:
    return (row_ids[:, None] == columns[None, :]) * (a[:, None] * b[None, :] * most) + 0.0  # no -0


def holds(basis: Basis) -> tuple[Contents, ...]:
    """Every problem in every precision, each repeated."""
    problem_names = names(int(basis.options.get("seeds", SEEDS)))
    problems = tuple(f"{precision} {name}" for name in problem_names for precision in devices.expected(basis))
    counts = (Contents(name, LEAST_REPEATS * len(problems)) for name in ("repeats", "products"))
    return Contents("problems", labels=problems), *counts


@torch_check(
    "compute.sdc",
    ("wrong_elements", "problems", "unsteady_repeats", "digest", "repeats", "products"),
    timeout_s=600,
    holds=holds,
)
def sdc(context: Context) -> Measurement:
    """Repeats products with known answers, in several bit patterns and precisions; one digest over all of them.

    `wrong_elements` counts for each of `problems` over all products; `unsteady_repeats` are those whose bytes differ
    from the first repeat's. `digest` is the SHA-256 over the first repeat's bytes of all problems, in their order:
    equal on every device that is sound, and in every run of a profile.
    """
    device, options = devices.place_of(context, "compute.sdc").device, context.options
    size = SIZES["cuda" if is_cuda(device) else "cpu"]
    with devices.released(device):
        return measure(device, size, options.get("seconds", SECONDS), int(options.get("seeds", SEEDS)))


def measure(device: str, size: int, seconds: float, seeds: int) -> Measurement:
    """The measurement on a torch device, in about `seconds`, with at least LEAST_REPEATS of each problem."""
    tried = devices.precisions(device)
    results: dict[str, ProblemResult] = {}
    share_s = seconds / len(tried) / len(names(seeds))
    for problem in all_known(size, seeds):
        for precision in tried:
            results[f"{precision.name} {problem.name}"] = run(problem, precision, device, share_s)
    whole = hashlib.sha256("\n".join(f"{name} {result.digest}" for name, result in results.items()).encode())
    return Measurement(
        {
            "wrong_elements": tuple(result.wrong for result in results.values()),
            "problems": tuple(results),
            "unsteady_repeats": sum(result.unsteady for result in results.values()),
            "digest": whole.hexdigest(),
            "repeats": sum(result.repeats for result in results.values()),
            "products": sum(result.products for result in results.values()),
        },
        "\n".join(
            [f"{devices.name_of(device)} ({device}), order {size}: problem, SHA-256 of the first answer"]
            + [_account(name, result) for name, result in results.items()]
        ),
    )


def run(problem: KnownProduct, precision: Precision, device: str, seconds: float) -> ProblemResult:
    """Products of one problem until the time is over: all are compared on the device, and the last one of each burst on the host."""
    results, expected = ProblemResult(), problem.expected().to(precision.torch_dtype)
    left, right = problem.operands(precision, device)
    answer, burst = expected.to(device), BURST["cuda" if is_cuda(device) else "cpu"]
    end = time.monotonic() + seconds
    with multiplying(precision, device):
        while results.repeats < LEAST_REPEATS or time.monotonic() < end:
            last = _burst(results, left, right, answer, burst)
            _compare(results, last.cpu(), expected)
            results.repeats += 1
            results.products += burst
    return results


def _burst(results: ProblemResult, left: Tensor, right: Tensor, answer: Tensor, count: int) -> Tensor:
    """The last of `count` products; the others are compared on the device."""
    import torch

    wrong = torch.zeros((), dtype=torch.int64, device=left.device)
    result = torch.matmul(left, right)
    for _ in range(count - 1):
        wrong += (result != answer).sum()
        result = torch.matmul(left, right)
    results.wrong += int(wrong)
    return result


def _compare(results: ProblemResult, result: Tensor, expected: Tensor) -> None:
    """Compares and hashes on the host. NaN is wrong, and so is every element of another shape."""
    if result.shape != expected.shape or result.dtype != expected.dtype:
        results.wrong += expected.numel()
        results.places.append(f"the product is {tuple(result.shape)} of {result.dtype}")
    else:
        odd = (result != expected).nonzero()
        results.wrong += len(odd)
        for row_index, column in odd[: max(0, 3 - len(results.places))].tolist():
            value, due = float(result[row_index, column]), float(expected[row_index, column])
            results.places.append(f"[{row_index},{column}] is {value:.9g}, but it must be {due:.9g}")
    digest = digest_of(result)
    results.digest = results.digest or digest
    results.unsteady += digest != results.digest


def digest_of(result: Tensor) -> str:
    """SHA-256 of the bytes, in hex, after adding 0, so that -0 is 0."""
    return devices.digest_of(result + 0)


def _account(name: str, result: ProblemResult) -> str:
    wrong = f", {result.wrong} wrong elements: {'; '.join(result.places)}" if result.wrong else ""
    unsteady = f", {result.unsteady} repeats differ from the first" if result.unsteady else ""
    return (
        f"{name}: {result.digest[:16]}, {result.repeats} repeats, {result.products} products{unsteady}{wrong}"
    )
