"""The most that a GPU model can compute, by its maker's word: a rate above it was not measured, but mistimed."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from checks.decode import decode, parse_json

PEAKS = Path(__file__).parent / "peaks.json"


@dataclass(frozen=True)
class Peak:
    """`tflops`: 10^12 dense operations a second of the fastest 16-bit format; no wider format is faster."""

    model: str
    tflops: float
    source: str


@dataclass(frozen=True)
class _Peaks:
    peaks: tuple[Peak, ...]


@lru_cache(maxsize=1)
def builtin() -> tuple[Peak, ...]:
    """The peaks of this version."""
    return decode(_Peaks, parse_json(PEAKS.read_bytes(), 1 << 20)).peaks


def peak_of(device_name: str) -> Peak | None:
    """The peak of a device by what it calls itself ("NVIDIA H100 80GB HBM3", "NVIDIA A10G"); None if unknown."""
    words = re.split(r"[\s-]+", device_name)
    fitting = [peak for peak in builtin() if any(re.fullmatch(rf"{peak.model}G?", word) for word in words)]
    return fitting[0] if len(fitting) == 1 else None


def limit_tflops(device_name: str) -> float:
    """What the device cannot exceed: its peak, or the greatest known one where nobody knows its own."""
    known = peak_of(device_name)
    return known.tflops if known else max(peak.tflops for peak in builtin())
