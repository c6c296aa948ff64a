"""Rules over = "expected": one finding of what is worst, blamed on what is alike, and one of what nobody knows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from checks.facts.builtin import builtin
from checks.judge.rules import expected
from checks.judge.rules.apply import apply
from checks.judge.rules.values import RuleContext
from checks.model import (
    Cause,
    Declared,
    Finding,
    FindingKind,
    Level,
    Observation,
    Outcome,
    Value,
    rank_subject,
)
from checks.policy import Expect, Over, Rule
from tasks.gate_file.references import default_policy

FACTS = builtin()
P5, MIB, GIB = "p5.48xlarge", 1 << 20, 1 << 30
FLOOR = "was only compared with the minimum for its links"


def expecting(metric: str, expect: Expect, at: str = "", each: str = "") -> Rule:
    return Rule(metric, "a source", Over.EXPECTED, 0.9, 0.8, expect=expect, at=at, each=each, remedy="Look.")


COLLECTIVE = expecting("busbw_gbps", Expect.COLLECTIVE, "sizes_bytes")
GEMM = expecting("sustained_tflops", Expect.GEMM, "precisions", "precisions")
MEMORY = expecting("copy_gbps", Expect.MEMORY)
TRANSFER = expecting("p2p_gbps", Expect.TRANSFER)
# Two p5: all_reduce at 128 MiB and 1 GiB (AWS's nccl-tests README).
SIZES, RATES = (128 * MIB, GIB), (287.01, 436.95)


def known(kind: str = P5, nodes: int = 2) -> RuleContext:
    instance = FACTS.instances[kind]
    declared = Declared(kind, nodes, instance.gpus, max(1, instance.gpus))
    return RuleContext(instance, frozenset(), declared, FACTS)


def rows(check: str, metrics: Sequence[Mapping[str, Value]]) -> list[Observation]:
    """Of eight ranks a node."""
    subjects = [rank_subject(f"node-{at // 8}", at) for at, _ in enumerate(metrics)]
    return [
        Observation(check, subject, Outcome.MEASURED, 0.0, one, evidence=f"log {at}")
        for at, (subject, one) in enumerate(zip(subjects, metrics, strict=True))
    ]


def judged(
    check: str, rule: Rule, metrics: Sequence[Mapping[str, Value]], about: RuleContext | None = None
) -> list[Finding]:
    return list(expected.judge(check, rule, rows(check, metrics), about or known(), Level.FAIL))


def swept(part: float, sizes: Sequence[int] = SIZES, rates: Sequence[float] = RATES) -> dict[str, Value]:
    return {"sizes_bytes": tuple(sizes), "busbw_gbps": tuple(rate * part for rate in rates)}


def products(bf16: float) -> dict[str, Value]:
    return {"precisions": ("fp32", "tf32", "bf16", "fp16"), "sustained_tflops": (51.0, 368.0, bf16, 713.0)}


def test_rate_a_little_below_the_expected_curve_is_a_warning() -> None:
    """Between the two thresholds."""
    (found,) = judged("nccl.all_reduce", COLLECTIVE, [swept(0.85)] * 16)

    assert (Level.WARN, Cause.CONFIGURATION) == (found.level, found.cause)
    assert [] == judged("nccl.all_reduce", COLLECTIVE, [swept(0.91)] * 16)


def test_a_fabric_that_is_slow_alike_is_one_finding() -> None:
    """Of the worst size, though every rank and size is slow; no node is to be replaced for it."""
    (found,) = judged("nccl.all_reduce", COLLECTIVE, [swept(1.0, rates=(0.7 * 287.01, 0.5 * 436.95))] * 16)

    assert ("cluster", Level.FAIL, Cause.CONFIGURATION) == (found.subject, found.level, found.cause)
    assert found.message == (
        "all 16 are affected; the worst is node-0, rank 0: it reaches 218.5 GB/s in all_reduce at 1 GiB over 16 ranks, "
        "50 % of the expected value (436.9 GB/s), threshold 80 %"
    )
    assert "awsome" in found.source
    assert "2 x p5.48xlarge over EFA" in found.source and "Look." == found.remedy


def test_a_node_that_is_slow_beside_others_is_to_blame() -> None:
    """Its eight ranks share one time, and are one finding."""
    metrics = [swept(1.0, (GIB,), (441.0,))] * 8 + [swept(1.0, (GIB,), (300.0,))] * 8
    (found,) = judged("nccl.intra_node", COLLECTIVE, metrics)

    assert ("node-1", Cause.HARDWARE) == (found.subject, found.cause)
    assert "all 8 are affected; the worst is node-1, rank 10: it reaches 300 GB/s" in found.message


def test_a_gpu_that_is_slow_beside_others_is_to_blame() -> None:
    """By itself, in the precision in which it is."""
    metrics = [products(720.0)] * 8
    metrics[3] = products(500.0)
    (found,) = judged("compute.gemm", GEMM, metrics)

    assert ("node-0/rank-3", Level.FAIL, Cause.HARDWARE) == (found.subject, found.level, found.cause)
    assert found.message == (
        "sustains 500 TFLOP/s in matrix products in bf16, 70 % of the expected value (713 TFLOP/s), threshold 80 %"
    )
    assert ("bf16",) == found.elements
    assert "log 3" == found.evidence


@pytest.mark.parametrize(
    ("worst", "low", "high", "expected"),
    [
        (480.0, 620.0, 720.0, {"node-0/rank-0 FAIL HARDWARE", "node-0 WARN CONFIGURATION", "node-1/rank-8 WARN CONFIGURATION"}),
        (480.0, 620.0, 620.0, {"node-0/rank-0 FAIL HARDWARE", "cluster WARN CONFIGURATION"}),
        (565.0, 575.0, 575.0, {"cluster FAIL CONFIGURATION"}),
    ],
)  # fmt: skip
def test_a_broken_gpu_is_blamed_beside_many_that_are_a_little_slow(
    worst: float, low: float, high: float, expected: set[str]
) -> None:
    """A power cap of the others does not explain it. If they differ by little, one of them may be on the other side of a threshold."""
    found = judged("compute.gemm", GEMM, [products(rate) for rate in (worst, *[low] * 8, *[high] * 7)])

    assert expected == {f"{one.subject} {one.level.value} {one.cause.value}" for one in found}
    for cluster in (one for one in found if one.subject == "cluster"):
        assert (" others are" in cluster.message) is (len(found) > 1)


@pytest.mark.parametrize(("gpus", "subject"), [(1, "node-0/rank-0"), (16, "cluster")])
def test_gpus_that_are_all_slow_are_not_blamed(gpus: int, subject: str) -> None:
    """Nothing tells a fault from a setting, as a power cap or another driver; it is a FAIL all the same."""
    (found,) = judged("compute.gemm", GEMM, [products(500.0)] * gpus)

    assert (subject, Level.FAIL, Cause.CONFIGURATION) == (found.subject, found.level, found.cause)


def test_rate_above_the_hardware_limit_is_a_wrong_measurement() -> None:
    """However slow the rest is: no rate of this benchmark is to be believed."""
    (found,) = judged("compute.memory_bandwidth", MEMORY, [{"copy_gbps": 3400.0}] * 8)

    wrong = (
        "copies 3,400 GB/s in memory, more than the hardware can do (3,350 GB/s): the measurement is wrong"
    )
    assert (Level.FAIL, Cause.EVIDENCE) == (found.level, found.cause)
    assert wrong in found.message


def test_the_line_is_drawn_from_the_low_end_of_what_is_uncertain() -> None:
    """And the message says so."""
    (found,) = judged("compute.transfer", TRANSFER, [{"p2p_gbps": (250.0, 390.0)}])

    assert [] == judged("compute.transfer", TRANSFER, [{"p2p_gbps": (310.0,)}])
    assert "75 % of the low end of the expected value (335.3 GB/s), threshold 80 %" in found.message


def test_somebodys_fail_line_is_not_moved() -> None:
    """DCGM's 525 for an L40S: at 0.99 of it the diagnostic fails, at 1.01 it passes."""
    below, above = (
        judged("compute.memory_bandwidth", MEMORY, [{"copy_gbps": 525 * part}], known("g6e.48xlarge", 1))
        for part in (0.99, 1.01)
    )

    assert [Level.FAIL] == [found.level for found in below] and [] == above
    assert "99 % of the published minimum (525 GB/s)" in below[0].message


