"""What a node of an instance type can do at most, for everything that a check measures as a rate. Pure.

It also has the greatest rate at which a GPU can compute, by its own name. A measured rate above it was timed wrongly.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from checks.facts.expected_tables import builtin as tables
from checks.facts.instances import Instance
from checks.facts.peak_rates import RooflinePart

# AWS EC2 user guide, network bandwidth: 10 Gbit/s for one TCP flow within a cluster placement group (5 outside).
FLOW_GBPS = 1.25


class Quantity(str, Enum):
    """What a rate measures, and therefore what limits it."""

    COMPUTE_GFLOPS = "10^9 operations/s"
    COMPUTE_TFLOPS = "10^12 operations/s"
    MEMORY = "GB/s of GPU memory"
    HOST = "GB/s of the host's link"
    PEER = "GB/s between two GPUs"
    NODE_BUS = "GB/s of bus bandwidth within a node"
    BUS = "GB/s of bus bandwidth"
    NETWORK = "Gbit/s of network"
    FLOW = "GB/s of one TCP flow"


@dataclass(frozen=True)
class Roofline:
    """The maximum of a part: `least` if the declaration is the most unfavourable one, `most` if it is the most favourable one."""

    least: float
    most: float


def bus_gbps(instance: Instance, model: RooflinePart, nodes: int) -> float | None:
    """The maximum bus bandwidth of an all_reduce over all GPUs, as nccl-tests counts it; None if a limit is unknown.

    Each GPU must receive the sum once if the switch adds (NVLS), so time >= S / link and busbw <= 2 (n - 1) / n link; otherwise
    every byte crosses a link 2 (n - 1) / n times and busbw <= link. A node must receive the sum once.
    """
    ranks = nodes * max(instance.gpus, 1)
    factor = 2 * (ranks - 1) / ranks
    link = model.nvlink_gbps if instance.nvlinks and model.nvlink_gbps else model.pcie_gbps * _lanes(instance)
    within = link * factor if model.sums_in_switch and instance.nvlinks else link
    if nodes == 1:
        return within
    network = instance.network_gbit_s or instance.network_burst_gbit_s
    return None if network is None else min(within, network / 8 * factor)


def rooflines(instance: Instance, model: RooflinePart) -> Mapping[Quantity, Roofline]:
    """The maxima of a node of the type, as far as the tables say."""
    low, high = min(model.tflops.values()), max(model.tflops.values())
    single = model.tflops.get("fp32", high)
    limits = {
        Quantity.COMPUTE_GFLOPS: Roofline(1000 * single, 1000 * high),
        Quantity.COMPUTE_TFLOPS: Roofline(low, high),
        Quantity.MEMORY: _exact(model.memory_gbps),
        Quantity.HOST: _exact(model.pcie_gbps * _lanes(instance)),
        Quantity.PEER: Roofline(model.pcie_gbps * _lanes(instance), model.nvlink_gbps or model.pcie_gbps),
        Quantity.FLOW: _exact(FLOW_GBPS),
    }
    one_node, two = bus_gbps(instance, model, 1), bus_gbps(instance, model, 2)
    if instance.gpus > 1 and one_node is not None:
        limits[Quantity.NODE_BUS] = _exact(one_node)
    if two is not None:
        limits[Quantity.BUS] = Roofline(two, max(two, one_node or two))
    network = instance.network_gbit_s or instance.network_burst_gbit_s
    if network is not None:
        limits[Quantity.NETWORK] = _exact(network)
    return limits


def _lanes(instance: Instance) -> float:
    return 0.5 if instance.pcie_width == 8 else 1.0


def _exact(value: float) -> Roofline:
    return Roofline(value, value)


def peak_of(device_name: str) -> RooflinePart | None:
    """The part of a device by what it calls itself ("NVIDIA H100 80GB HBM3", "NVIDIA A10G"); None if unknown."""
    return tables().rooflines.find(device_name)


def limit_tflops(device_name: str, precision: str = "") -> float:
    """What the device cannot exceed, in this precision if its peak is known, otherwise its 16-bit peak, which no wider format exceeds.

    For an unknown device it is the greatest value of all known ones.
    """
    model = peak_of(device_name)
    if model is None:
        return max(other.half_tflops for other in tables().rooflines.models)
    return model.most_tflops(precision)
