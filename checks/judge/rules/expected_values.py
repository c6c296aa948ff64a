"""What a machine is expected to reach, from the values of machines of the same kind; None if there are none. Pure.

Bus bandwidth follows the curve through the known sizes of the same type, nodes, ranks, collective and transport: values for EFA say
nothing about TCP, and values for two nodes nothing about three. Between two known sizes, time = latency + size / bandwidth: the
curve is exact at the points, rises with the size, and does not depend on units.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from checks.facts.expected_tables import CollectiveRow, GemmRow, MemoryRow, TransferRow
from checks.facts.instances import DECLARED, Facts, Instance
from checks.facts.peak_rates import RooflinePart, of_model
from checks.facts.provenance import NumberKind, Provenance
from checks.probes.collectives.operations import FACTORS

# There is no expected value for sizes that are smaller than the smallest known one by more than this factor, because the latency is
# unknown.
REACH = 4.0


@dataclass(frozen=True)
class Estimate:
    """A bandwidth in the unit of the points: most likely `value`, between `low` and `high`; `points` are the sizes that were used."""

    value: float
    low: float
    high: float
    points: tuple[float, ...]


def estimate(points: Sequence[Sequence[float]], size: float, most: float = float("inf")) -> Estimate | None:
    """The bandwidth of a message of this size, at most `most`; None if it is more than `REACH` times smaller than the smallest
    point.

    `points` are (size, bandwidth), both rising. Between two points the estimate lies between their bandwidths; beyond the last
    point, the last stretch continues.
    """
    if not points or size < points[0][0] / REACH:
        return None
    raw = _raw(points, size)
    return Estimate(min(raw.value, most), min(raw.low, most), min(raw.high, most), raw.points)


def _raw(points: Sequence[Sequence[float]], size: float) -> Estimate:
    for point_size, gbps in points:
        if point_size == size:
            return Estimate(gbps, gbps, gbps, (point_size,))
    first, last = points[0], points[-1]
    if size < first[0]:
        return _below(points, size)
    if len(points) == 1:
        return Estimate(first[1], first[1], _endless(first, size), (first[0],))
    if size > last[0]:
        value = _through(points[-2], last, size)
        return Estimate(value, last[1], _endless(last, size), (points[-2][0], last[0]))
    at = next(index for index, point in enumerate(points) if point[0] > size)
    left, right = points[at - 1], points[at]
    return Estimate(_through(left, right, size), left[1], right[1], (left[0], right[0]))


def _below(points: Sequence[Sequence[float]], size: float) -> Estimate:
    """The estimate below the smallest known size: between a message that takes as long as that one, and a message that has its
    bandwidth.
    """
    first = points[0]
    slowest, fastest = first[1] * size / first[0], first[1]
    value = _through(first, points[1], size) if len(points) > 1 else slowest
    return Estimate(value, slowest, fastest, tuple(point[0] for point in points[:2]))


def _through(left: Sequence[float], right: Sequence[float], size: float) -> float:
    """The estimate on the line of time over size through both points."""
    took, next_took = left[0] / left[1], right[0] / right[1]
    return size / (took + (next_took - took) * (size - left[0]) / (right[0] - left[0]))


def _endless(last: Sequence[float], size: float) -> float:
    """The upper limit for a larger message, as if the time of the last point had been latency alone."""
    return last[1] * size / last[0]


NVLINK, PCIE, EFA, INFINIBAND, TCP = "nvlink", "pcie", "efa", "infiniband", "tcp"
# If no measurement is published, a collective has to reach this share of what its links can carry. Measured all_reduce
# reaches 0.3 (8 MiB) to 0.8 of it over NVLink (SuperBench, 8 x A100), 0.38 (128 MiB) to 0.65 over EFA (AWS's nccl-tests
# README, 2 x p5); NCCL's fallback to TCP on 2 x p6-b300 reached 0.01. The share lies between, far from the healthy side.
FLOOR_SHARE = 0.04
# Each rank's part of a message must be as large, or latency sets the time and not the links: judgement, after nccl-tests
# of 8 MiB over 8 ranks (SuperBench), which reach a third of the links' rate.
FLOOR_BYTES_A_RANK = 1 << 20
# The time that a smaller message may take besides its transfer, for each of two steps per rank (a ring's all_reduce): judgement,
# many
# times the 20 to 40 us that a step between nodes takes.
FLOOR_STEP_S = 100e-6
ALL_REDUCE, RAILS, PEER = "all_reduce", "all_reduce_of_rails", "p2p"
# NVLink between nodes: NVL72 racks (NVIDIA, GB200 NVL72).
RACK_MODELS = ("GB200", "GB300")
Record = TypeVar("Record", GemmRow, MemoryRow, TransferRow)


@dataclass(frozen=True)
class Expected:
    """A rate in the metric's unit: most likely `value`, between `low` and `high`; never above `most`, the roofline.

    `points` are the known sizes from which it was estimated. If `is_limit`, `value` is a published limit for a failure, not a usual
    value; if `is_floor`, that limit was derived from what the links can carry, because no measurement is known.
    """

    value: float
    low: float
    high: float
    provenance: Provenance
    points: tuple[float, ...] = ()
    most: float | None = None
    is_limit: bool = False
    is_floor: bool = False


def expected_busbw(
    facts: Facts,
    instance_type: str,
    nodes: int,
    ranks: int,
    collective: str,
    size_bytes: float,
    transport: str,
) -> Expected | None:
    """The expected bus bandwidth in 10^9 bytes/s of a message of this size, with size and bandwidth as nccl-tests defines them."""
    most = most_busbw(facts, instance_type, nodes, ranks, collective, transport)
    wanted = (nodes, ranks, collective, transport)
    for record in facts.expected.collectives:
        if not _is_for(facts, record, instance_type, transport) or wanted != _shape(record):
            continue
        result = estimate(record.points, size_bytes, float("inf") if most is None else most)
        if result is not None:
            low = result.low * record.low_fraction
            return Expected(result.value, low, result.high, record.provenance, result.points, most)
    return None


def _is_for(facts: Facts, record: CollectiveRow, instance_type: str, transport: str) -> bool:
    """Whether the row's machines are of this type, or an own type has the same GPUs with as many NVLinks, over which it goes."""
    own = facts.instances.get(instance_type)
    if instance_type in record.types or own is None or own.provenance != DECLARED or transport != NVLINK:
        return instance_type in record.types
    return any(
        (like.gpu, like.gpus, like.nvlinks) == (own.gpu, own.gpus, own.nvlinks)
        for like in map(facts.instances.get, record.types)
        if like is not None
    )


