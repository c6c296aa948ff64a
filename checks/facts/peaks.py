"""The most that a GPU can compute, by what it calls itself: a rate above it was not measured, but mistimed."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from checks.facts.expected_tables import builtin as tables
from checks.facts.parts import RooflinePart


@dataclass(frozen=True)
class Peak:
    """`tflops`: 10^12 dense operations a second of the fastest 16-bit format; no wider format is faster."""

    model: str
    tflops: float
    source: str


@lru_cache(maxsize=1)
def builtin() -> tuple[Peak, ...]:
    """The peaks of this version."""
    return tuple(_peak(part) for part in tables().parts.parts)


def peak_of(device_name: str) -> Peak | None:
    """The peak of a device by what it calls itself ("NVIDIA H100 80GB HBM3", "NVIDIA A10G"); None if unknown."""
    part = tables().parts.find(device_name)
    return _peak(part) if part else None


def limit_tflops(device_name: str, precision: str = "") -> float:
    """What the device cannot exceed, in this precision if its peak is known: its 16-bit peak otherwise.

    Of a device that nobody knows: the greatest that any known one has.
    """
    part = tables().parts.find(device_name)
    if part is None:
        return max(peak.tflops for peak in builtin())
    return part.most_tflops(precision)


def _peak(part: RooflinePart) -> Peak:
    return Peak(part.model, part.half_tflops, str(part.provenance))
