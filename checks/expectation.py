"""What a machine is expected to reach, by what is known of its like; None where nothing is (pure).

Bus bandwidth follows the curve through the known sizes (checks/curve.py) of the same type, nodes, ranks, collective
and transport: what is known of EFA says nothing about TCP, and two nodes nothing about three.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from checks.curve import estimate
from checks.facts.expected_tables import CollectiveRow, GemmRow, MemoryRow, TransferRow
from checks.facts.parts import RooflinePart, of_model
from checks.facts.provenance import Kind, Provenance
from checks.facts.table import Facts, Instance
from checks.kinds import FACTORS

NVLINK, PCIE, EFA, TCP = "nvlink", "pcie", "efa", "tcp"
ALL_REDUCE, RAILS, PEER = "all_reduce", "all_reduce_of_rails", "p2p"
# NVLink between nodes: NVL72 racks (NVIDIA, GB200 NVL72).
RACK_MODELS = ("GB200", "GB300")
Row = TypeVar("Row", GemmRow, MemoryRow, TransferRow)


@dataclass(frozen=True)
class Expected:
    """A rate in the metric's unit: most likely `value`, between `low` and `high`; never above `most`, the roofline.

    `points` are the known sizes that it rests on. Where `is_limit`, `value` is somebody's fail line, not what is usual.
    """

    value: float
    low: float
    high: float
    provenance: Provenance
    points: tuple[float, ...] = ()
    most: float | None = None
    is_limit: bool = False


def expected_busbw(
    facts: Facts,
    instance_type: str,
    nodes: int,
    ranks: int,
    collective: str,
    size_bytes: float,
    transport: str,
) -> Expected | None:
    """Bus bandwidth in 10^9 bytes/s of a message of this size, as nccl-tests defines both."""
    most = most_busbw(facts, instance_type, nodes, ranks, collective, transport)
    wanted = (nodes, ranks, collective, transport)
    for row in facts.expected.collectives:
        if instance_type not in row.types or wanted != _shape(row):
            continue
        found = estimate(row.points, size_bytes, float("inf") if most is None else most)
        if found is not None:
            low = found.low * row.low_fraction
            return Expected(found.value, low, found.high, row.provenance, found.points, most)
    return None


def most_busbw(
    facts: Facts, instance_type: str, nodes: int, ranks: int, collective: str, transport: str
) -> float | None:
    """What no such machine can exceed; None where the tables do not tell.

    Within a node a GPU sends no faster than its NVLinks, and must send each byte of a message twice (factor 2 (n-1)/n),
    or once where the switch adds. Between nodes each node must receive the others' part of every message, whatever
    the algorithm: two nodes may so exceed the wire's rate, since the half of it that stays within them counts too.
    """
    instance = facts.instances.get(instance_type)
    part = facts.expected.parts.find(instance.gpu) if instance else None
    if instance is None or part is None:
        return None
    if transport in (NVLINK, PCIE):
        return _within(part, ranks, collective, transport)
    wire = max(instance.network_gbit_s or 0, instance.network_burst_gbit_s or 0) / 8
    if not wire or nodes < 2:
        return None
    if collective == RAILS:
        return wire * FACTORS[ALL_REDUCE](nodes)
    if collective == ALL_REDUCE:
        return wire * FACTORS[ALL_REDUCE](ranks)
    return wire * nodes / (nodes - 1) * FACTORS[collective](ranks) if collective in FACTORS else None


def _within(part: RooflinePart, ranks: int, collective: str, transport: str) -> float | None:
    if transport == PCIE:
        return part.pcie_gbps
    if part.nvlink_gbps is None:
        return None
    adds = part.sums_in_switch and collective == ALL_REDUCE
    return part.nvlink_gbps * (FACTORS[ALL_REDUCE](ranks) if adds else 1.0)


def transport_of(instance: Instance, nodes: int) -> str:
    """What must carry the data of this many nodes of the type; "" where the table does not say."""
    if nodes == 1 or instance.gpu.startswith(RACK_MODELS):
        return "" if instance.nvlinks is None else NVLINK if instance.nvlinks else PCIE
    return "" if instance.efa_devices is None else EFA if instance.efa_devices else TCP


def expected_gemm(facts: Facts, model: str, precision: str) -> Expected | None:
    """What the model sustains in large products, in 10^12 operations a second."""
    row = _fitting(model, [row for row in facts.expected.gemm if row.precision == precision])
    part = facts.expected.parts.find(model)
    return _of(row, row.tflops, part.most_tflops(precision) if part else None) if row else None


def expected_memory(facts: Facts, model: str, test: str) -> Expected | None:
    """What the model's own memory reaches in a "copy" or "triad", in 10^9 bytes/s, reads and writes together."""
    row = _fitting(model, [row for row in facts.expected.memory if row.test == test])
    part = facts.expected.parts.find(model)
    return _of(row, row.gbps, part.memory_gbps if part else None) if row else None


def expected_transfer(facts: Facts, model: str, way: str) -> Expected | None:
    """What one copy reaches, in 10^9 bytes/s: "h2d", "d2h", or "p2p" between two GPUs that NVLinks join."""
    row = _fitting(model, [row for row in facts.expected.transfer if row.way == way])
    part = facts.expected.parts.find(model)
    return _of(row, row.gbps, part.most_gbps(way) if part else None) if row else None


def _fitting(model: str, rows: Sequence[Row]) -> Row | None:
    """The row of the longest model that this name is of: an A100-SXM4-40GB's own before that of every A100."""
    name = of_model(model, [row.model for row in rows])
    return next((row for row in rows if row.model == name), None)


def _of(row: GemmRow | MemoryRow | TransferRow, value: float, most: float | None) -> Expected:
    is_limit = row.provenance.kind is Kind.THRESHOLD
    return Expected(value, value * row.low_fraction, value, row.provenance, (), most, is_limit)


def _shape(row: CollectiveRow) -> tuple[int, int, str, str]:
    return row.nodes, row.ranks, row.collective, row.transport
