"""What is expected of a machine: the curve through what is known, its bounds, and nothing where nothing is known."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checks.facts.builtin import builtin
from checks.facts.expected_tables import CollectiveRow
from checks.judge.rules.expected_questions import LEAST_BYTES
from checks.judge.rules.expected_values import (
    EFA,
    FLOOR_STEP_S,
    INFINIBAND,
    NVLINK,
    PCIE,
    RAILS,
    REACH,
    TCP,
    estimate,
    expected_busbw,
    expected_gemm,
    expected_memory,
    expected_transfer,
    floor_busbw,
    most_busbw,
    transport_of,
)
from checks.model import Declared
from checks.model_details import DeclaredMachine

FACTS = builtin()
P5, MIB, GIB = "p5.48xlarge", 1 << 20, 1 << 30
OWN = DeclaredMachine("H100 80GB HBM3", nvlinks=18, network_gbit_s=3200, ib_ports=8, ib_rate_gbit_s=400)
CURVES = [(row, kind) for row in FACTS.expected.collectives for kind in row.types]


@st.composite
def curves(draw: st.DrawFn) -> list[tuple[float, float]]:
    """Points as nccl-tests measures them: a latency, and a bandwidth that a link bounds, both of some stretch."""
    size, took = float(draw(st.integers(1, 1 << 20))), draw(st.floats(1e-6, 1e-3))
    points = [(size, size / took)]
    for _ in range(draw(st.integers(0, 6))):
        grown = draw(st.floats(1.01, 16.0))
        slower = 1 + (grown - 1) * draw(st.floats(0.05, 1.0))
        size, took = size * grown, took * slower
        points.append((size, size / took))
    return points


@given(curves(), st.floats(0.3, 30.0), st.floats(1.0, 8.0))
@settings(max_examples=150)
def test_a_larger_message_is_never_expected_to_be_slower(
    points: list[tuple[float, float]], at: float, more: float
) -> None:
    """In bandwidth; and it never takes less time."""
    small, large = estimate(points, points[0][0] * at), estimate(points, points[0][0] * at * more)
    if small is not None and large is not None:
        assert large.value >= small.value * (1 - 1e-9)
        assert at * more / large.value >= at / small.value * (1 - 1e-9)


@given(curves())
@settings(max_examples=100)
def test_a_known_point_is_met_exactly(points: list[tuple[float, float]]) -> None:
    """With no room to either side."""
    for size, gbps in points:
        found = estimate(points, size)
        assert found is not None and (gbps, gbps, gbps) == (found.value, found.low, found.high)


@given(curves(), st.floats(0.26, 100.0), st.floats(0.1, 1e9))
@settings(max_examples=150)
def test_the_roofline_bounds_all_that_is_expected(
    points: list[tuple[float, float]], at: float, most: float
) -> None:
    """And the low end lies below what is likely, that below the high end."""
    found = estimate(points, points[0][0] * at, most)

    room = 1 + 1e-9
    assert found is not None
    assert found.low <= found.value * room and found.value <= found.high * room and found.high <= most


@given(
    curves(), st.floats(0.26, 100.0), st.sampled_from([2.0**-30, 2.0**20]), st.sampled_from([2.0**-9, 8.0])
)
@settings(max_examples=100)
def test_units_change_nothing(
    points: list[tuple[float, float]], at: float, bytes_: float, rate: float
) -> None:
    """GiB for bytes, Gbit for GB: the same curve."""
    first = points[0][0]
    plain = estimate(points, first * at)
    scaled = estimate([(size * bytes_, gbps * rate) for size, gbps in points], first * at * bytes_)

    assert plain is not None and scaled is not None
    assert scaled.value == pytest.approx(plain.value * rate)
    assert (scaled.low, scaled.high) == pytest.approx((plain.low * rate, plain.high * rate))


def test_far_below_the_known_sizes_nothing_is_expected() -> None:
    """Within a factor of four more and more is left open."""
    points = [(64.0 * MIB, 200.0), (GIB, 400.0)]
    half, quarter = estimate(points, 32 * MIB), estimate(points, 64 * MIB / REACH)

    assert half is not None and quarter is not None
    assert half.low / half.high > quarter.low / quarter.high
    assert estimate(points, 64 * MIB / REACH - 1) is None
    assert estimate([], GIB) is None


@pytest.mark.parametrize(("known", "kind"), CURVES, ids=lambda of: str(of)[:40])
def test_the_shipped_curves_rise_and_stay_below_their_rooflines(known: CollectiveRow, kind: str) -> None:
    """From a quarter of the least known size to sixteen times the greatest."""
    size, found = known.points[0][0] / REACH, []
    while size <= 16 * known.points[-1][0]:
        found.append(
            expected_busbw(FACTS, kind, known.nodes, known.ranks, known.collective, size, known.transport)
        )
        size *= 1.7
    rates = [one.value for one in found if one is not None]

    assert len(rates) == len(found)
    assert all(later >= earlier for earlier, later in pairwise(rates))
    assert all(one.most is None or one.high <= one.most for one in found if one is not None)


# Type, nodes, ranks, collective, size, transport.
Asked = tuple[str, int, int, str, float, str]


@pytest.mark.parametrize(
    ("asked", "gbps"),
    [
        ((P5, 2, 16, "all_reduce", 128 * MIB, EFA), 287.01),
        ((P5, 2, 16, "all_reduce", GIB, EFA), 436.95),
        ((P5, 2, 16, "all_reduce", 16 * GIB, EFA), 487.09),
        ((P5, 1, 8, "all_reduce", GIB, NVLINK), 441.57),
        (("p4de.24xlarge", 2, 16, "all_reduce", 2 * GIB, EFA), 78.33),
        (("p4d.24xlarge", 1, 8, "all_reduce", 8 * GIB, NVLINK), 235.03),
        (("p6-b300.48xlarge", 2, 16, "all_reduce", 2 * GIB, EFA), 827.38),
        ((P5, 3, 24, "all_reduce", GIB, EFA), None),
        ((P5, 2, 16, "all_reduce", GIB, TCP), None),
        ((P5, 2, 16, "all_reduce", GIB, ""), None),
        ((P5, 2, 8, "all_reduce", GIB, EFA), None),
        ((P5, 2, 16, "alltoall", GIB, EFA), None),
        (("p6-b200.48xlarge", 2, 16, "all_reduce", GIB, EFA), None),
        (("p9.48xlarge", 2, 16, "all_reduce", GIB, EFA), None),
    ],
)
def test_busbw_is_expected_of_public_runs_and_of_no_other_configuration(
    asked: Asked, gbps: float | None
) -> None:
    """The lesser of in place and out of place: AWS's nccl-tests README, SuperBench's log, a validation record. Nothing of other nodes,
    ranks, collectives, transports and types than the known ones.
    """
    found = expected_busbw(FACTS, *asked)

    assert gbps == (None if found is None else found.value)


@pytest.mark.parametrize(
    ("asked", "gbps"),
    [
        ((P5, 1, 8, "alltoall", GIB, NVLINK), 450),
        ((P5, 1, 8, "broadcast", GIB, NVLINK), 450),
        ((P5, 2, 16, "alltoall", GIB, EFA), 93.75),
        ((P5, 2, 16, "sendrecv", GIB, EFA), 50),
        ((P5, 4, 32, "all_reduce", GIB, EFA), 775),
        ((P5, 4, 4, RAILS, GIB, EFA), 75),
        ((P5, 4, 32, "all_gather", GIB, EFA), 516.7),
        (("g5.12xlarge", 2, 8, "sendrecv", GIB, TCP), 1.25),
    ],
)
def test_floor_busbw_is_a_share_of_the_links_for_unmeasured_configurations(asked: Asked, gbps: float) -> None:
    """A fiftieth of what they carry fails, a tenth passes: the line lies between."""
    found = floor_busbw(FACTS, *asked)

    assert found is not None and found.is_limit and found.is_floor
    assert pytest.approx(gbps, rel=0.001) == found.high
    assert found.high / 50 < found.value < found.high / 10


@pytest.mark.parametrize(
    "asked",
    [
        (P5, 2, 16, "alltoall", GIB, ""),
        (P5, 2, 16, "scan", GIB, EFA),
        (P5, 2, 16, "alltoall", 15 * MIB, EFA),
        ("g5.xlarge", 2, 2, "alltoall", GIB, TCP),
        ("p9.48xlarge", 2, 16, "alltoall", GIB, EFA),
    ],
)
def test_without_a_transport_a_rate_or_a_large_message_there_is_no_floor(asked: Asked) -> None:
    """g5.xlarge has its network's full rate only for a while."""
    assert floor_busbw(FACTS, *asked) is None


