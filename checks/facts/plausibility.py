"""Which numbers are possible at all. Pure.

`impossible` compares a policy's thresholds for rates with what the parts of its instance types can do; `range_of` has the range of
every metric, beyond which a number was not measured.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path

from checks.facts.expected_tables import fault_in
from checks.facts.instances import Facts, lacks
from checks.facts.peak_rates import GpuModels
from checks.facts.provenance import table_bytes
from checks.facts.rooflines import Quantity, Roofline, rooflines
from checks.model import FIRST, Declared
from checks.policy import CheckPolicy, Over, Policy
from checks.value_types import Range

_RATE = re.compile(r".*(_gbps|_gbit_s|flops|_iops|tokens_per_s)")

# The rates of the checks. A test refuses a rate that is in neither table, because its thresholds would not be compared with
# anything.
QUANTITIES: Mapping[tuple[str, str], Quantity] = {
    ("compute.gemm", "gflops"): Quantity.COMPUTE_GFLOPS,
    ("compute.gemm", "tflops"): Quantity.COMPUTE_TFLOPS,
    ("compute.gemm", "sustained_tflops"): Quantity.COMPUTE_TFLOPS,
    ("compute.memory_bandwidth", "copy_gbps"): Quantity.MEMORY,
    ("compute.memory_bandwidth", "triad_gbps"): Quantity.MEMORY,
    ("compute.transfer", "h2d_gbps"): Quantity.HOST,
    ("compute.transfer", "d2h_gbps"): Quantity.HOST,
    ("compute.transfer", "p2p_gbps"): Quantity.PEER,
    ("nccl.intra_node", "busbw_peak_gbps"): Quantity.NODE_BUS,
    ("nccl.intra_node", "busbw_gbps"): Quantity.NODE_BUS,
    ("nccl.inter_node", "proven_gbit_s"): Quantity.NETWORK,
    **{
        (check, metric): Quantity.BUS
        for check in (
            "nccl.tests", "nccl.all_reduce", "nccl.all_gather", "nccl.reduce_scatter", "nccl.alltoall",
            "nccl.sendrecv", "collective.all_reduce", "collective.all_gather",
        )
        for metric in (
            "busbw_gbps", "busbw_peak_gbps", "busbw_out_of_place_gbps", "busbw_in_place_gbps",
        )
    },
    ("network.pairs", "floor_gbps"): Quantity.FLOW,
    ("collective.pairs", "floor_gbps"): Quantity.FLOW,
    ("collective.pairs", "floor_inside_gbps"): Quantity.MEMORY,
    ("nccl.pairs", "floor_gbps"): Quantity.FLOW,
    ("nccl.pairs", "floor_inside_gbps"): Quantity.PEER,
}  # fmt: skip

_TABLE = json.loads(table_bytes(Path(__file__).parents[1] / "metric_ranges.json"))
# The range of a metric by the end of its name. The bounds are judgement: several times what any machine has or any gate waits for, so
# that no real measurement, of however good or broken a machine, is beyond them. The first end that fits counts. By their whole names
# the table has metrics that may be negative, or whose greatest value says that a training or a clock is broken, and not that nobody
# measured it, and the counts of work, because a check that did nothing proves nothing.
RANGES, OTHER_RANGES = (
    {name: Range(least, most) for name, (least, most) in _TABLE[key].items()} for key in ("by_end", "by_name")
)
# Links are slower than memory: of network cards as fast as any that exists, with a margin, and of NVLink.
LINK_RANGES: Mapping[str, Range] = {
    "disk.": Range(0, 2_000),
    "efa.": Range(0, 2_000),
    "network.": Range(0, 2_000),
    "nccl.": Range(0, 8_000),
}
COUNTED = Range(0, 1e19)


@lru_cache(maxsize=4096)
def range_of(check: str, metric: str) -> Range:
    """The least and the greatest value that a metric can have; what has no unit is a count."""
    name = metric.removeprefix(FIRST)
    if name in OTHER_RANGES:
        return OTHER_RANGES[name]
    links = (
        bounds
        for family, bounds in LINK_RANGES.items()
        if name.endswith("_gbps") and check.startswith(family)
    )
    units = (bounds for end, bounds in RANGES.items() if name.endswith(end))
    return next(links, None) or next(units, COUNTED)


def impossible(policy: Policy, facts: Facts, models: GpuModels) -> Iterator[tuple[str, str]]:
    """(path, why) of each absolute lower bound that some type of the policy cannot reach however healthy it is."""
    for path, name, _, value, roofline in bounds(policy, facts, models):
        if value > roofline.least:
            yield path, fault_in(value, roofline.least, name)


def bounds(
    policy: Policy, facts: Facts, models: GpuModels
) -> Iterator[tuple[str, str, CheckPolicy, float, Roofline]]:
    """(path, instance type, the check's policy, bound, roofline) of every absolute lower bound on a rate."""
    for name in policy.instance_types:
        instance = facts.instances.get(name)
        model = models.find(instance.gpu) if instance and instance.gpus else None
        if instance is None or model is None:
            continue
        limits = rooflines(instance, model)
        declared = Declared(name, 2, instance.gpus, instance.gpus)
        for check, line in policy.checks.items():
            if lacks(line.part, declared, instance) is not None:
                continue
            for path, metric, value in rates(check, line):
                quantity = QUANTITIES.get((check, metric))
                if quantity is not None and quantity in limits:
                    yield path, name, line, value, limits[quantity]


def rates(check: str, line: CheckPolicy) -> Iterator[tuple[str, str, float]]:
    """(path, metric, bound) of every absolute lower bound on a rate."""
    for index, rule in enumerate(line.rules):
        if _RATE.fullmatch(rule.metric) and rule.over in (Over.SUBJECT, Over.CLUSTER):
            for key, value in (("warn_below", rule.warn_below), ("fail_below", rule.fail_below)):
                if value is not None:
                    yield f"checks.{check}.rules[{index}].{key}", rule.metric, value
    for option, value in line.options.items():
        if _RATE.fullmatch(option):
            yield f"checks.{check}.options.{option}", option, value
