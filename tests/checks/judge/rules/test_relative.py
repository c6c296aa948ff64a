"""Relative rules: within a node, between nodes, and what the slowest costs; silent where there is nobody to compare with."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace
from statistics import NormalDist

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checks.judge.rules.apply import apply
from checks.judge.rules.relative import comparisons
from checks.judge.rules.values import RuleContext
from checks.model import CLUSTER, Cause, Declared, Finding, Level, Observation, Outcome, Value, node_of
from checks.model_details import Relation
from checks.policy import CheckPolicy, Over, Rule

CHECK = "training.step"


def _judged(
    rule: Rule, rows: Mapping[str, Value], declared: tuple[int, int] | None = None, gpus: int = 0,
    required: bool = True,
) -> list[Finding]:  # fmt: skip
    """What the rule says of these subjects' metric, by default of a cluster of so many nodes and ranks a node as there are."""
    found = len({node_of(who) for who in rows})
    nodes, ranks = declared or (found, len(rows) // found)
    observed = [Observation(CHECK, who, Outcome.MEASURED, 1.0, {rule.metric: v}) for who, v in rows.items()]
    known = RuleContext(declared=Declared("p5.48xlarge", nodes, gpus, ranks))
    return list(apply(CHECK, CheckPolicy(required, rules=(rule,)), observed, nodes * ranks, known))


def _ranks(*nodes: tuple[float, ...]) -> dict[str, Value]:
    return {
        f"node-{n}/rank-{n * len(values) + r}": value
        for n, values in enumerate(nodes)
        for r, value in enumerate(values)
    }


def _comparing(over: Over) -> Rule:
    """A rule that fails whoever is a tenth worse than what it is compared with."""
    if over is Over.SLOWEST:
        return Rule("m", "s", over, fail_above=0.1)
    return Rule("m", "s", over, fail_below=0.9)


def _said(findings: list[Finding]) -> list[tuple[str, str, str]]:
    return [(f.level.value, f.cause.value, f.subject) for f in findings]


def test_a_gpu_is_held_to_its_own_nodes_median_even_where_another_node_is_as_slow() -> None:
    """Node 1 is slow as a whole; in node 0 one rank lags behind its own peers, at the same speed."""
    rule = Rule("m", "s", Over.NODE, warn_below=0.95, fail_below=0.9)
    rows = _ranks((100.0, 100.0, 100.0, 50.0), (50.0, 50.0, 50.0, 50.0))
    assert [("FAIL", "HARDWARE", "node-0/rank-3")] == _said(_judged(rule, rows))


def test_the_elements_of_a_nodes_array_are_compared_with_each_other() -> None:
    """One GPU of eight, by its label."""
    rule = Rule("m", "s", Over.NODE, fail_below=0.9)
    values = (10.0,) * 5 + (8.0,) + (10.0,) * 2
    found = _judged(rule, {"node-0": values}, (1, 8), gpus=8)
    assert [("FAIL", "HARDWARE", "node-0")] == _said(found)
    assert ("[5]",) == found[0].elements
    assert found[0].message == "m[5] is 8, 80 % of the median of its node (10), threshold 90 %"


def test_devices_are_compared_with_each_other_however_many_gpus_there_are() -> None:
    """A node with eight GPUs may have one network device, with which nothing can be compared."""
    rule = Rule("rates", "s", Over.NODE, fail_below=0.9, each="devices")
    row = Observation(CHECK, "node-0", Outcome.MEASURED, 1.0, {"devices": ("efa0",), "rates": (3.0,)})
    facts = RuleContext(declared=Declared("p5.48xlarge", 1, 8, 8))

    assert [] == list(apply(CHECK, CheckPolicy(rules=(rule,)), [row], 8, facts))


def test_a_node_is_held_to_the_fleet_by_the_median_of_its_ranks() -> None:
    """One slow rank does not make a slow node; a slow node is named as a node."""
    rule = Rule("m", "s", Over.FLEET, fail_below=0.9)
    rows = _ranks((100.0, 100.0, 50.0), (101.0, 99.0, 100.0), (100.0,) * 3, (60.0,) * 3, (99.0,) * 3)
    assert [("FAIL", "HARDWARE", "node-3")] == _said(_judged(rule, rows))


def test_within_the_fleets_own_scatter_nobody_is_named() -> None:
    """0.88 of the median is ordinary in a fleet that scatters, and far in a tight one, if its values are enough to show that it is."""
    rule = Rule("m", "s", Over.FLEET, fail_below=0.9, deviations=3.5)
    tight: dict[str, Value] = {f"node-{i}": v for i, v in enumerate((100.0, 101.0, 99.0, 100.0, 88.0, 100.5))}
    loose: dict[str, Value] = {f"node-{i}": v for i, v in enumerate((100.0, 112.0, 91.0, 107.0, 88.0, 100.5))}
    (found,) = _judged(rule, tight)
    assert ("WARN", "EVIDENCE", CLUSTER) == _said([found])[0] and found.message.startswith(
        "1 of 6 values are beyond the FAIL threshold, and 6 values do not show how much they vary, so that this may be noise: "
    )
    assert [] == _judged(rule, {**tight, "node-4": 91.0})
    assert [("FAIL", "HARDWARE", "node-4")] == _said(_judged(rule, {**tight, "node-4": 60.0}))
    assert [] == _judged(rule, loose)


def test_a_fleet_of_two_halves_is_no_healthy_one() -> None:
    """Four nodes at half the speed of the other four scatter too much for outliers: that is said, and blames nobody."""
    rule = Rule("tokens_per_s", "a source", Over.FLEET, 0.95, 0.9, deviations=3.5)
    nodes = [(speed,) for speed in (100.0, 50.0, 101.0, 51.0, 99.0, 49.0, 100.0, 50.0)]

    (found,) = _judged(rule, _ranks(*nodes))

    assert (Level.WARN, Cause.EVIDENCE, CLUSTER) == (found.level, found.cause, found.subject)
    assert "4 of 8 values are beyond the FAIL threshold" in found.message


def test_a_fleet_that_agrees_to_the_bit_still_names_the_odd_one() -> None:
    """Its median absolute deviation is 0: the ratio alone decides."""
    rule = Rule("m", "s", Over.FLEET, fail_below=0.9, deviations=3.5)
    rows: dict[str, Value] = {f"node-{i}": 100.0 if i < 7 else 70.0 for i in range(8)}
    assert [("FAIL", "HARDWARE", "node-7")] == _said(_judged(rule, rows))


@pytest.mark.parametrize(
    ("metric", "slow", "said"),
    [
        ("tokens_per_s", 60.0, "it trains 60 tokens per second, where the median is 100"),
        ("busbw_gbps", 60.0, "it reaches 60 GB/s, where the median is 100 GB/s"),
        ("step_ms", 100.0 / 0.6, "step ms is 166.7 ms, where the median is 100 ms"),
    ],
)
def test_the_straggler_is_named_with_the_share_of_the_job_that_it_costs(
    metric: str, slow: float, said: str
) -> None:
    """All wait for the slowest: a rate at 0.6 of the median, or a step 1/0.6 as long, costs four tenths."""
    rule = Rule(metric, "s", Over.SLOWEST, warn_above=0.1, fail_above=0.2)
    rows = _ranks((100.0, 100.0), (100.0, slow), (100.0, 100.0))
    found = _judged(rule, rows)
    assert [("FAIL", "HARDWARE", "node-1/rank-3")] == _said(found)
    assert found[0].message == f"costs the job 40 % of its time: {said}; threshold 20 %"
    assert found[0].compared and found[0].compared.value == pytest.approx(0.4)


def test_a_straggler_among_few_that_may_be_noise_is_said_and_not_blamed() -> None:
    """Six ranks do not show how much they vary."""
    rule = Rule("tokens_per_s", "s", Over.SLOWEST, warn_above=0.1, fail_above=0.2)
    (found,) = _judged(rule, _ranks((100.0, 100.0), (100.0, 70.0), (100.0, 100.0)))
    assert ("WARN", "EVIDENCE", CLUSTER) == _said([found])[0]
    assert found.message.startswith(
        "6 values do not show how much they vary, so that this may be noise: node-1, rank 3 "
    )


@pytest.mark.parametrize("over", [Over.PEERS, Over.NODE, Over.FLEET, Over.SLOWEST])
def test_below_the_least_number_of_peers_no_comparison_speaks(over: Over) -> None:
    """Declared that few, the rule does not apply; one of them is half as fast, and that proves nothing. If enough are declared and too
    few were measured, evidence is missing.
    """
    rule = _comparing(over)
    rows = _ranks((100.0,), (50.0,)) if over is not Over.NODE else _ranks((100.0, 50.0))
    assert [] == _judged(rule, rows)

    found = _judged(rule, rows, (8, 1) if over is not Over.NODE else (1, 8))
    assert [(Level.WARN, Cause.EVIDENCE)] == [(f.level, f.cause) for f in found]


@pytest.mark.parametrize("over", [Over.NODE, Over.FLEET, Over.SLOWEST])
def test_a_median_of_nothing_measured_compares_nothing(over: Over) -> None:
    """Zeros everywhere are no healthy fleet of equals: the measurement is broken, and that is said."""
    rows = _ranks((0.0,) * 4, (0.0,) * 4, (0.0,) * 4, (0.0,) * 4)
    found = _judged(_comparing(over), rows)
    assert found and {(Level.FAIL, Cause.EVIDENCE)} == {(f.level, f.cause) for f in found}
    assert {"node-0", "node-1", "node-2", "node-3", CLUSTER} >= {f.subject for f in found}


@given(st.lists(st.floats(1, 1e6), min_size=4, max_size=30), st.integers(-20, 20))
def test_the_unit_of_a_metric_does_not_matter(values: list[float], power: int) -> None:
    """GB/s or MB/s: the same nodes are named (by a power of two, so that no value is rounded)."""
    rule = Rule("m", "s", Over.FLEET, fail_below=0.8, deviations=3.0)
    rows: dict[str, Value] = {f"node-{i}": value for i, value in enumerate(values)}
    scaled: dict[str, Value] = {f"node-{i}": value * 2.0**power for i, value in enumerate(values)}
    named, again = (_judged(rule, found) for found in (rows, scaled))
    assert _said(named) == _said(again)


@pytest.mark.parametrize("over", [Over.FLEET, Over.PEERS])
def test_a_value_far_above_the_median_is_named_as_one_far_below(over: Over) -> None:
    """A rule may have a threshold on either side."""
    rule = Rule("m", "s", over, fail_below=0.8, fail_above=1.2)
    rows: dict[str, Value] = {f"node-{i}/rank-{i}": v for i, v in enumerate((10.0, 10.0, 10.0, 14.0, 10.0))}
    (found,) = _judged(rule, rows)
    assert found.subject.startswith("node-3") and found.compared
    compared = found.compared
    assert (14.0, 10.0, 1.2) == (compared.value, compared.of, compared.threshold)
    assert Relation.ABOVE is compared.relation
    assert "140 % of the median" in found.message and found.message.endswith("threshold 120 %")


def test_a_quarter_of_outliers_is_excused_and_more_is_said() -> None:
    """Where the values scatter so much that none stands out, up to a quarter beyond the threshold is scatter."""
    rule = Rule("m", "s", Over.FLEET, fail_below=0.85, deviations=100.0)
    usual = (100.0, 101.0, 99.0, 102.0, 98.0)

    def judged(*values: float) -> list[tuple[str, str, str]]:
        return _said(_judged(rule, {f"node-{i}": v for i, v in enumerate(values)}))

    assert [] == judged(*usual, 100.0, 80.0, 79.0)
    assert [("WARN", "EVIDENCE", CLUSTER)] == judged(*usual, 81.0, 80.0, 79.0)


@pytest.mark.parametrize(("usual", "slowest"), [(0.5, 0.9), (0.0, 0.7)])
def test_the_slowest_of_short_steps_is_named(usual: float, slowest: float) -> None:
    """Times below a second are times like others. A median of zero: whoever takes any time costs all of it."""
    rule = Rule("step_s", "s", Over.SLOWEST, fail_above=0.1)
    (found,) = _judged(rule, _ranks((usual,), (usual,), (usual,), (slowest,)))
    assert (Level.FAIL, Cause.HARDWARE, "node-3/rank-3") == (found.level, found.cause, found.subject)


def _many(slowest: float, noise: float, many: int = 200) -> dict[str, Value]:
    """So many ranks of one node each with normal noise, as its quantiles say, and one more that is the slowest."""
    speeds = [100.0 * (1 + noise * NormalDist().inv_cdf((at + 0.5) / many)) for at in range(many)]
    return _ranks(*((speed,) for speed in speeds), (slowest,))


def test_the_slowest_of_many_that_vary_is_not_blamed() -> None:
    """At 5 % noise the slowest of 200 costs a seventh: a WARN about all of them; at 2 % noise the same speed is an outlier."""
    rule = Rule("tokens_per_s", "s", Over.SLOWEST, warn_above=0.05, fail_above=0.1)
    (varying,) = _judged(rule, _many(85.0, 0.05))
    (outlier,) = _judged(rule, _many(85.0, 0.02))

    assert ("WARN", "EVIDENCE", CLUSTER) == _said([varying])[0]
    assert varying.message.startswith(
        "no single one is at fault, all vary: node-200, rank 200 costs the job 15 % of its time: "
    )
    assert ("FAIL", "HARDWARE", "node-200/rank-200") == _said([outlier])[0]


def test_a_small_share_that_noise_explains_is_no_finding() -> None:
    """The slowest of 200 at 3 % noise costs 8 %, which is a WARN only if it is an outlier."""
    rule = Rule("tokens_per_s", "s", Over.SLOWEST, warn_above=0.05, fail_above=0.1)

    assert [] == _judged(rule, _many(91.6, 0.03))


@pytest.mark.parametrize("over", [Over.PEERS, Over.NODE, Over.FLEET])
def test_deviations_are_the_least_distance_of_an_outlier(over: Over) -> None:
    """Of six values, too, as many as the rule says; without the key the threshold decides."""
    values = (100.0, 112.0, 91.0, 107.0, 88.0, 100.5)
    rows = _ranks(values) if over is Over.NODE else _ranks(*((value,) for value in values))
    rule = Rule("m", "s", over, fail_below=0.9)

    assert 1 == len(_judged(rule, rows))
    assert [] == _judged(replace(rule, deviations=3.5), rows)


def test_the_noise_of_a_gpu_is_that_of_all_nodes() -> None:
    """Twelve nodes vary by 4 % within themselves: a GPU that is 11 % slower is no outlier. At 0.1 %, it is."""
    wide = (100.0, 104.0, 96.0, 101.0, 99.0, 105.0, 95.0, 100.0)
    tight = (100.0, 100.1, 99.9, 100.0, 100.05, 99.95, 100.02, 100.0)
    rule = Rule("m", "s", Over.NODE, warn_below=0.95, fail_below=0.9)
    fails = [_judged(rule, _ranks(*[one] * 12, (*one[:7], 89.0))) for one in (wide, tight)]

    assert ([], [("FAIL", "HARDWARE", "node-12/rank-103")]) == tuple(map(_said, fails))


def _fleet(many: int, noise: float, broken: float, seed: int, per: int = 1) -> dict[str, Value]:
    """So many ranks, of so many a node, with this noise, and the third of them at this share of the usual rate."""
    chance = random.Random(seed)
    values = [100.0 * (broken if rank == 3 else 1.0) * chance.gauss(1.0, noise) for rank in range(many)]
    return {f"node-{rank // per}/rank-{rank}": value for rank, value in enumerate(values)}


@pytest.mark.parametrize(("many", "noise", "broken"), [(24, 0.05, 0.6), (20, 0.08, 0.3), (20, 0.10, 0.0)])
def test_no_noise_excuses_a_part_that_hardly_works(many: int, noise: float, broken: float) -> None:
    """A value twice as far from the others as the FAIL threshold is named, however few or scattered the others are."""
    rule = Rule("v_gbps", "s", Over.PEERS, warn_below=0.95, fail_below=0.9)
    for seed in range(20):
        found = _judged(rule, _fleet(many, noise, broken, seed))
        assert ("FAIL", "HARDWARE", "node-3/rank-3") in _said(found), seed


@pytest.mark.parametrize(
    ("over", "warn", "fail", "broken", "noise"),
    [
        # The shipped rules about copies to the GPU, the buses of a node and of a network, and the EFA devices of a node.
        (Over.PEERS, 0.75, 0.5, 0.02, 0.08),
        (Over.PEERS, 0.8, 0.4, 0.02, 0.08),
        (Over.PEERS, 0.5, 0.25, 0.02, 0.08),
        (Over.NODE, 0.5, 0.25, 0.1, 0.15),
        (Over.NODE, 0.5, 0.25, 0.05, 0.1),
    ],
)
@pytest.mark.parametrize(("many", "per"), [(8, 8), (16, 8), (8, 1)])
def test_what_hardly_works_is_refused_of_few_values(
    many: int, per: int, over: Over, warn: float, fail: float, broken: float, noise: float
) -> None:
    """FAR times a threshold of 0.25 was below zero, so that the others' own spread excused any value."""
    rule = Rule("v_gbps", "s", over, warn_below=warn, fail_below=fail)
    comparable = over is Over.PEERS or per > 1
    for seed in range(20):
        found = _judged(rule, _fleet(many, noise, broken, seed, per))
        assert comparable is ("FAIL" in {level for level, _, _ in _said(found)}), seed


def test_outlier_beyond_the_fail_threshold_is_never_silent() -> None:
    """Nobody is blamed for it, and the page says how far it is."""
    rule = Rule("v_gbps", "s", Over.PEERS, warn_below=0.95, fail_below=0.9)
    for seed in range(20):
        found = _judged(rule, _fleet(24, 0.03, 0.82, seed))
        assert [one for one in _said(found) if one[0] == "FAIL" or one[1:] == ("EVIDENCE", CLUSTER)], seed


def test_two_broken_gpus_of_every_node_are_named() -> None:
    """They widen the spread of all nodes alike."""
    rule = Rule("v_gbps", "s", Over.NODE, warn_below=0.95, fail_below=0.9)
    chance = random.Random(5)
    rows = _ranks(
        *(tuple(chance.gauss(65.0 if gpu < 2 else 100.0, 3.0) for gpu in range(8)) for _ in range(5))
    )
    found = _judged(rule, rows)
    assert 10 == sum(level == "FAIL" and cause == "HARDWARE" for level, cause, _ in _said(found))


def test_a_quarter_of_a_fleet_far_below_is_no_scatter() -> None:
    """Each of them is named; a rule without `deviations` never only warns of what is beyond its FAIL threshold."""
    rule = Rule("v_gbps", "s", Over.FLEET, warn_below=0.95, fail_below=0.9)
    rows: dict[str, Value] = {f"node-{n}": 70.0 if n < 6 else 100.0 + n % 3 for n in range(24)}
    found = _judged(rule, rows)
    assert 6 == sum(level == "FAIL" and cause == "HARDWARE" for level, cause, _ in _said(found))


def test_a_value_at_twice_the_thresholds_distance_is_a_candidate_whatever_the_spread() -> None:
    """The distance itself counts: half of the median where the threshold is three quarters of it."""
    rule = Rule("v_gbps", "s", Over.PEERS, fail_below=0.75)
    scattered = [100.0 * (1 + 0.2 * NormalDist().inv_cdf((at + 0.5) / 41)) for at in range(41)]
    rows = _ranks(*((min(max(value, 60.0), 140.0),) for value in scattered), (50.0,), (150.0,))

    (found,) = _judged(rule, rows)
    assert ("FAIL", "EVIDENCE", CLUSTER) == _said([found])[0] and "node-41/rank-41 (0.50)" in found.message
    assert [("WARN", "EVIDENCE", CLUSTER)] == _said(_judged(rule, rows, required=False))


def test_a_single_value_that_noise_does_not_explain_is_never_silent() -> None:
    """Of 20 values it is too near for an outlier, and normal noise takes one so far less than once in a thousand gates."""
    rule = Rule("v_gbps", "s", Over.PEERS, warn_below=0.955, fail_below=0.8)
    values = [100.0 * (1 + 0.01 * NormalDist().inv_cdf((at + 0.5) / 19)) for at in range(19)]
    (found,) = _judged(rule, _ranks(*((value,) for value in values), (95.0,)))

    assert ("WARN", "EVIDENCE", CLUSTER) == _said([found])[0]
    assert "1 of 20 values are beyond the WARN threshold" in found.message


def test_too_few_to_compare_are_counted_in_the_rules_own_unit() -> None:
    """A fleet is its nodes; the slowest is one of all ranks."""
    rules = [Rule("a", "s", Over.FLEET, fail_below=0.9), Rule("b", "s", Over.SLOWEST, fail_above=0.1)]

    assert {"a": "1 to compare, 4 are needed"} == comparisons(rules, nodes=1, subjects=16)
    assert {"b": "2 to compare, 4 are needed"} == comparisons(rules, nodes=16, subjects=2)