@pytest.mark.parametrize(("known", "kind"), CURVES, ids=lambda of: str(of)[:40])
def test_every_measured_rate_lies_well_above_the_floor(known: CollectiveRow, kind: str) -> None:
    """Three times at least, wherever sizes are compared: what was measured vouches for the share. And above that of a small message,
    as if the sweep had ended with it: latency must not make a healthy machine a slow one.
    """
    for size, gbps in known.points:
        asked = (kind, known.nodes, known.ranks, known.collective, size, known.transport)
        floor, small = (floor_busbw(FACTS, *asked, largest=largest) for largest in (False, True))
        assert floor is None or size < LEAST_BYTES or gbps > 3 * floor.value
        assert small is None or gbps > small.value


def test_two_nodes_may_exceed_the_wire_and_not_twice_the_wire() -> None:
    """487 was measured where a node's network has 400 (10^9 bytes/s): half of the data stays in NVLink."""
    assert 750 == most_busbw(FACTS, P5, 2, 16, "all_reduce", EFA)
    assert 400 == most_busbw(FACTS, P5, 2, 2, RAILS, EFA)


def test_a_switch_that_adds_raises_all_reduce_alone() -> None:
    """483 was measured over NVLinks of 450; an A100's switch does not add."""
    assert 787.5 == most_busbw(FACTS, P5, 1, 8, "all_reduce", NVLINK)
    assert 450 == most_busbw(FACTS, P5, 1, 8, "all_gather", NVLINK)
    assert 300 == most_busbw(FACTS, "p4d.24xlarge", 1, 8, "all_reduce", NVLINK)
    assert most_busbw(FACTS, "p9.48xlarge", 1, 8, "all_reduce", NVLINK) is None


