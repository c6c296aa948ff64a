"""Products of integer matrices that are known without multiplying, exact in float32, TF32, bfloat16 and float16.

The rows of a Hadamard matrix H of order k (entries 1 and -1) are orthogonal: H[p] . H[q] is k if p = q, else 0.
With rows and columns drawn from it and scaled, C[i,j] = a_i b_j k s where row i and column j are the same row of
H, and 0 elsewhere: every 0 is the exact cancellation of k products, so one that is lost or altered shows.

orthogonal: k is the order of the product; each row and column has a scale of 1, 2 or 3. The most is 9 k.
alternating: k = 256; along k the operands alternate between 85 and 51, and between 3 and 5 (in binary 1010101,
    110011, 11, 101), so that neighbours differ in many bits; 85 x 3 = 51 x 5 = 255. The most is 255 x 256.
Each also transposed, which other kernels multiply.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from checks.probes.compute.device import Precision

if TYPE_CHECKING:
    from torch import Tensor

ALTERNATING_ORDER = 256
LEFT_PAIR, RIGHT_PAIR, PAIR_PRODUCT = (85.0, 51.0), (3.0, 5.0), 255.0
KINDS, TRANSPOSED = ("orthogonal", "alternating"), " transposed"
# 9 k and 255 x 256 must stay below 65504, the greatest float16, and 2^24, where float32 sums are exact.
MOST_ORDER = 4096
GOLDEN, STRIDE = 0x9E3779B1, 0x85EBCA6B  # odd, with bits spread evenly (Knuth's multiplicative hashing)


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
        f"{kind} {seed}{turned}" for kind in KINDS for seed in range(seeds) for turned in ("", TRANSPOSED)
    )


def all_known(size: int, seeds: int) -> Iterator[KnownProduct]:
    """Every problem of the order, one at a time, because at a GPU's order each takes hundreds of MiB. They are equal on all ranks."""
    for kind in KINDS:
        for seed in range(seeds):
            left, right, answer = orthogonal(size, seed) if kind == "orthogonal" else alternating(size, seed)
            for transposed in (False, True):
                name = f"{kind} {seed}{TRANSPOSED if transposed else ''}"
                yield KnownProduct(name, left, right, answer, transposed)


def orthogonal(size: int, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Permuted and scaled rows and columns of a whole Hadamard matrix: each row and column of the product has one number."""
    rows, columns, a, b = _drawn(size, size, seed)
    pattern = hadamard(size)
    left, right = a[:, None] * pattern[rows], (b[:, None] * pattern[columns]).t().contiguous()
    return left, right, _answer(rows, columns, a, b, float(size))


def alternating(size: int, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Rows of a small Hadamard matrix, each used many times, multiplied with the alternating scales along k; rows and columns differ
    by signs alone.
    """
    order = min(ALTERNATING_ORDER, size)
    rows, columns, a, b = _drawn(size, order, seed)
    a, b, pattern = a.sign(), b.sign(), hadamard(order)
    left = a[:, None] * pattern[rows] * _alternate(LEFT_PAIR, order)
    right = (b[:, None] * pattern[columns] * _alternate(RIGHT_PAIR, order)).t().contiguous()
    return left, right, _answer(rows, columns, a, b, order * PAIR_PRODUCT)


def hadamard(order: int) -> Tensor:
    """Sylvester's matrix; the order is a power of two. Raises ValueError if products would not be exact."""
    import torch

    if order > MOST_ORDER:
        raise ValueError(f"order {order} is too large for exact products: the maximum is {MOST_ORDER}")
    made = torch.ones((1, 1))
    while made.shape[0] < order:
        made = torch.cat([torch.cat([made, made], 1), torch.cat([made, -made], 1)])
    if made.shape[0] != order:
        raise ValueError(f"{order} is not a power of two")
    return made


def _drawn(size: int, order: int, seed: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The row of the Hadamard matrix for each line, and its scale: 1, 2 or 3 with a sign.

    It uses integer arithmetic alone, so that every version of torch gives the same result.
    """
    import torch

    index = torch.arange(size, dtype=torch.int64)
    mixed = [(index * GOLDEN + (2 * seed + side + 1) * STRIDE) % (1 << 32) for side in (0, 1)]
    # An odd factor permutes the residues of a power of two.
    rows, columns = ((index * (2 * seed + factor) + seed) % size % order for factor in (77, 1113))
    a, b = (((mix >> 11) % 3 + 1).float() * (1 - 2 * ((mix >> 17) % 2)).float() for mix in mixed)
    return rows, columns, a, b


def _alternate(pair: tuple[float, float], order: int) -> Tensor:
    import torch

    return torch.tensor(pair).repeat(order)[:order]


def _answer(rows: Tensor, columns: Tensor, a: Tensor, b: Tensor, most: float) -> Tensor:
    return (rows[:, None] == columns[None, :]) * (a[:, None] * b[None, :] * most) + 0.0  # no -0
