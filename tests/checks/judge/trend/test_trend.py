"""Machines over time: who gets worse, who cannot be told, and who is the same machine under another name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

import pytest

from checks.documents.report import digest, dump
from checks.judge.trend.degradation import LEAST_PROOFS, Lack, Motion
from checks.judge.trend.numbers import NodeIdentity, gate_numbers
from checks.judge.trend.time_series import Course, Trend, TrendMachine
from checks.judge.trend.trend import follow
from checks.model import Planned, Report, Scope, Value
from checks.policy import CheckPolicy
from tests.checks.judge.culprits.test_silent_ranks import errored
from tests.sample_reports import POLICY, healthy, with_metric, with_row

NODES = 6
UUIDS = {f"node-{node}": f"GPU-{node}a,GPU-{node}b" for node in range(NODES)}
LAST = 14


def day(
    number: int, report: Report | None = None, uuids: Mapping[str, str] = UUIDS, **identity: str
) -> Report:
    """Six nodes of two ranks on that day of November."""
    made = report or healthy(NODES, 2)
    nodes = tuple(
        replace(n, identity={**n.identity, "gpu_uuids": uuids.get(n.name, ""), "driver": "570", **identity})
        for n in made.nodes
    )
    return replace(made, nodes=nodes, gate_id=f"d{number}", measured_at=f"2026-11-{number:02d}T08:00:00Z")


def gemm(number: int, value: float, nodes: int = NODES, driver: str = "570") -> Report:
    """That day's report, in which node-1's second rank measured this."""
    made = with_metric(healthy(nodes, 2), "compute.gemm", "node-1/rank-3", "gflops", value)
    return day(number, made, driver=driver)


def followed(reports: Sequence[Report]) -> Trend:
    """What the reports show."""
    return follow([gate_numbers(report, digest(dump(report)), POLICY) for report in reports])


def machine(made: Trend, name: str) -> TrendMachine:
    """The one machine that has this name now."""
    (found,) = [one for one in made.machines if one.name == name]
    return found


def gemm_of(made: Trend, name: str) -> Course:
    """The machine's GEMM."""
    courses = machine(made, name).courses
    (found,) = [one for one in courses if (one.check, one.what) == ("compute.gemm", "gflops")]
    return found


FALLING = [gemm(number, 42.0 if number < 9 else 42.0 - 2 * (number - 8)) for number in range(1, LAST + 1)]


DAYS = range(1, LAST + 1)
WITHOUT_CLOCK = with_row(FALLING[4], "system.clock", "node-3", partial(errored, reason="it died"))
WITHOUT_STEP = replace(
    FALLING[-1], observations=tuple(row for row in FALLING[-1].observations if row.check != "training.step")
)


@pytest.mark.parametrize(
    ("reports", "motion", "lack"),
    [
        pytest.param(FALLING, Motion.WORSE, None, id="it falls"),
        pytest.param([gemm(n, 42.0 if n < 9 else 40.4) for n in DAYS], Motion.STEADY, None, id="healthy parts differ as much"),
        pytest.param([gemm(n, 38.0 + 2 * n) for n in DAYS], Motion.STEADY, None, id="it gets faster"),
        pytest.param([gemm(n, 42.0 if n < 12 else 30.0, driver="" if n == 6 else "570") for n in DAYS], Motion.WORSE, None,
                     id="the driver could not be read for a day"),
        pytest.param([*FALLING[:4], WITHOUT_CLOCK, *FALLING[5:-1], WITHOUT_STEP], Motion.WORSE, None, id="gates lack a number"),
        pytest.param(FALLING[-(LEAST_PROOFS - 1):], Motion.UNKNOWN, Lack.PROOFS, id="too few reports, however steep"),
        pytest.param([gemm(n, 42.0 if n < 9 else 30.0, driver="570" if n < 9 else "580") for n in DAYS], Motion.UNKNOWN,
                     Lack.PROOFS, id="another driver since then"),
        pytest.param([gemm(n, 42.0, NODES if n < 9 else 2) for n in DAYS], Motion.UNKNOWN, Lack.PROOFS,
                     id="too few gates with peers, and peers are not what is missing"),
        pytest.param([replace(one, measured_at=FALLING[0].measured_at) for one in FALLING], Motion.UNKNOWN, Lack.PROOFS,
                     id="a clock that stands still orders nothing"),
        pytest.param([gemm(n, 42.0 if n < 9 else 20.0, 2) for n in range(1, 29)], Motion.MOVED, None,
                     id="too few nodes: who did it, nobody can tell"),
        pytest.param([*FALLING[:4], FALLING[3], FALLING[3]], Motion.UNKNOWN, Lack.PROOFS, id="three copies are no three reports"),
    ],
)  # fmt: skip
def test_machine_course_follows_the_worst_gpu_of_its_node(
    reports: list[Report], motion: Motion, lack: Lack | None
) -> None:
    """Compared with what the other nodes reached at the same time, and since the machine's last change. Nobody else is named."""
    made = followed(reports)
    course = gemm_of(made, "node-1")

    assert (motion, lack, course.moves) == (course.motion, course.lack, machine(made, "node-1").worse)
    assert not machine(made, "node-0").worse
    if motion is Motion.MOVED:
        assert (Motion.UNKNOWN, Lack.PEERS) == (gemm_of(made, "node-0").motion, gemm_of(made, "node-0").lack)


