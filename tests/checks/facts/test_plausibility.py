"""A threshold lies under what the part can do, and not so far under it that nothing could miss it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from checks.command_line import InputError
from checks.facts.builtin import builtin
from checks.facts.expected_tables import fault_in
from checks.facts.instances import Facts
from checks.facts.peak_rates import GpuModels
from checks.facts.plausibility import QUANTITIES, bounds, impossible, rates
from checks.facts.rooflines import FLOW_GBPS, Quantity, bus_gbps, rooflines
from checks.policy import CheckPolicy, OnWarn, Over, Policy, Rule
from tasks.gate_file.references import read_policy

FACTS = builtin()
PARTS = FACTS.expected.rooflines
POLICIES = sorted((Path(__file__).resolve().parents[3] / "deployments" / "policies").glob("*.toml"))
UNBOUNDED: Mapping[str, str] = {
    "disk.": "the instance table does not say what its disks do",
    "efa.": "1 Gbit/s is what a device works no better with than without; the devices of a node are compared",
    "neuron.": "no table says what a Neuron device does",
    "training.": "tokens of a small model: a rate of this program alone",
}
# Floors that nothing else stands beside, and why they are let through: (policy, check).
_UNPUBLISHED = "nobody has published it by size for these types; nccl.all_reduce holds the same links"
_CONTROL = "a path that carries control traffic at all; slow_ratio compares the links"
COARSE: Mapping[tuple[str, str], str] = {
    ("nvidia", "nccl.alltoall"): _UNPUBLISHED,
    ("nvidia", "nccl.sendrecv"): _UNPUBLISHED,
    ("nvidia", "network.pairs"): _CONTROL,
    ("neuron", "network.pairs"): _CONTROL,
}


def toothless(policy: Policy, facts: Facts, parts: GpuModels) -> Iterator[tuple[str, str]]:
    """(path, why) of each absolute lower bound that nothing could miss, where nothing else holds the same check.

    One floor for many types is low for the fastest: it counts where a rule over = "expected", or to the instance table,
    stands beside it, since those know the type.
    """
    for path, name, line, value, roofline in bounds(policy, facts, parts):
        why = fault_in(value, roofline.least, name)
        coarse = (policy.name, path.split(".rules")[0].split(".options")[0].removeprefix("checks.")) in COARSE
        if why and value <= roofline.least and not coarse and not _held_otherwise(line):
            yield path, why


def unbounded(policy: Policy) -> Iterator[str]:
    """The paths of absolute bounds on rates of which no table says what they are of."""
    for name, line in policy.checks.items():
        exempt = any(name.startswith(start) for start in UNBOUNDED)
        for path, metric, _ in rates(name, line):
            if not exempt and (name, metric) not in QUANTITIES:
                yield path


def _held_otherwise(line: CheckPolicy) -> bool:
    of_table = "floor_share" in line.options  # of the type's network
    return of_table or any(rule.over is Over.EXPECTED or rule.fact for rule in line.rules)


def _bus(kind: str, nodes: int) -> float:
    instance = FACTS.instances[kind]
    part = PARTS.find(instance.gpu)
    assert part is not None
    most = bus_gbps(instance, part, nodes)
    assert most is not None
    return most


def _memory(model: str) -> float:
    part = PARTS.find(model)
    assert part is not None
    return part.memory_gbps


@pytest.mark.parametrize(
    ("gbps", "most", "said"),
    [
        # awsome-distributed-training, checks/5-nccl-allreduce.sh: all_reduce of 128 MiB over two nodes.
        (300, _bus("p4d.24xlarge", 2), "above what"),
        (800, _bus("p5.48xlarge", 2), "above what"),
        (900, _bus("p6-b200.48xlarge", 2), "above what"),
        # sagemaker-training-jobs-cluster-health-check, train.py: on the best of three sizes.
        (0.5, _bus("p5.48xlarge", 2), "could miss"),
        # DCGM's least memory bandwidths (diag-skus); two of them, 2335 and 20b0, lost their digits.
        (2.333, _memory("H200"), "could miss"),
        (137.5, _memory("A100-SXM4-40GB"), "could miss"),
        (1905, _memory("H100 80GB HBM3"), ""),
        (4072.5, _memory("B200"), ""),
        (1173, _memory("A100-SXM4-80GB"), ""),
        (198.5, _memory("L4"), ""),
        (183, _memory("T4"), ""),
    ],
)
def test_public_thresholds_that_none_can_reach_that_none_could_miss_and_that_separate(
    gbps: float, most: float, said: str
) -> None:
    found = fault_in(gbps, most, "part")

    assert (said in found) and bool(said) == bool(found)


@pytest.mark.parametrize(
    ("kind", "nodes", "measured"),
    [
        ("p5.48xlarge", 1, 483.05),
        ("p5.48xlarge", 2, 487.09),
        ("p4de.24xlarge", 2, 78.33),
        ("p6-b300.48xlarge", 2, 827.38),
    ],
)
def test_measured_bandwidth_lies_between_half_the_roofline_and_the_roofline(
    kind: str, nodes: int, measured: float
) -> None:
    """All_reduce of the largest message that was published; of one node with NVLS more than its NVLink carries."""
    assert 0.5 * _bus(kind, nodes) < measured < _bus(kind, nodes)


def test_a_link_of_half_the_lanes_carries_half() -> None:
    """The T4s of a g4dn have eight."""
    g4, part = FACTS.instances["g4dn.12xlarge"], PARTS.find("T4")
    assert part is not None

    assert rooflines(g4, part)[Quantity.HOST].most == part.pcie_gbps / 2
    assert rooflines(g4, part)[Quantity.FLOW].most == FLOW_GBPS
    assert Quantity.NETWORK not in rooflines(replace(g4, network_gbit_s=None), part)


@pytest.mark.parametrize("path", POLICIES, ids=lambda path: path.stem)
def test_shipped_thresholds_can_be_reached_and_missed_and_are_held_to_a_roofline(path: Path) -> None:
    """By every type that each was written for, or a rule that knows the type stands beside it. What no type reaches `read_policy`
    refuses. A new metric of bandwidth must say what it is of.
    """
    policy = read_policy(path)

    assert not dict(toothless(policy, FACTS, PARTS))
    assert not list(unbounded(policy))


def _policy(check: str, *rules: Rule) -> Policy:
    return Policy("ours", ("p5.48xlarge",), OnWarn.GO, 0.25, {check: CheckPolicy(rules=rules)})


@pytest.mark.parametrize(
    ("check", "metric", "value", "can"),
    [
        ("nccl.all_reduce", "busbw_peak_gbps", 800.0, False), ("nccl.all_reduce", "busbw_peak_gbps", 400.0, True),
        ("compute.memory_bandwidth", "copy_gbps", 3500.0, False), ("compute.transfer", "h2d_gbps", 64.0, False),
        ("compute.transfer", "h2d_gbps", 48.0, True), ("nccl.inter_node", "proven_gbit_s", 3201.0, False),
    ],
)  # fmt: skip
def test_a_policy_that_no_healthy_node_could_pass_is_refused(
    check: str, metric: str, value: float, can: bool
) -> None:
    """A WARN line as well as a FAIL line."""
    for rule in (Rule(metric, "s", fail_below=value), Rule(metric, "s", warn_below=value, over=Over.CLUSTER)):
        assert can != bool(list(impossible(_policy(check, rule), FACTS, PARTS)))


def test_floor_shared_by_many_machine_types_is_toothless() -> None:
    """For an H100, a T4's floor is none."""
    rule = Rule("copy_gbps", "s", fail_below=100.0)

    [(path, why)] = toothless(_policy("compute.memory_bandwidth", rule), FACTS, PARTS)

    assert path == "checks.compute.memory_bandwidth.rules[0].fail_below"
    assert why == "100 is a floor that no p5.48xlarge could miss (it can do 3350)"


def test_an_impossible_policy_is_refused_before_anything_runs(tmp_path: Path) -> None:
    """With the file, the path and the reason."""
    file = tmp_path / "ours.toml"
    file.write_text(
        'name = "ours"\ninstance_types = ["p5.48xlarge"]\non_warn = "go"\nmax_unfit_fraction = 0.25\n'
        '[checks."nccl.all_reduce"]\npart = "gpu"\nmin_ranks = 2\n'
        'rules = [{ metric = "busbw_peak_gbps", fail_below = 800, source = "a public script" }]\n'
    )

    with pytest.raises(InputError) as refused:
        read_policy(file)

    assert refused.value.path == "checks.nccl.all_reduce.rules[0].fail_below"
    assert refused.value.message == "800 is above what a p5.48xlarge can do (750): no healthy node would pass"