def most_busbw(
    facts: Facts, instance_type: str, nodes: int, ranks: int, collective: str, transport: str
) -> float | None:
    """The bus bandwidth that no such machine can exceed; None if the tables do not say.

    Within a node a GPU sends no faster than its NVLinks, and must send each byte of a message twice (factor 2 (n-1)/n), or once if
    the switch adds. Between nodes each node must receive the others' part of every message, whatever the algorithm: two nodes may
    exceed the network's rate because of that, since the half that stays within them counts too.
    """
    instance = facts.instances.get(instance_type)
    roofline = facts.expected.rooflines.find(instance.gpu) if instance else None
    if instance is None or roofline is None:
        return None
    if transport in (NVLINK, PCIE):
        return _within(roofline, ranks, collective, transport)
    wire = max(instance.network_gbit_s or 0, instance.network_burst_gbit_s or 0) / 8
    if not wire or nodes < 2:
        return None
    if collective == RAILS:
        return wire * FACTORS[ALL_REDUCE](nodes)
    if collective == ALL_REDUCE:
        return wire * FACTORS[ALL_REDUCE](ranks)
    return wire * nodes / (nodes - 1) * FACTORS[collective](ranks) if collective in FACTORS else None


def floor_busbw(
    facts: Facts,
    instance_type: str,
    nodes: int,
    ranks: int,
    collective: str,
    size_bytes: float,
    transport: str,
    largest: bool = False,
) -> Expected | None:
    """The bus bandwidth (10^9 bytes/s) below which links of this type are not used properly; None if the tables do not say.

    It is FLOOR_SHARE of what the links can carry, for messages of which each rank has FLOOR_BYTES_A_RANK. For a smaller message it
    is less by FLOOR_STEP_S, and it is only used if nothing larger was measured (`largest`).
    """
    possible = _possible_busbw(facts, instance_type, nodes, ranks, collective, transport)
    small = size_bytes < ranks * FLOOR_BYTES_A_RANK
    if possible is None or (small and not largest):
        return None
    least = FLOOR_SHARE * possible
    if small:
        factor = FACTORS.get(collective, FACTORS[ALL_REDUCE])(ranks)
        least = 1 / (1 / least + 2 * ranks * FLOOR_STEP_S * 1e9 / (factor * size_bytes))
    origin = Provenance(
        f"the links of {instance_type} by the tables of checks/facts (instances.json, parts.json)",
        f"{FLOOR_SHARE:g} of the {possible:.4g} GB/s that they can carry, as no measurement is published",
        "2026-11",
        NumberKind.DERIVED,
    )
    most = most_busbw(facts, instance_type, nodes, ranks, collective, transport)
    return Expected(least, least, possible, origin, most=most, is_limit=True, is_floor=True)