@pytest.mark.parametrize(
    ("kind", "nodes", "share", "held", "why"),
    [
        ("p6-b200.48xlarge", 2, 1.0, FLOOR, "all_reduce over 16 ranks of 2 x p6-b200.48xlarge (efa)"),
        (P5, 3, 1.0, FLOOR, "all_reduce over 24 ranks of 3 x p5.48xlarge (efa)"),
        ("g5.48xlarge", 1, 0.01, FLOOR, "all_reduce over 8 ranks of 1 x g5.48xlarge (pcie)"),
        ("g5.xlarge", 16, 1.0, "was not judged", "all_reduce over 16 ranks of 16 x g5.xlarge (tcp)"),
    ],
)
def test_rate_without_a_known_baseline_is_one_cluster_warning(
    kind: str, nodes: int, share: float, held: str, why: str
) -> None:
    """Not for each rank and size; and whether at least a floor holds."""
    (found,) = judged("nccl.all_reduce", COLLECTIVE, [swept(share)] * 16, known(kind, nodes))

    assert ("cluster", Level.WARN, Cause.EVIDENCE) == (found.subject, found.level, found.cause)
    assert found.kind is FindingKind.NO_BASELINE and held in found.message and why in found.message
    assert "fleet baseline learn" in found.remedy and 'write [policy] baseline = "FILE"' in found.remedy