@pytest.mark.parametrize(
    ("kind", "nodes", "transport"),
    [(P5, 1, NVLINK), (P5, 2, EFA), ("g6.48xlarge", 1, PCIE), ("g5.xlarge", 2, TCP),
     ("p6e-gb200.36xlarge", 18, NVLINK)],
)  # fmt: skip
def test_transport_comes_from_the_instance_table_and_is_not_guessed(
    kind: str, nodes: int, transport: str
) -> None:
    """And is not guessed where it does not say."""
    instance = FACTS.instances[kind]

    assert transport == transport_of(instance, nodes)
    assert "" == transport_of(replace(instance, gpu="", nvlinks=None, efa_devices=None), nodes)


def test_products_are_held_to_what_is_sustained() -> None:
    """Not to the best shape of a search (an H200's 794), nor to another model's."""
    h200, t4 = expected_gemm(FACTS, "H200", "bf16"), expected_gemm(FACTS, "T4", "fp16")

    assert h200 is not None and (713, 989) == (h200.value, h200.most)
    assert t4 is not None and 24 == t4.value
    assert expected_gemm(FACTS, "L4", "bf16") is None and expected_gemm(FACTS, "", "bf16") is None
    assert expected_gemm(FACTS, "B200", "fp32") is None


def test_memory_is_held_to_its_own_size_of_model() -> None:
    """The 40 GB and the 80 GB A100 differ by a third; DCGM's own fail line is known as one."""
    small, large = (expected_memory(FACTS, f"A100-SXM4-{size}GB", "copy") for size in (40, 80))
    l40s = expected_memory(FACTS, "L40S", "copy")

    assert small is not None and large is not None and small.value < large.value
    assert l40s is not None and l40s.is_limit and not small.is_limit