def _possible_busbw(
    facts: Facts, instance_type: str, nodes: int, ranks: int, collective: str, transport: str
) -> float | None:
    """What the links carry if all GPUs of a node share its network evenly, in 10^9 bytes/s of bus bandwidth.

    `most_busbw` is a limit that cannot be exceeded; this is a rate that a healthy machine can come near. Over the network a node
    must receive, of a message of S bytes: S in all_reduce, broadcast and reduce, S (nodes - 1) / nodes in all_gather and
    reduce_scatter, that much for each of its GPUs in alltoall; in sendrecv one GPU's own share carries S.
    """
    instance = facts.instances.get(instance_type)
    roofline = facts.expected.rooflines.find(instance.gpu) if instance else None
    if instance is None or roofline is None or ranks < 2:
        return None
    if transport == NVLINK:
        return roofline.nvlink_gbps
    if transport == PCIE:
        return roofline.pcie_gbps * (0.5 if instance.pcie_width == 8 else 1.0)
    if not transport or not instance.network_gbit_s or nodes < 2:
        return None
    wire, others = instance.network_gbit_s / 8, nodes / (nodes - 1)
    of_a_gpu = wire / max(instance.gpus, 1)
    return {
        ALL_REDUCE: wire * FACTORS[ALL_REDUCE](ranks),
        RAILS: of_a_gpu * FACTORS[ALL_REDUCE](nodes),
        "all_gather": wire * others * FACTORS["all_gather"](ranks),
        "reduce_scatter": wire * others * FACTORS["reduce_scatter"](ranks),
        "alltoall": of_a_gpu * others * FACTORS["alltoall"](ranks),
        "sendrecv": of_a_gpu,
        "broadcast": wire,
        "reduce": wire,
    }.get(collective)


def _within(roofline: RooflinePart, ranks: int, collective: str, transport: str) -> float | None:
    if transport == PCIE:
        return roofline.pcie_gbps
    if roofline.nvlink_gbps is None:
        return None
    adds = roofline.sums_in_switch and collective == ALL_REDUCE
    return roofline.nvlink_gbps * (FACTORS[ALL_REDUCE](ranks) if adds else 1.0)


def transport_of(instance: Instance, nodes: int) -> str:
    """The transport that must carry the data of this many nodes of the type; "" if the table does not say."""
    if nodes == 1 or instance.gpu.startswith(RACK_MODELS):
        return {None: "", 0: PCIE}.get(instance.nvlinks, NVLINK)
    if instance.efa_devices is None:
        return ""
    without_efa = INFINIBAND if instance.ib_ports else TCP
    return EFA if instance.efa_devices else without_efa


def expected_gemm(facts: Facts, model: str, precision: str) -> Expected | None:
    """The rate that the model sustains in large products, in 10^12 operations per second."""
    records = [record for record in facts.expected.gemm if record.precision == precision]
    peaks = facts.expected.rooflines.find(model)
    return _fitting(
        model, records, lambda record: record.tflops, peaks.most_tflops(precision) if peaks else None
    )


def expected_memory(facts: Facts, model: str, test: str) -> Expected | None:
    """The rate of the model's own memory in a "copy" or "triad", in 10^9 bytes/s, reads and writes together."""
    records = [record for record in facts.expected.memory if record.test == test]
    peaks = facts.expected.rooflines.find(model)
    return _fitting(model, records, lambda record: record.gbps, peaks.memory_gbps if peaks else None)


def expected_transfer(facts: Facts, model: str, direction: str) -> Expected | None:
    """The rate of one copy, in 10^9 bytes/s: "h2d", "d2h", or "p2p" between two GPUs that NVLinks connect."""
    records = [record for record in facts.expected.transfer if record.way == direction]
    peaks = facts.expected.rooflines.find(model)
    return _fitting(model, records, lambda record: record.gbps, peaks.most_gbps(direction) if peaks else None)


def _fitting(
    model: str, records: Sequence[Record], rate: Callable[[Record], float], most: float | None
) -> Expected | None:
    """The row's rate, of the longest model that fits this name: the row for A100-SXM4-40GB comes before the row for every A100."""
    name = of_model(model, [record.model for record in records])
    for record in records:
        if record.model == name:
            value = rate(record)
            is_limit = record.provenance.kind is NumberKind.THRESHOLD
            return Expected(value, value * record.low_fraction, value, record.provenance, (), most, is_limit)
    return None


def _shape(record: CollectiveRow) -> tuple[int, int, str, str]:
    return record.nodes, record.ranks, record.collective, record.transport