@pytest.mark.parametrize("check", ["nccl.alltoall", "nccl.sendrecv", "nccl.all_gather"])
@pytest.mark.parametrize(
    ("kind", "nodes", "rate"), [(P5, 1, 1.2), (P5, 2, 1.2), ("p4d.24xlarge", 1, 1.2), (P5, 3, 0.9)]
)
def test_a_fiftieth_of_the_links_rate_fails_though_nobody_measured(
    check: str, kind: str, nodes: int, rate: float
) -> None:
    """Results right, more than 1 Gbit/s, and no NVLink or EFA in use."""
    found = judged(check, COLLECTIVE, [swept(1.0, (GIB,), (rate,))] * 8 * nodes, known(kind, nodes))

    assert Level.FAIL in [one.level for one in found]


@pytest.mark.parametrize("check", ["nccl.all_reduce", "nccl.alltoall", "nccl.sendrecv", "nccl.inter_node"])
@pytest.mark.parametrize("nodes", [2, 16, 64])
def test_a_network_too_slow_for_large_messages_is_held_to_a_floor(check: str, nodes: int) -> None:
    """At 0.3 GB/s between p5 a sweep leaves out what is larger than 64 MiB: slower must not mean was not judged."""
    slow, fine = (
        judged(check, COLLECTIVE, [swept(1.0, (MIB, 64 * MIB), (rate, rate))] * 8 * nodes, known(P5, nodes))
        for rate in (0.25, 30.0)
    )

    assert Level.FAIL in [one.level for one in slow]
    assert "at 64 MiB" in slow[0].message and "the minimum for its links" in slow[0].message
    assert [(Level.WARN, True)] == [(one.level, "no message of 128 MiB" in one.message) for one in fine]


def test_small_messages_are_not_compared_and_that_is_said() -> None:
    """They show latency."""
    (found,) = judged("nccl.all_reduce", COLLECTIVE, [swept(0.1, (1024, 64 * MIB))] * 16)

    assert (Level.WARN, Cause.EVIDENCE) == (found.level, found.cause)
    assert "all_reduce was measured with no message of 128 MiB or more" in found.message


def test_small_messages_beside_large_ones_are_no_gap() -> None:
    """The sweep begins with them."""
    assert [] == judged("nccl.all_reduce", COLLECTIVE, [swept(1.0, (1024, GIB), (0.01, 436.95))] * 16)


def test_a_precision_of_which_nothing_is_known_is_named() -> None:
    """The others are judged all the same."""
    metrics: dict[str, Value] = {"precisions": ("fp32", "bf16"), "sustained_tflops": (60.0, 900.0)}
    found = judged("compute.gemm", GEMM, [metrics] * 8, known("p6-b200.48xlarge", 1))

    assert [Level.FAIL, Level.WARN] == [one.level for one in found]
    assert "sustains 900 TFLOP/s in matrix products in bf16" in found[0].message
    assert "fp32 products on B200" in found[1].message


@pytest.mark.parametrize(
    "about", [RuleContext(), RuleContext(None, frozenset(), Declared("p9.48xlarge", 1, 8, 8), FACTS)]
)
def test_an_unknown_machine_is_held_to_nothing_and_that_is_said(about: RuleContext) -> None:
    """No facts, no declaration, or a type that no table has."""
    (found,) = judged("compute.memory_bandwidth", MEMORY, [{"copy_gbps": 1.0}], about)

    assert (Level.WARN, Cause.EVIDENCE) == (found.level, found.cause)


