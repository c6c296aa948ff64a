"""Learning a baseline: robust, the same for any order, honest about what it leaves out."""

from __future__ import annotations

import json
import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checks.judge.baseline.bands import digest_of, dump, load
from checks.judge.baseline.learn import LEAST_VALUES, LEAST_WIDTH, learn
from checks.judge.baseline.samples import ComparisonGroup, Side
from checks.model import CLUSTER, Profile
from checks.value_types import DecodeError
from tests.checks.baselines import FOUR, GEMM, STEADY, band_of, case, gemm, learned
from tests.sample_reports import WITHOUT_NETWORK, healthy, with_metric, without_node, wrong_sums


def test_outliers_are_left_out_and_named() -> None:
    """One slow rank of 32 neither moves the band nor hides in it."""
    baseline = learned(
        *(replace(gemm(STEADY), gate_id=f"g{i}") for i in range(3)), gemm([*STEADY[:7], 21.0], "sick")
    )
    band = band_of(baseline, GEMM, "gflops")
    outliers = [one for group in baseline.groups for one in group.outliers if one.check == GEMM]

    assert (31, 38.1) == (band.values, round(band.low, 1))
    assert [("sick", "node-3/rank-7", 21.0)] == [(o.gate_id, o.subject, o.value) for o in outliers]
    assert "gflops below 38" in outliers[0].why


def test_baseline_learns_no_value_of_a_refused_node() -> None:
    """Nor of the collectives that it took part in; both are named, and its peers' own numbers count."""
    baseline = learned(wrong_sums(gemm(STEADY)), gemm(STEADY))
    left = {(one.subject, one.check) for one in baseline.left_out}

    assert 14 == band_of(baseline, GEMM, "gflops").values
    assert 8 == band_of(baseline, "collective.all_reduce", "busbw_gbps", "1024").values
    assert {("node-1", ""), (CLUSTER, "collective.all_reduce")} <= left


def test_baseline_learns_no_value_of_a_busy_node() -> None:
    """Not even where no threshold was crossed: other work used its CPUs. Its other checks count, and its peers do; a collective is not
    learned at all, because the slowest node sets its pace.
    """
    busy = {"host_load": 25.0, "host_taken": 0.8, "host_idle": 0.0, "host_cpus": 2}
    report = gemm(STEADY)
    for metric, value in busy.items():
        report = with_metric(report, GEMM, "node-1/rank-2", metric, value)
        report = with_metric(report, "collective.all_reduce", "node-1/rank-2", metric, value)
    baseline = learned(report, gemm(STEADY))
    left = {(one.subject, one.check): one.why for one in baseline.left_out}

    assert "node-1 was busy: load 25 on 2 CPUs" in left["node-1", GEMM]
    assert 14 == band_of(baseline, GEMM, "gflops").values
    assert 8 == band_of(baseline, "collective.all_reduce", "busbw_gbps", "1024").values
    assert "node-1 was busy" in left[CLUSTER, "collective.all_reduce"]
    assert {"node-1", CLUSTER} == {subject for subject, _ in left}


def test_an_incomplete_report_teaches_no_collectives() -> None:
    """Nobody knows what the node that never wrote did to the others."""
    baseline = learned(without_node(healthy(5, 2), "node-4"))

    assert {group.group.nodes for group in baseline.groups} == {0}
    assert any(one.check == "collective.all_reduce" for one in baseline.left_out)


def test_a_report_of_an_unknown_type_teaches_nothing() -> None:
    """What the policy was not written for is not known to be healthy."""
    strange = replace(gemm(STEADY), declared=replace(gemm(STEADY).declared, instance_type="strange"))

    assert learned(strange).groups == ()


def test_too_few_values_are_no_band() -> None:
    """And that is listed, with the number that is needed."""
    (missing, *_) = learned(gemm(STEADY[:6])).groups[-1].not_learned

    assert f"6 values, {LEAST_VALUES} are needed" == missing.why


def test_two_kinds_of_machines_are_no_band() -> None:
    """Where 7 of 24 lie apart nobody knows which are the healthy ones."""
    mixed = [40.0] * 17 + [20.0] * 3 + [60.0] * 4
    (missing,) = [one for g in learned(gemm(mixed)).groups for one in g.not_learned if one.check == GEMM]

    assert "7 of 24 values are far from the others" in missing.why


def test_a_band_that_nothing_could_miss_is_none() -> None:
    """A speed that scatters as far as it goes has no lower end that says anything."""
    wild = [1.0, 90.0, 5.0, 40.0, 70.0, 12.0, 55.0, 80.0]
    reasons = [one.why for group in learned(gemm(wild)).groups for one in group.not_learned]

    assert any("vary so much" in why for why in reasons)


