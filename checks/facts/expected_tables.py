"""The values that machines are known to reach: collectives by size, products, memory, transfers; each row with its provenance.

A row that its part cannot reach, or that no plausible part could miss, is refused with a DecodeError: the first would fail every
machine, the second none. `fault_in` decides whether a threshold can separate a healthy part from a broken one: it must not be above
what the part can do, and not so low that no part could miss it.

Public thresholds have both faults: 300, 800 and 900 GB/s of bus bandwidth at 128 MiB between two nodes whose network ends at 94, 750
and 750; 2.333 GB/s of memory bandwidth for an H200, 0.5 GB/s of all_reduce for any p5.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any

from checks.documents.decode import parse_json
from checks.facts.peak_rates import GpuModels, RooflinePart
from checks.facts.provenance import MOST_BYTES, Provenance, rows_of, table_bytes
from checks.value_types import DecodeError, Range

# Healthy parts reach 0.37 of their roofline and more (a T4 with a limit of 70 W; DCGM's own limits are 0.51 to 0.66),
# and at a quarter of PCIe where GPUs share an uplink. DCGM's slips lie at 0.09 (A100-40) and 0.0005 (H200).
LEAST_OF_ROOFLINE = 0.2


def fault_in(threshold: float, roofline: float, name: str) -> str:
    """Why a lower threshold for a rate is unsuitable for this part, "" if it is suitable. Both are in the same unit."""
    if threshold > roofline:
        return f"{threshold:g} is above what a {name} can do ({roofline:g})"
    if threshold < LEAST_OF_ROOFLINE * roofline:
        return f"{threshold:g} is a floor that no {name} could miss (it can do {roofline:g})"
    return ""


HERE = Path(__file__).parent
Fraction = Annotated[float, Range(0.1, 1)]
Bandwidth = Annotated[float, Range(0.01, 1e6)]


@dataclass(frozen=True)
class CollectiveRow:
    """Bus bandwidths (10^9 bytes/s, as nccl-tests defines it) of one collective on `nodes` nodes of one of `types`.

    `points` are (size in bytes, bus bandwidth), both rising. `low_fraction` of them is the low end of what is expected.
    "all_reduce_of_rails": each GPU with its counterparts on the other nodes, all at once, `ranks` in a group.
    """

    types: tuple[str, ...]
    nodes: Annotated[int, Range(1, 100_000)]
    ranks: Annotated[int, Range(2, 1_000_000)]
    collective: str
    transport: str
    points: tuple[tuple[float, ...], ...]
    provenance: Provenance
    low_fraction: Fraction = 1.0


@dataclass(frozen=True)
class GemmRow:
    """10^12 operations a second that a model sustains in a precision."""

    model: str
    precision: str
    tflops: Annotated[float, Range(0.1, 1e5)]
    provenance: Provenance
    low_fraction: Fraction = 1.0


@dataclass(frozen=True)
class MemoryRow:
    """10^9 bytes/s of a model's own memory, reads and writes together; `test` is "copy" or "triad"."""

    model: str
    test: str
    gbps: Bandwidth
    provenance: Provenance
    low_fraction: Fraction = 1.0


@dataclass(frozen=True)
class TransferRow:
    """10^9 bytes/s one way: "h2d", "d2h" over the host's link, "p2p" between two GPUs of a node."""

    model: str
    way: str
    gbps: Bandwidth
    provenance: Provenance
    low_fraction: Fraction = 1.0


@dataclass(frozen=True)
class ExpectedTables:
    """All expected values of machines, and the rooflines of their parts."""

    rooflines: GpuModels = field(default_factory=GpuModels)
    collectives: tuple[CollectiveRow, ...] = ()
    gemm: tuple[GemmRow, ...] = ()
    memory: tuple[MemoryRow, ...] = ()
    transfer: tuple[TransferRow, ...] = ()


KINDS: Mapping[str, Any] = {
    "parts": RooflinePart, "collectives": CollectiveRow, "gemm": GemmRow, "memory": MemoryRow, "transfer": TransferRow
}  # fmt: skip
FILES = tuple(KINDS)
# The column of a row, and what the part can do at most.
LIMITS: Mapping[str, tuple[str, Callable[[RooflinePart, Any], float]]] = {
    "gemm": ("tflops", lambda model, entry: model.most_tflops(entry.precision)),
    "memory": ("gbps", lambda model, entry: model.memory_gbps),
    "transfer": ("gbps", lambda model, entry: model.most_gbps(entry.way)),
}


@lru_cache(maxsize=1)
def builtin() -> ExpectedTables:
    """The tables of this version."""
    return load({name: table_bytes(HERE / f"{name}.json") for name in FILES})


def load(texts: Mapping[str, bytes]) -> ExpectedTables:
    """The tables from their JSON texts, by name. Raises DecodeError."""
    entries = {
        name: rows_of(parse_json(texts[name], MOST_BYTES), name, entry_type)
        for name, entry_type in KINDS.items()
    }
    tables = ExpectedTables(GpuModels(entries.pop("parts")), **entries)
    _require_sense(tables)
    return tables


def _require_sense(tables: ExpectedTables) -> None:
    for at, curve in enumerate(tables.collectives):
        _require_curve(curve, f"collectives[{at}]")
    for name, (column, most) in LIMITS.items():
        for at, entry in enumerate(getattr(tables, name)):
            model = tables.rooflines.find(entry.model)
            if model is None:
                raise DecodeError(f"there is no part {entry.model!r} to hold it to", f"{name}[{at}]")
            reason = fault_in(getattr(entry, column), most(model, entry), entry.model)
            # A pair of V100s has one or two of its six NVLinks.
            if reason and (entry.model, getattr(entry, "way", "")) != ("V100", "p2p"):
                raise DecodeError(reason, f"{name}[{at}]")


def _require_curve(curve: CollectiveRow, path: str) -> None:
    """Sizes and bandwidths must rise, and with them the times, so that everything between two points rises as well."""
    if not curve.points or any(len(point) != 2 or min(point) <= 0 for point in curve.points):
        raise DecodeError("points are pairs of a size and a bus bandwidth, both above 0", f"{path}.points")
    for (size, gbps), (next_size, next_gbps) in zip(curve.points, curve.points[1:], strict=False):
        if next_size <= size or next_gbps < gbps or next_size / next_gbps <= size / gbps:
            raise DecodeError(
                f"the point at {next_size:g} does not follow that at {size:g}", f"{path}.points"
            )
