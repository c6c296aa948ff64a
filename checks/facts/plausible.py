"""A policy's thresholds on rates, held to what the parts of its instance types can do (pure)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from checks.facts.parts import Parts
from checks.facts.rooflines import Quantity, Roofline, rooflines
from checks.facts.table import Facts, lacks
from checks.facts.threshold import fault_in
from checks.model import Declared
from checks.policy import CheckPolicy, Over, Policy, Rule

_RATE = re.compile(r".*(_gbps|_gbit_s|flops|_iops|tokens_per_s)")

# The checks' rates. A rate that is in neither table is refused by a test: nobody would hold its thresholds to anything.
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
UNBOUNDED: Mapping[str, str] = {
    "disk.": "the instance table does not say what its disks do",
    "neuron.": "no table says what a Neuron device does",
    "training.": "tokens of a small model: a rate of this program alone",
}
# Floors that nothing else stands beside, and why they are let through: (policy, check).
_UNPUBLISHED = "nobody has published it by size for these types; nccl.all_reduce holds the same links"
_CONTROL = "a path that carries control traffic at all; slow_ratio compares the links"
_SMALL = "the tool runs 1 KiB to 128 MiB and one number a size: it proves a transport, no rate"
COARSE: Mapping[tuple[str, str], str] = {
    ("nvidia", "nccl.alltoall"): _UNPUBLISHED,
    ("nvidia", "nccl.sendrecv"): _UNPUBLISHED,
    ("nvidia", "network.pairs"): _CONTROL,
    ("neuron", "network.pairs"): _CONTROL,
    ("second-opinion", "nccl.all_reduce"): _SMALL,
}


def impossible(policy: Policy, facts: Facts, parts: Parts) -> Iterator[tuple[str, str]]:
    """(path, why) of each absolute lower bound that some type of the policy cannot reach however healthy it is."""
    for path, name, _, value, roofline in _bounds(policy, facts, parts):
        if value > roofline.least:
            yield path, fault_in(value, roofline.least, name)


def toothless(policy: Policy, facts: Facts, parts: Parts) -> Iterator[tuple[str, str]]:
    """(path, why) of each absolute lower bound that nothing could miss, where nothing else holds the same check.

    One floor for many types is low for the fastest: it counts where a rule over = "expected", or to the instance table,
    stands beside it, since those know the type.
    """
    for path, name, line, value, roofline in _bounds(policy, facts, parts):
        why = fault_in(value, roofline.least, name)
        coarse = (policy.name, path.split(".rules")[0].split(".options")[0].removeprefix("checks.")) in COARSE
        if why and value <= roofline.least and not coarse and not _held_otherwise(line):
            yield path, why


def unbounded(policy: Policy) -> Iterator[str]:
    """The paths of absolute bounds on rates of which no table says what they are of."""
    for name, line in policy.checks.items():
        exempt = any(name.startswith(start) for start in UNBOUNDED)
        for path, metric, _ in _rates(name, line):
            if not exempt and (name, metric) not in QUANTITIES:
                yield path


def _held_otherwise(line: CheckPolicy) -> bool:
    of_table = "floor_share" in line.options  # of the type's network
    return of_table or any(rule.over is Over.EXPECTED or rule.fact for rule in line.rules)


def _bounds(
    policy: Policy, facts: Facts, parts: Parts
) -> Iterator[tuple[str, str, CheckPolicy, float, Roofline]]:
    for name in policy.instance_types:
        instance = facts.instances.get(name)
        part = parts.find(instance.gpu) if instance and instance.gpus else None
        if instance is None or part is None:
            continue
        known = rooflines(instance, part)
        declared = Declared(name, 2, instance.gpus, instance.gpus)
        for check, line in policy.checks.items():
            if lacks(line.part, declared, instance) is not None:
                continue
            for path, metric, value in _rates(check, line):
                quantity = QUANTITIES.get((check, metric))
                if quantity is not None and quantity in known:
                    yield path, name, line, value, known[quantity]


def _rates(check: str, line: CheckPolicy) -> Iterator[tuple[str, str, float]]:
    """(path, metric, bound) of every absolute lower bound on a rate."""
    for index, rule in enumerate(line.rules):
        if _RATE.fullmatch(rule.metric) and rule.over in (Over.SUBJECT, Over.CLUSTER):
            for key in ("warn_below", "fail_below"):
                value = _bound(rule, key)
                if value is not None:
                    yield f"checks.{check}.rules[{index}].{key}", rule.metric, value
    for option, value in line.options.items():
        if _RATE.fullmatch(option):
            yield f"checks.{check}.options.{option}", option, value


def _bound(rule: Rule, key: str) -> float | None:
    return rule.warn_below if key == "warn_below" else rule.fail_below