@pytest.mark.parametrize(
    "metrics",
    [
        {"busbw_gbps": (400.0, 400.0)},
        {"busbw_gbps": (400.0, 400.0), "sizes_bytes": (GIB,)},
        {"busbw_gbps": (400.0, None), "sizes_bytes": SIZES},
        {"sizes_bytes": SIZES},
        {"busbw_gbps": (400.0,), "sizes_bytes": (1e9,)},
        {"busbw_gbps": (1e305,), "sizes_bytes": (GIB,)},
        {"busbw_gbps": (400.0,), "sizes_bytes": ("1 GiB of all_reduce",)},
        {"busbw_gbps": (400.0,), "sizes_bytes": ("all_reduce " + "9" * 5000 + " B, 16 ranks",)},
        {"busbw_gbps": (400.0,), "sizes_bytes": ("all_reduce 1024 B, " + "8" * 400 + " ranks",)},
        {"busbw_gbps": (), "sizes_bytes": ()},
    ],
)
def test_rate_that_cannot_be_compared_fails_as_evidence(metrics: dict[str, Value]) -> None:
    """Sizes that are missing, too few or unreadable; rates that are none."""
    found = judged("nccl.all_reduce", COLLECTIVE, [metrics])

    assert (Level.FAIL, Cause.EVIDENCE) in {(one.level, one.cause) for one in found}


def test_labels_that_are_no_sizes_cost_their_own_rank_alone() -> None:
    """128 MiB written as 134217728.0 equals a size and is none; the ranks that wrote it well are still compared."""
    odd = {**swept(1.0), "sizes_bytes": tuple(map(float, SIZES))}
    found = judged("nccl.all_reduce", COLLECTIVE, [odd, *[swept(1.0)] * 15])

    assert [(Cause.EVIDENCE, rank_subject("node-0", 0))] == [(f.cause, f.subject) for f in found]


def test_a_slow_rate_beside_one_that_is_missing_is_seen() -> None:
    """One hole hides nothing else."""
    found = judged("nccl.all_reduce", COLLECTIVE, [{"busbw_gbps": (None, 100.0), "sizes_bytes": SIZES}])

    assert {Cause.EVIDENCE, Cause.CONFIGURATION} == {one.cause for one in found}


def test_a_program_is_held_to_its_own_ranks_and_size() -> None:
    """nccl-tests on one node of two, and over both."""
    rule = expecting("busbw_gbps", Expect.COLLECTIVE, "points", "points")
    points = (f"all_reduce_perf {GIB} B, 8 ranks", f"all_reduce_perf {GIB} B, 16 ranks")
    (found,) = judged("nccl.tests", rule, [{"busbw_gbps": (441.0, 218.0), "points": points}])

    assert [] == judged("nccl.tests", rule, [{"busbw_gbps": (441.0, 436.0), "points": points}])
    assert found.message.startswith(
        f"reaches 218 GB/s in {points[1]}, 50 % of the expected value (436.9 GB/s)"
    )
    assert (points[1],) == found.elements


def test_peers_over_pcie_are_not_held_to_nvlink() -> None:
    """A type without NVLinks sends through the host, whose links are held to their own."""
    assert [] == judged("compute.transfer", TRANSFER, [{"p2p_gbps": (20.0,)}], known("g7e.12xlarge", 1))


def test_the_shipped_policies_expect_of_gpus_alone() -> None:
    """Nothing is known of gloo on a laptop: no line pretends it."""
    expecting = {
        kind: {name for name, line in default_policy(kind)[1].checks.items() for r in line.rules if r.expect}
        for kind in (P5, "cpu", "trn1.32xlarge")
    }

    assert {"nccl.all_reduce", "nccl.tests", "compute.gemm", "compute.memory_bandwidth"} <= expecting[P5]
    assert not expecting["cpu"] and not expecting["trn1.32xlarge"]


@pytest.mark.parametrize(
    "check", ["nccl.all_reduce", "nccl.all_gather", "nccl.reduce_scatter", "nccl.intra_node"]
)
def test_wrong_results_and_slow_ones_are_both_said(check: str) -> None:
    """Corruption outranks bandwidth, and bandwidth does not excuse it."""
    line = default_policy(P5)[1].checks[check]
    metrics: dict[str, Value] = {
        **swept(1.0, (GIB,), (441.0,)), "wrong_elements": 3, "sizes_left_out": 0, "busbw_peak_gbps": 441.0,
    }  # fmt: skip
    found = list(apply(check, line, rows(check, [metrics] * 8), 8, known(P5, 1)))

    assert {(Level.FAIL, "wrong_elements")} == {(one.level, one.metric) for one in found}
    assert all("3 wrong values" in one.message for one in found)


def test_a_machine_without_gpus_is_called_that() -> None:
    """The sentence does not end before its last word."""
    (found,) = judged("compute.gemm", GEMM, [products(700.0)], known("cpu", 1))

    assert (Level.WARN, Cause.EVIDENCE) == (found.level, found.cause)
    assert "products on a machine without GPUs" in found.message