def test_a_gpu_that_flaps_is_found() -> None:
    """Slow in two of three gates from the first one on: the history names it, and how often it was slow."""
    reports = [gemm(number, 42.0 if number % 3 else 35.0, nodes=16) for number in range(1, 28)]
    flapping = [gemm(number, 35.0 if number % 3 else 42.0, nodes=16) for number in range(1, 28)]

    for made, bad in ((followed(flapping), 18), (followed(reports), 9)):
        assert ["node-1"] == [one.name for one in made.machines if one.worse]
        assert (bad, 27) == gemm_of(made, "node-1").bad_gates


def test_the_order_of_the_reports_says_nothing() -> None:
    """Their own times do."""
    assert followed(FALLING) == followed([*FALLING[::-1], *FALLING[3:6]])


def test_software_that_slows_all_names_nobody() -> None:
    """6 % less everywhere is one line about the fleet."""
    slow = healthy(NODES, 2)
    for rank in range(2 * NODES):
        at = ("compute.gemm", f"node-{rank // 2}/rank-{rank}")
        slow = with_metric(slow, *at, "gflops", 0.94 * (40.0 + rank))
    made = followed([day(number, slow if number > 10 else None) for number in range(1, LAST + 1)])

    assert not any(one.worse for one in made.machines)
    (moved,) = [one for one in made.fleet if one.check == "compute.gemm"]
    assert ("gflops", NODES, True) == (moved.what, moved.machines, moved.worse)
    assert round(moved.change, 2) == -0.06


def test_gpus_that_could_not_be_read_meanwhile_are_compared_with_those_before() -> None:
    """A machine that its firmware tells: GPUs a and b, then none to be read, then a and c."""
    gates = []
    for number, gpus in enumerate((("a", "b"), (), ("a", "c")), start=1):
        made = gate_numbers(day(number), f"{number}", POLICY)
        known = tuple(
            replace(one, identity=NodeIdentity((f"uuid {one.name}",), gpus, {})) for one in made.nodes
        )
        gates.append(replace(made, nodes=known))
    found = machine(follow(gates), "node-0")

    assert [("GPUs", "a, b", "a, c", "d3")] == [(c.what, c.before, c.after, c.gate_id) for c in found.changes]


def test_a_trend_without_every_point_is_the_same_trend() -> None:
    """A fleet's page draws what moves alone."""
    gates = [gate_numbers(report, digest(dump(report)), POLICY) for report in FALLING]
    whole, short = follow(gates), follow(gates, every_point=False)

    assert [one.degrading for one in whole.machines] == [one.degrading for one in short.machines]
    assert () == gemm_of(short, "node-0").points != gemm_of(whole, "node-0").points


@pytest.mark.parametrize("when", ["", "yesterday", "2026-11-21T08:00:00", "0001-01-01T00:00:00+20:00"])
def test_a_report_without_a_time_is_left_out(when: str) -> None:
    """Where it belongs in the order nobody knows."""
    made = followed([*FALLING, replace(FALLING[0], measured_at=when, gate_id="timeless")])

    assert LAST == made.reports


def test_a_renamed_machine_is_the_same() -> None:
    """Its GPUs tell it, whatever its host is called today."""
    other = {**UUIDS, "node-0": UUIDS["node-1"], "node-1": UUIDS["node-0"]}
    swapped = with_metric(healthy(NODES, 2), "compute.gemm", "node-0/rank-0", "gflops", 20.0)
    made = followed([*FALLING, day(19, swapped, other)])

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
    moved = {**UUIDS, "node-0": "GPU-0a,GPU-1a", "node-1": "GPU-0b,GPU-1b"}
    made = followed([day(1), day(2, uuids=moved)])

    assert {2} == {one.reports for one in made.machines if one.name.startswith("node-")}
    assert "another machine" in machine(made, "node-0").known_by


