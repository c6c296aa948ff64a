"""The pattern that is written to memory and sent over links to verify that it arrives: 32-bit words that depend on their index.

Word i is (i x 2654435761 + seed) mod 2^31, so that a shifted, doubled, partial or earlier block differs. It is computed with
integers, so it is the same on every device. Its complement flips every bit.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

GOLDEN = 2654435761  # odd and near 2^32 over the golden ratio: neighbours differ in many bits (Knuth)
WORD_BYTES = 4
CHUNK = 1 << 20


def make(count: int, seed: int, device: str) -> Tensor:
    """The first `count` words, int32."""
    import torch

    result = torch.empty(count, dtype=torch.int32, device=device)
    for start, pattern in _chunks(count, seed, device):
        result[start : start + len(pattern)] = pattern
    return result


def wrong(received: Tensor, seed: int, flipped: bool = False) -> int:
    """How many of the words differ from those of `make`, or from its complement. Computed on the device that holds them."""
    odd = 0
    for start, pattern in _chunks(received.numel(), seed, str(received.device)):
        expected = pattern.bitwise_not() if flipped else pattern
        odd += unequal(received[start : start + len(pattern)], expected)
    return odd


def unequal(actual: Tensor, expected: Tensor) -> int:
    """How many elements of two tensors of the same shape differ. They are only counted if any differs, because counting is slower."""
    import torch

    return 0 if torch.equal(actual, expected) else int((actual != expected).sum())


def _chunks(count: int, seed: int, device: str) -> Iterator[tuple[int, Tensor]]:
    """One part at a time, because the 64-bit products of a whole buffer would need many times its size."""
    import torch

    for start in range(0, count, CHUNK):
        index = torch.arange(start, min(start + CHUNK, count), dtype=torch.int64, device=device)
        yield start, ((index * GOLDEN + seed) & 0x7FFFFFFF).to(torch.int32)
