"""Machines over time: who gets worse, who cannot be told, and who is the same machine under another name."""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checks.documents.report import digest, dump
from checks.judge.robust_statistics import mann_kendall, theil_sen
from checks.judge.trend.model import LEAST_REPORTS, Machine, Trend
from checks.judge.trend.trend import DatedReport, trend
from checks.model import Outcome, Planned, Report, Scope
from tests.sample_reports import POLICY, healthy, with_metric, with_row

UUIDS = {"node-0": "GPU-a,GPU-b", "node-1": "GPU-c,GPU-d"}


def day(
    number: int,
    report: Report | None = None,
    uuids: Mapping[str, str] = UUIDS,
    **identity: str,
) -> Report:
    """Two nodes of two ranks on that day of November."""
    made = report or healthy(2, 2)
    nodes = tuple(
        replace(n, identity={**n.identity, "gpu_uuids": uuids.get(n.name, ""), **identity})
        for n in made.nodes
    )
    return replace(made, nodes=nodes, gate_id=f"d{number}", measured_at=f"2026-11-{number:02d}T08:00:00Z")


def gemm(number: int, value: float) -> Report:
    """That day's report, in which node-1's second rank measured this."""
    return day(number, with_metric(healthy(2, 2), "compute.gemm", "node-1/rank-3", "gflops", value))


def followed(reports: Sequence[Report]) -> Trend:
    """What the reports show."""
    return trend([DatedReport(report, digest(dump(report)), POLICY) for report in reports])


def machine(made: Trend, name: str) -> Machine:
    """The one machine that has this name now."""
    (found,) = [one for one in made.machines if one.name == name]
    return found


FALLING = [gemm(number, 43.0 - 2 * number) for number in range(1, 7)]


def test_a_gpu_that_gets_slower_is_found() -> None:
    """One of its two: the worst of a node counts, as a change over the whole time."""
    made = followed(FALLING)
    (course,) = machine(made, "node-1").degrading

    assert ("compute.gemm", "gflops") == (course.check, course.what)
    assert course.change is not None and round(course.change, 2) == round(-10 / 41, 2)
    assert not machine(made, "node-0").worse


def test_the_order_of_the_reports_says_nothing() -> None:
    """Their own times do."""
    assert followed(FALLING) == followed(FALLING[::-1])


def test_four_reports_are_too_few() -> None:
    """However steep it falls: four values can fall by chance."""
    made = followed(FALLING[: LEAST_REPORTS - 1])

    assert not any(one.told or one.worse for one in made.machines)


def test_a_clock_that_stands_still_orders_nothing() -> None:
    """Six reports of one second show no course: that is not "nothing degrades"."""
    made = followed([replace(report, measured_at=FALLING[0].measured_at) for report in FALLING])

    assert not any(one.told for one in made.machines)


def test_a_fall_of_less_than_healthy_parts_differ_is_none() -> None:
    """Four per cent in six steady steps is no finding."""
    made = followed([gemm(number, 40.0 - 0.32 * number) for number in range(1, 7)])

    assert not machine(made, "node-1").worse and machine(made, "node-1").told


def test_noise_is_no_trend() -> None:
    """Of 200 sequences of six noisy values, 10 % apart, hardly any is called a trend."""
    chance = random.Random(3)
    found = 0
    for _ in range(200):
        values = [40.0 * (1 + 0.05 * chance.gauss(0, 1)) for _ in range(6)]
        found += mann_kendall(values)[1] <= 0.01

    assert found <= 6


def test_getting_faster_is_no_finding() -> None:
    """A latency that falls, a speed that rises."""
    assert not machine(followed([gemm(n, 38.0 + 2 * n) for n in range(1, 7)]), "node-1").worse


def test_a_report_that_is_given_twice_counts_once() -> None:
    """And is named: five copies of one report are no five reports."""
    made = followed([*FALLING[:4], FALLING[3], FALLING[3]])

    assert (4, 2) == (made.reports, len(made.left_out))
    assert not machine(made, "node-1").told


@pytest.mark.parametrize("when", ["", "yesterday", "2026-11-21T08:00:00", "0001-01-01T00:00:00+20:00"])
def test_a_report_without_a_time_is_left_out_and_named(when: str) -> None:
    """Where it belongs in the order nobody knows."""
    made = followed([*FALLING, replace(FALLING[0], measured_at=when, gate_id="timeless")])

    assert 6 == made.reports
    assert len(made.left_out) == 1 and made.left_out[0].startswith("timeless (")


def test_a_renamed_machine_is_the_same() -> None:
    """Its GPUs tell it, whatever its host is called today."""
    other = {"node-0": UUIDS["node-1"], "node-1": UUIDS["node-0"]}
    swapped = with_metric(healthy(2, 2), "compute.gemm", "node-0/rank-0", "gflops", 20.0)
    made = followed([*FALLING[:5], day(9, swapped, other)])

    assert [course.points[-1].value for course in machine(made, "node-0").degrading] == [20.0]


def test_a_name_that_was_given_away_is_another_machine() -> None:
    """Two machines that bore one name are not one that got slower."""
    made = followed([*FALLING[:3], *(day(10 + n, uuids={"node-1": "GPU-x"}) for n in range(3))])
    named = [one.reports for one in made.machines if one.name == "node-1"]

    assert [3, 3] == named


def test_without_ids_the_name_is_all_there_is_and_that_is_said() -> None:
    """A node on a machine that shows none."""
    made = followed([day(number, uuids={}) for number in range(1, 7)])

    assert ("its name alone", 6) == (machine(made, "node-0").known_by, machine(made, "node-0").reports)