def with_check(report: Report, check: str, scope: Scope, metric: str, values: Mapping[str, Value]) -> Report:
    """The report with one more check, whose one metric has these values."""
    rows = [
        replace(report.observations[0], check=check, subject=subject, metrics={metric: value})
        for subject, value in values.items()
    ]
    plan = (*report.plan, Planned(check, scope, (metric,)))
    return replace(report, plan=plan, observations=(*report.observations, *rows))


def remapped(number: int, *rows: int | None) -> Report:
    """A report with a row of remapped memory rows of node-0's GPUs."""
    return with_check(day(number), "gpu.row_remap", Scope.NODE, "remapped_uncorrected", {"node-0": rows})


@pytest.mark.parametrize(
    ("rows", "grown"),
    [
        ([(0, 2), (0, 3)], [("remapped_uncorrected", 1.0)]),
        # A swapped part does not hide the next one's errors; sums over another number of GPUs are not compared.
        ([(9, 9), (0, 0), (0, 4)], [("remapped_uncorrected", 4.0)]),
        ([(5, 5), (5, None), (5, 5)], []),
    ],
)
def test_a_counter_that_grows_is_found_in_two_reports(
    rows: list[tuple[int | None, ...]], grown: list[tuple[str, float]]
) -> None:
    """Of any GPU: one more remapped row needs no statistics."""
    made = followed([remapped(number, *row) for number, row in enumerate(rows, start=1)])

    assert grown == [(one.metric, one.grown) for one in machine(made, "node-0").growing]


def test_collectives_are_of_all_nodes_together() -> None:
    """A slow all-reduce is no machine's own course."""
    reports = []
    for number in range(1, 29):
        report = day(number)
        for rank in range(2 * NODES):
            at = ("collective.all_reduce", f"node-{rank // 2}/rank-{rank}")
            report = with_metric(report, *at, "busbw_gbps", (9.0 if number < 10 else 4.0,) * 8)
        reports.append(report)
    made = followed(reports)

    assert [one.name for one in made.machines if one.worse] == [
        "all together (cpu, 6 nodes, 2 ranks per node, quick)"
    ]


@pytest.mark.parametrize(("metric", "worst"), [("wait_ms", 9.0), ("read_gbps", 2.0)])
def test_a_node_has_its_worst_value(metric: str, worst: float) -> None:
    """Of two ranks the longer latency, and the lower speed; the median of the gate is that of the nodes' worst."""
    values = {f"node-{rank // 2}/rank-{rank}": 9.0 if rank % 2 else 2.0 for rank in range(2 * NODES)}
    policy = replace(POLICY, checks={**POLICY.checks, "own.part": CheckPolicy()})
    report = with_check(healthy(NODES, 2), "own.part", Scope.RANK, metric, values)
    found = gate_numbers(report, "d", policy)
    (place,) = [place for place, number in enumerate(found.numbers) if number.check == "own.part"]

    assert {worst} == {node.values[place] for node in found.nodes} == {found.medians[place]}


def test_the_number_of_gates_in_a_month_is_that_of_the_newest() -> None:
    """Of older gates some may have been left out; it says how rare a name has to be."""
    monthly = followed([day(n) for n in range(1, 5)])
    gates = [gate_numbers(day(1), f"{n}", POLICY) for n in range(40)]
    often = [
        replace(one, gate_id=str(n), measured_at=f"2026-11-{1 if n < 15 else 20:02}T{n % 24:02}:{n:02}:00Z")
        for n, one in enumerate(gates)
    ]

    assert 30.0 == monthly.gates_a_month
    assert follow(often).gates_a_month > 500


def test_clusters_of_other_sizes_are_not_compared() -> None:
    """Eight reports of two nodes and eight of three are too few of either."""
    made = followed([day(number, healthy(2 if number < 9 else 3, 2)) for number in range(1, 17)])
    together = [one for one in made.machines if one.name.startswith("all together")]

    assert [8, 8] == [one.reports for one in together] and not any(
        one.unknown < len(one.courses) for one in together
    )


def test_no_report_is_no_machine() -> None:
    """And no failure."""
    assert ((), 0) == (followed([]).machines, followed([]).reports)