def test_transfers_leave_room_for_a_shared_uplink() -> None:
    """Two A100s of a p4d share one, and all copy at once."""
    host = expected_transfer(FACTS, "A100-SXM4-40GB", "h2d")

    assert host is not None and host.low < host.value / 2
    assert expected_transfer(FACTS, "L4", "h2d") is None


def test_an_estimate_names_the_sizes_between_which_it_lies() -> None:
    """Below the smallest of two sizes it lies above the bandwidth of a message that takes as long as that one."""
    points = [(100.0, 10.0), (200.0, 15.0)]
    between, below = estimate(points, 150.0), estimate(points, 50.0)

    assert between is not None and (100.0, 200.0) == between.points and 10.0 < between.value < 15.0
    assert below is not None and (5.0, 10.0) == (below.low, below.high)
    assert 6.0 == pytest.approx(below.value)


@pytest.mark.parametrize("transport", [NVLINK, PCIE, EFA, TCP, ""])
def test_a_machine_without_a_known_gpu_has_no_bound(transport: str) -> None:
    """Nothing is made up for it."""
    assert most_busbw(FACTS, "cpu", 1, 2, "all_reduce", transport) is None
    assert floor_busbw(FACTS, "cpu", 1, 2, "all_reduce", 1 << 30, transport) is None


def test_half_of_the_lanes_carry_half() -> None:
    """A GPU with 8 lanes is not held to what 16 carry."""
    eight = replace(FACTS, instances={**FACTS.instances, P5: replace(FACTS.instances[P5], pcie_width=8)})
    wide, narrow = (floor_busbw(facts, P5, 1, 2, "all_reduce", GIB, PCIE) for facts in (FACTS, eight))

    assert wide is not None and narrow is not None
    assert wide.value / 2 == pytest.approx(narrow.value)


def test_busbw_limit_is_none_for_an_unknown_network_rate() -> None:
    """No rate is no limit: a machine that nobody described is not held to a made-up wire."""
    unknown = replace(FACTS.instances[P5], network_gbit_s=None, network_burst_gbit_s=None)
    facts = replace(FACTS, instances={**FACTS.instances, P5: unknown})

    assert most_busbw(FACTS, P5, 2, 16, "all_reduce", EFA) is not None
    assert most_busbw(facts, P5, 2, 16, "all_reduce", EFA) is None


def test_the_floor_of_a_small_message_is_its_time_on_the_wire_and_its_steps() -> None:
    """The time of the data at the links' floor, and FLOOR_STEP_S for each of the 2 n steps of a ring."""
    ranks, size = 16, MIB
    wire = floor_busbw(FACTS, P5, 2, ranks, "all_reduce", GIB, EFA)
    small = floor_busbw(FACTS, P5, 2, ranks, "all_reduce", size, EFA, largest=True)
    assert wire is not None and small is not None

    moved = 2 * (ranks - 1) / ranks * size / 1e9
    took_s = moved / wire.value + 2 * ranks * FLOOR_STEP_S
    assert small.value == pytest.approx(moved / took_s)


def test_machines_of_ones_own_are_compared_within_a_node_with_those_that_have_the_same_gpus() -> None:
    """NVLinks are the same wherever the server stands; the network between nodes is not."""

    def own(**change: object) -> tuple[object, object]:
        facts = FACTS.merged(Declared("own", 2, 8, 8, machine=replace(OWN, **change)))  # type: ignore[arg-type]
        within = expected_busbw(facts, "own", 1, 8, "all_reduce", GIB, NVLINK)
        return within and within.value, expected_busbw(facts, "own", 2, 16, "all_reduce", GIB, INFINIBAND)

    known = expected_busbw(FACTS, "p5.48xlarge", 1, 8, "all_reduce", GIB, NVLINK)

    assert known is not None
    assert (known.value, None) == own()
    assert (None, None) == own(nvlinks=12)
    assert (None, None) == own(gpu="A100-SXM4-80GB")
    facts = FACTS.merged(Declared("own", 2, 8, 8, machine=OWN))
    assert INFINIBAND == transport_of(facts.instances["own"], 2)
    assert floor_busbw(facts, "own", 2, 16, "all_reduce", GIB, INFINIBAND) is not None