def test_nodes_that_share_an_id_are_not_one_machine() -> None:
    """Two nodes of one host: the firmware's id is both's, and tells nothing."""
    made = followed([day(number, uuids={}, product_uuid="same") for number in range(1, 7)])

    assert {"node-0", "node-1"} <= {one.name for one in made.machines}


def test_a_gpu_that_was_moved_makes_no_two_nodes_one() -> None:
    """Machines of one report stay apart, by name, and that is said."""
    moved = {"node-0": "GPU-a,GPU-c", "node-1": "GPU-b,GPU-d"}
    made = followed([day(1), day(2, uuids=moved)])

    assert {2} == {one.reports for one in made.machines if one.name.startswith("node-")}
    assert "another machine" in machine(made, "node-0").known_by


def test_a_gpu_that_is_gone_is_named() -> None:
    """The others still tell the machine."""
    made = followed([*FALLING, day(20, uuids={**UUIDS, "node-0": "GPU-a"})])

    assert ("GPU-b is no longer there",) == machine(made, "node-0").gone


def test_a_metric_that_is_no_longer_measured_is_named() -> None:
    """Steady until it went silent is not steady."""
    silent = with_row(
        day(20), "compute.gemm", "node-0/rank-0", lambda r: replace(r, outcome=Outcome.ERRORED, metrics={})
    )
    silent = with_row(
        silent, "compute.gemm", "node-0/rank-1", lambda r: replace(r, outcome=Outcome.ERRORED, metrics={})
    )
    made = followed([*FALLING, silent])

    assert ("compute.gemm gflops is no longer measured",) == machine(made, "node-0").gone


def remapped(number: int, *rows: int | None) -> Report:
    """A report with a row of remapped memory rows of node-0's GPUs."""
    report = day(number)
    first = report.observations[0]
    row = replace(first, check="gpu.row_remap", subject="node-0", metrics={"remapped_uncorrected": rows})
    plan = (*report.plan, Planned("gpu.row_remap", Scope.NODE, ("remapped_uncorrected",)))
    return replace(report, plan=plan, observations=(*report.observations, row))


def test_a_counter_that_grows_is_found_in_two_reports() -> None:
    """Of any GPU: one more remapped row needs no statistics."""
    (grown,) = machine(followed([remapped(1, 0, 2), remapped(2, 0, 3)]), "node-0").growing

    assert ("remapped_uncorrected", 1.0) == (grown.metric, grown.grown)


def test_a_counter_that_was_reset_and_grew_again_is_found() -> None:
    """A swapped part does not hide the next one's errors."""
    made = followed([remapped(1, 9, 9), remapped(2, 0, 0), remapped(3, 0, 4)])

    assert [4.0] == [one.grown for one in machine(made, "node-0").growing]


def test_a_part_that_comes_back_is_no_growth() -> None:
    """Sums over another number of GPUs are not compared."""
    made = followed([remapped(1, 5, 5), remapped(2, 5, None), remapped(3, 5, 5)])

    assert machine(made, "node-0").growing == ()


def test_collectives_are_of_all_nodes_together() -> None:
    """A slow all-reduce is no machine's own course."""
    reports = []
    for number in range(1, 7):
        report = day(number)
        for rank in range(4):
            row = f"node-{rank // 2}/rank-{rank}"
            speeds = tuple(10.0 - number for _ in range(8))
            report = with_metric(report, "collective.all_reduce", row, "busbw_gbps", speeds)
        reports.append(report)
    made = followed(reports)

    assert [one.name for one in made.machines if one.worse] == [
        "all together (cpu, 2 nodes, 2 ranks per node, quick)"
    ]


def test_clusters_of_other_sizes_are_not_compared() -> None:
    """Three reports of two nodes and three of three are too few of either."""
    made = followed([*(day(n) for n in range(1, 4)), *(day(n, healthy(3, 2)) for n in range(4, 7))])
    together = [one for one in made.machines if one.name.startswith("all together")]

    assert [3, 3] == [one.reports for one in together] and not any(one.told for one in together)


def test_no_report_is_no_machine() -> None:
    """And no failure."""
    assert ((), 0) == (followed([]).machines, followed([]).reports)


@pytest.mark.parametrize("many", [2, 3, 4, 5])
def test_the_exact_chance_is_what_counting_all_orders_gives(many: int) -> None:
    """Against every permutation."""
    orders = list(itertools.permutations(range(many)))
    scores = [mann_kendall(order)[0] for order in orders]
    for order, score in zip(orders, scores, strict=True):
        if score:
            as_far = sum(other >= score if score > 0 else other <= score for other in scores)
            assert mann_kendall(order)[1] == pytest.approx(as_far / len(orders))


def test_the_approximation_agrees_with_the_exact_chance() -> None:
    """With a tie, which the exact one does not take, close to the same without."""
    exact, tied = (
        mann_kendall([1, 2, 3, 5, 4, 6, 7, 8, 9, 10])[1],
        mann_kendall([1, 2, 3, 4, 4, 6, 7, 8, 9, 10])[1],
    )

    assert exact < 1e-4 and tied == pytest.approx(exact, abs=1e-3)


def test_equal_values_have_no_trend() -> None:
    """Neither side, for certain."""
    assert (0, 1.0) == mann_kendall([3.0] * 9)


@settings(max_examples=50)
@given(st.floats(-100, 100), st.lists(st.integers(0, 1000), min_size=5, max_size=20, unique=True))
def test_the_slope_of_a_line_is_its_own(slope: float, times: list[int]) -> None:
    """Also with one point of five that is wild."""
    times.sort()
    values = [slope * time for time in times]
    values[len(values) // 2] += 1e6

    assert theil_sen([float(time) for time in times], values) == pytest.approx(slope, abs=1e-6, rel=1e-6)