def test_a_band_is_never_narrower_than_healthy_parts_differ() -> None:
    """Equal values do not make every later jitter a finding."""
    band = band_of(learned(gemm([40.0] * 8)), GEMM, "gflops")

    assert (40.0 * (1 - LEAST_WIDTH), 0.0) == (band.low, band.mad)


def test_many_values_make_a_wider_band() -> None:
    """Of 2,000 normal values, one as healthy as the other, none is outside of the band that they make."""
    chance = random.Random(7)
    reports = [replace(healthy(1, 250, network=False), gate_id=f"g{index}") for index in range(8)]
    cases = []
    for report in reports:
        rows = tuple(
            replace(r, metrics={"gflops": chance.gauss(40.0, 2.0)}) if r.check == "training.step" else r
            for r in report.observations
        )
        cases.append(case(replace(report, observations=rows), WITHOUT_NETWORK))
    band = band_of(learn(cases), "training.step", "gflops")

    assert 2000 == band.values
    assert 3.5 < (band.median - band.low) / band.mad < 5.0


def test_the_same_report_twice_counts_once() -> None:
    """And it is said."""
    baseline = learned(gemm(STEADY), gemm(STEADY))

    assert (1, 8) == (len(baseline.reports), band_of(baseline, GEMM, "gflops").values)
    assert [one.why for one in baseline.left_out] == ["the same report was given twice"]


def test_a_baseline_survives_its_file() -> None:
    """JSON and back, to the same digest."""
    assert load(dump(FOUR)) == FOUR
    assert digest_of(load(dump(FOUR))) == digest_of(FOUR)


@pytest.mark.parametrize(
    ("edit", "path"),
    [
        (lambda table: table.update(extra=1), "extra"),
        (lambda table: table.pop("reports"), "reports"),
        (lambda table: table["groups"].append(table["groups"][0]), "groups"),
        (lambda table: table["groups"][0]["bands"][0].update(low=1e9), "groups[0].bands[0]"),
        (
            lambda table: table["groups"][0]["bands"].append(table["groups"][0]["bands"][0]),
            "groups[0].bands[",
        ),
        (lambda table: table["groups"][0]["bands"][0].update(bad="lo"), "groups[0].bands[0].bad"),
        (lambda table: table.update(schema_version=2), "schema_version"),
        (lambda table: table["groups"][0]["bands"][0].update(low=0.0), "groups[0].bands[0]"),
    ],
)
def test_a_file_that_is_not_wholly_a_baseline_is_refused(edit: object, path: str) -> None:
    """With the place that is wrong."""
    table = json.loads(dump(FOUR))
    assert callable(edit)
    edit(table)

    with pytest.raises(DecodeError) as error:
        load(json.dumps(table).encode())

    assert error.value.path.startswith(path)


SPEEDS = st.lists(st.floats(20, 60), min_size=8, max_size=24).map(
    lambda values: values[: len(values) // 2 * 2]
)


@settings(max_examples=25)
@given(st.lists(SPEEDS, min_size=1, max_size=3), st.randoms(use_true_random=False))
def test_the_order_of_the_reports_says_nothing(values: list[list[float]], chance: random.Random) -> None:
    """Learning is the same for any order."""
    cases = [case(gemm(one, f"g{index}")) for index, one in enumerate(values)]
    other = list(cases)
    chance.shuffle(other)

    assert learn(cases) == learn(other)


@settings(max_examples=25)
@given(SPEEDS, st.sampled_from([0.25, 0.5, 2.0, 4.0]))
def test_other_units_scale_the_band(values: list[float], factor: float) -> None:
    """Twice the values make a band twice as high and twice as wide."""
    one, other = (learned(gemm(list(scaled))) for scaled in (values, (value * factor for value in values)))
    bands = [[b for g in made.groups for b in g.bands if b.check == GEMM] for made in (one, other)]

    assert [(b.low * factor, b.median * factor, b.high * factor) for b in bands[0]] == [
        (b.low, b.median, b.high) for b in bands[1]
    ]


def test_the_unit_says_what_is_compared() -> None:
    """Speeds and latencies are; what a machine has, and how often it failed, is not."""
    groups = learned(gemm(STEADY)).groups
    found = {(band.metric, band.bad) for group in groups for band in group.bands}

    assert found == {
        ("gflops", Side.LOW), ("busbw_gbps", Side.LOW), ("bandwidth_gbps", Side.LOW),
        ("latency_us", Side.HIGH), ("connect_ms", Side.HIGH),
    }  # fmt: skip
    assert {group.group for group in groups} == {
        ComparisonGroup("cpu", 0, 2, Profile.QUICK, 0),
        ComparisonGroup("cpu", 0, 2, Profile.QUICK, 4),
    }
