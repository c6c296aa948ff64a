"""compute.memory_bandwidth: whether memory keeps what is written, and how fast it is."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING

from checks.check import CheckError, Context, Measurement
from checks.model_details import Contents
from checks.probes.compute import bit_patterns
from checks.probes.compute import device as devices
from checks.probes.compute.device import timed, torch_check

if TYPE_CHECKING:
    from torch import Tensor

MIB = 1 << 20
CPU_MIB, GPU_MIB = 32, 1024
SECONDS, LEAST_REPEATS = 0.2, 4
# On a GPU a single run after other work is up to 8 % slower than the same run after itself, and varies by 5 % (measured on an H200).
BURST, BURSTS = 10, 5
# Three buffers, and the parts in which they are verified.
BUFFERS_HELD = 4
# The moduli are coprime, so that their sum repeats only after 129,667 indices.
FIRST_MODULUS, SECOND_MODULUS, FACTOR = 1021, 127, 3


@dataclass
class MemoryRuns:
    """The times of single runs, the mean times of bursts of them (only on a GPU), and the number of wrong words."""

    seconds: list[float]
    wrong: int = 0
    bursts: list[float] = field(default_factory=list)

    @property
    def typical_s(self) -> float:
        """The median time of a run."""
        return median(self.bursts or self.seconds)


@torch_check(
    "compute.memory_bandwidth",
    ("wrong_words", "copy_gbps", "triad_gbps", "buffer_bytes", "repeats"),
    timeout_s=120,
    holds=lambda basis: (Contents("repeats", 2 * LEAST_REPEATS),),
)
def memory_bandwidth(context: Context) -> Measurement:
    """Copies and adds large buffers, compares the words, and takes the rates.

    A GPU's buffers are larger than its caches; on a CPU, whose ranks share caches and memory, they need not be.
    Rates are in 10^9 bytes/s, the median of single runs, on a GPU of bursts of them, counting each byte read or written: two a byte
    copied, three a byte of a = b + 3 c (triad). `wrong_words` counts 32-bit words: of copies, each compared whole, bits flipped
    between; of sums, the first and the last; and of the source, which must hold what was written, and its complement.
    """
    device, options = devices.place_of(context, "compute.memory_bandwidth").device, context.options
    mib = options.get("gpu_mib", GPU_MIB) if devices.is_cuda(device) else options.get("cpu_mib", CPU_MIB)
    with devices.released(device):
        return measure(device, int(mib) * MIB, options.get("seconds", SECONDS))


def measure(device: str, buffer_bytes: int, seconds: float) -> Measurement:
    """The measurement on a torch device, in about twice `seconds`. Raises CheckError if there is not enough memory."""
    _require_room(device, BUFFERS_HELD * buffer_bytes)
    count = buffer_bytes // bit_patterns.WORD_BYTES
    copied = copies(count, device, seconds)
    added = triads(count, device, seconds)
    copy_gbps = 2 * buffer_bytes / copied.typical_s / 1e9
    triad_gbps = 3 * buffer_bytes / added.typical_s / 1e9
    return Measurement(
        {
            "wrong_words": copied.wrong + added.wrong,
            "copy_gbps": copy_gbps,
            "triad_gbps": triad_gbps,
            "buffer_bytes": buffer_bytes,
            "repeats": len(copied.seconds) + len(added.seconds),
        },
        f"{devices.name_of(device)} ({device}), buffers of {buffer_bytes} bytes\n"
        f"copy: {copy_gbps:.2f} GB/s, {len(copied.seconds)} single runs, {copied.wrong} wrong words\n"
        f"triad: {triad_gbps:.2f} GB/s, {len(added.seconds)} single runs, {added.wrong} wrong words",
    )


def copies(count: int, device: str, seconds: float) -> MemoryRuns:
    """Copies the words. All bits are flipped between two copies, so that the result of an earlier copy is wrong everywhere."""
    import torch

    source, target = bit_patterns.make(count, 0, device), torch.zeros(count, dtype=torch.int32, device=device)
    score, flipped = MemoryRuns([]), False

    def once() -> None:
        target.copy_(source)

    target.copy_(source)  # the first copy allocates the pages
    end = time.monotonic() + seconds
    while len(score.seconds) < LEAST_REPEATS or time.monotonic() < end:
        source.bitwise_not_()
        flipped = not flipped
        score.seconds.append(timed(once, device))
        score.wrong += bit_patterns.unequal(target, source)
    score.bursts = _bursts(once, device)
    for polarity in (flipped, not flipped):  # a stuck bit shows in only one of them
        score.wrong += bit_patterns.wrong(source, 0, polarity)
        source.bitwise_not_()
    return score


def triads(count: int, device: str, seconds: float) -> MemoryRuns:
    """Adds buffers of small integers: a = b + 3 c, which is exact."""
    import torch

    first = _remainders(count, FIRST_MODULUS, device)
    second = _remainders(count, SECOND_MODULUS, device)
    total = torch.full((count,), -1.0, device=device)
    score = MemoryRuns([])

    def once() -> None:
        torch.add(first, second, alpha=FACTOR, out=total)

    once()
    score.wrong += _wrong_sums(total)
    total.fill_(-1.0)
    end = time.monotonic() + seconds
    while len(score.seconds) < LEAST_REPEATS or time.monotonic() < end:
        score.seconds.append(timed(once, device))
    score.bursts = _bursts(once, device)
    score.wrong += _wrong_sums(total)
    return score


def _bursts(run: Callable[[], None], device: str) -> list[float]:
    return [timed(run, device, BURST) for _ in range(BURSTS)] if devices.is_cuda(device) else []


def _remainders(count: int, modulus: int, device: str) -> Tensor:
    """i mod `modulus` as float32, without 64-bit integers for the whole buffer."""
    import torch

    period = torch.arange(modulus, dtype=torch.float32, device=device)
    return period.repeat(-(-count // modulus))[:count].clone()


def _wrong_sums(total: Tensor) -> int:
    """How many sums differ from those of the indices, which repeat after the product of the moduli. NaN counts as different."""
    import torch

    index = torch.arange(FIRST_MODULUS * SECOND_MODULUS, device=total.device)
    period = (index % FIRST_MODULUS + FACTOR * (index % SECOND_MODULUS)).float()
    pieces = (total[start : start + len(period)] for start in range(0, total.numel(), len(period)))
    return sum(bit_patterns.unequal(piece, period[: len(piece)]) for piece in pieces)


def _require_room(device: str, needed: int) -> None:
    if not devices.is_cuda(device):
        return
    import torch

    free, total = torch.cuda.mem_get_info(device)
    if free < needed:
        raise CheckError(
            f"{device} has {free / 1e9:.1f} of {total / 1e9:.1f} GB free, but {needed / 1e9:.1f} GB are needed. "
            "End other programs that use it (see gpu.processes)."
        )
