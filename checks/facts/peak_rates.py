"""What a GPU model can do at most, according to its maker. A measured rate above it was timed wrongly."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Annotated

from checks.facts.provenance import Provenance
from checks.value_types import Range

Rate = Annotated[float, Range(0.1, 1e6)]
HALVES = ("bf16", "fp16")


@dataclass(frozen=True)
class RooflinePart:
    """A GPU model. `tflops`: 10^12 dense operations per second, by precision. Bandwidths in 10^9 bytes/s, one way: `memory_gbps` of
    its own memory (reads and writes together), `pcie_gbps` of its link to the host, `nvlink_gbps` of all its NVLinks;
    `sums_in_switch`: the NVSwitch computes sums (NVLS), so that an all_reduce moves each byte once.
    """

    model: str
    tflops: Mapping[str, Rate]
    memory_gbps: Rate
    pcie_gbps: Rate
    provenance: Provenance
    nvlink_gbps: Rate | None = None
    sums_in_switch: bool = False

    def most_tflops(self, precision: str) -> float:
        """The peak in a precision; that of the fastest 16-bit format if the table does not say."""
        return self.tflops.get(precision, self.half_tflops)

    def most_gbps(self, path: str) -> float:
        """The maximum rate of one copy: "h2d", "d2h", or "p2p" between two GPUs."""
        return self.nvlink_gbps or self.pcie_gbps if path == "p2p" else self.pcie_gbps

    @property
    def half_tflops(self) -> float:
        """The peak of the fastest 16-bit format, which no wider format exceeds."""
        return max(self.tflops[name] for name in HALVES if name in self.tflops)


@dataclass(frozen=True)
class GpuModels:
    """The rooflines of the known models."""

    models: tuple[RooflinePart, ...] = field(default_factory=tuple)

    def find(self, name: str) -> RooflinePart | None:
        """The part by its own name ("NVIDIA H100 80GB HBM3", "A100-SXM4-40GB"), with the longest model that fits.

        None if no model fits, or two models of different families fit.
        """
        name_text = _normalised(name)
        fitting = sorted(
            (p for p in self.models if _holds(name_text, p.model)), key=lambda model: len(model.model)
        )
        if not fitting:
            return None
        longest = fitting[-1]
        related = all(_holds(_normalised(longest.model), roofline.model) for roofline in fitting)
        return longest if related else None


def of_model(name: str, models: Sequence[str]) -> str | None:
    """The longest of these models that fits the name; None if none does."""
    name_text = _normalised(name)
    return max((model for model in models if _holds(name_text, model)), key=len, default=None)


@lru_cache(maxsize=1024)
def _normalised(name: str) -> str:
    return " ".join(re.split(r"[\s-]+", name.strip()))


def _holds(name_text: str, model: str) -> bool:
    return f" {_normalised(model)} " in f" {name_text} "
