"""Heavy tails: what the good side of a group says of how far noise reaches. They name nobody, and excuse nobody."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping

import pytest

from checks.judge.rules.apply import apply
from checks.judge.rules.tails import (
    MAYBE_SKEWED,
    NORMAL,
    QUARTILE,
    RATHER_SKEWED,
    Tails,
    student_quantile,
    student_share,
    tails_of,
    worse_side_tails,
)
from checks.judge.rules.values import Chances, RuleContext
from checks.model import CLUSTER, Cause, Declared, Finding, Level, Observation, Outcome
from checks.policy import CheckPolicy, Over, Rule
from tests.benchmarks.relative_rules import DRAWS, Draw, gamma, half_normal, normal

METRICS = tuple(f"m{number}_gbps" for number in range(6))
CHANCES = Chances(5e-8, 2e-7, 2e-7)
NODES = 300
HEAVY, HEAVIER, MIXED = (DRAWS[kind] for kind in ("heavy", "heavier", "mixed"))


def _found(draw: Draw, many: int, seed: int) -> Tails:
    """Of the values on one side."""
    chance = random.Random(seed)
    return tails_of([abs(draw(chance)) for _ in range(many)])


@pytest.mark.parametrize(
    ("chance", "freedom", "table"),
    [
        (0.001, 10, 4.144),
        (0.0001, 10, 5.694),
        (0.0005, 5, 6.869),
        (0.025, 30, 2.042),
        (0.001, 120, 3.160),
        (0.5, 9, 0.0),
    ],
)
def test_students_quantile_is_that_of_the_tables(chance: float, freedom: float, table: float) -> None:
    """Within 2 %."""
    assert table == pytest.approx(student_quantile(chance, freedom), rel=0.02, abs=1e-9)


@pytest.mark.parametrize("freedom", [3.0, 10.0, 120.0, math.inf])
@pytest.mark.parametrize("chance", [0.3, 1e-3, 1e-8])
def test_the_share_beyond_a_quantile_is_its_chance(freedom: float, chance: float) -> None:
    """Both are the same approximation; of infinite degrees of freedom it is the normal distribution."""
    assert chance == pytest.approx(student_share(student_quantile(chance, freedom), freedom), rel=1e-6)


def test_normal_noise_has_no_heavy_tails() -> None:
    """In nearly all of fifty groups; what is found of the others is close to normal for 900 values."""
    found = [_found(normal, 900, seed) for seed in range(50)]

    assert 3 >= sum(one.heavy for one in found)
    assert all(one.freedom >= 10 for one in found)


@pytest.mark.parametrize(("draw", "least", "most"), [(HEAVIER, 2, 5), (HEAVY, 3, 7), (MIXED, 3, 7)])
def test_heavy_tails_are_found(draw: Draw, least: float, most: float) -> None:
    """Of 900 values on the good side, about as many degrees of freedom as the noise has."""
    for seed in range(10):
        assert least <= _found(draw, 900, seed).freedom <= most, seed


def test_few_values_say_nothing_of_tails() -> None:
    """39 values are taken for normal whatever they are, and 40 are not."""
    assert NORMAL == tails_of([10.0] * 10 + [0.5] * 29)
    assert tails_of([10.0] * 10 + [0.5] * 30).heavy


def test_a_single_freak_value_is_no_tail() -> None:
    """One machine that is twice as fast does not excuse those that are slow; the second farthest value counts for it."""
    chance = random.Random(1)
    usual = [abs(normal(chance)) for _ in range(150)]
    found = tails_of([*usual, 50.0])

    assert not found.heavy and max(usual) == found.extreme


def test_the_heavier_tails_are_those_with_more_far_values() -> None:
    """Of two: the fewer degrees of freedom and the farther value."""
    assert Tails(4.0, 9.0) == Tails(4.0, 3.0).heavier(Tails(math.inf, 9.0))


def test_medians_have_lighter_tails() -> None:
    """Of six values with four degrees of freedom it is 24; normal noise stays normal."""
    assert Tails(24.0) == Tails(4.0, 9.0).of_medians(6)
    assert NORMAL == Tails(extreme=3.0).of_medians(6)


@pytest.mark.parametrize(("many", "distance"), [(1, 11.70), (6, 8.23), (20, 6.58), (40, 6.01)])
def test_medians_of_gamma_noise_are_as_far_as_their_tails_say(many: int, distance: float) -> None:
    """One in a million, in spreads of the medians (from the quantiles of the order statistic of gamma noise of shape 2)."""
    freedom = Tails(RATHER_SKEWED).of_skewed_medians(many).freedom
    said = student_quantile(1e-6, freedom) * QUARTILE / student_quantile(0.25, freedom)

    assert 0.93 < said / distance < 1.05


def _sides(draw: Draw, many: int, faults: int = 0) -> tuple[list[float], list[float]]:
    """How far so many values are below and above their median; so many more are ten spreads below it."""
    chance = random.Random(many)
    values = [draw(chance) for _ in range(many)]
    middle = sorted(values)[many // 2]
    worse = [middle - value for value in values if value < middle]
    return [*worse, *[10.0] * faults], [value - middle for value in values if value > middle]


def test_a_side_that_noise_slows_has_long_tails() -> None:
    """Noise that only slows, of two kinds; few values do not tell, and a few faults do not make normal noise skewed."""

    assert {Tails(RATHER_SKEWED)} == {
        worse_side_tails(*_sides(draw, 2000), 100) for draw in (half_normal, gamma)
    }
    for faults in (0, 60):
        assert NORMAL == worse_side_tails(*_sides(normal, 2000, faults), 100)
    assert Tails(MAYBE_SKEWED) == worse_side_tails(*_sides(normal, 60), 100) == worse_side_tails([], [], 0)
    assert Tails(MAYBE_SKEWED) == worse_side_tails([1.0] * 100, [0.0] * 100, 100)
    # 40 values of 48 are left without the doubted ones, and 39 of 47.
    few = [worse_side_tails([9.0] * many, [1.0] * many, 100) for many in (47, 48)]
    assert [Tails(MAYBE_SKEWED), Tails(RATHER_SKEWED)] == few


def _judged(draw: Draw, seed: int, given: Mapping[tuple[int, int], float] | None = None) -> list[Finding]:
    """The findings about 300 nodes with six values each at 2 % noise; some (node, metric) have the given value."""
    chance, given = random.Random(seed), given or {}
    values = [{name: 1.0 + 0.02 * draw(chance) for name in METRICS} for _ in range(NODES)]
    for (node, at), value in given.items():
        values[node][METRICS[at]] = value
    rows = [
        Observation("x.y", f"node-{node}/rank-{node}", Outcome.MEASURED, 1.0, own)
        for node, own in enumerate(values)
    ]
    rules = (Rule(name, "s", Over.PEERS, 0.95, 0.9, remedy="Look.") for name in METRICS)
    known = RuleContext(declared=Declared("cpu", NODES, 0, 1), chances=CHANCES)
    return list(apply("x.y", CheckPolicy(rules=tuple(rules)), rows, NODES, known))


def _named(found: list[Finding]) -> set[str]:
    return {finding.subject for finding in found} - {CLUSTER}


@pytest.mark.parametrize("draw", [HEAVY, MIXED, normal])
@pytest.mark.parametrize("seed", range(4))
def test_noise_names_nobody(draw: Draw, seed: int) -> None:
    """Of 1,800 values several are a fifth slower, of machines on which nothing is wrong."""
    assert set() == _named(_judged(draw, seed))


@pytest.mark.parametrize("draw", [HEAVY, MIXED, normal])
@pytest.mark.parametrize("value", [0.9, 0.79, 0.5])
def test_a_node_that_is_slower_in_all_values_is_named(draw: Draw, value: float) -> None:
    """The median of six values is an outlier, however far single ones reach; no finding then says that nobody can tell."""
    found = _judged(draw, 2, {(7, at): value for at in range(6)})

    assert {"node-7/rank-7"} == {one.subject for one in found if "node-7/" in one.subject + one.message}


@pytest.mark.parametrize("draw", [HEAVY, MIXED, normal])
@pytest.mark.parametrize("value", [0.0, 0.09])
def test_a_part_that_hardly_works_is_named_whatever_the_noise(draw: Draw, value: float) -> None:
    """At a tenth of the rate in a single value."""
    (found,) = (one for one in _judged(draw, 2, {(7, 0): value}) if one.subject != CLUSTER)

    assert ("node-7/rank-7", Level.FAIL, Cause.HARDWARE) == (found.subject, found.level, found.cause)


@pytest.mark.parametrize("draw", [HEAVY, MIXED])
@pytest.mark.parametrize("value", [0.5, 0.7, 0.79])
@pytest.mark.parametrize("slower", [0, 30])
def test_a_value_that_heavy_tails_explain_is_a_candidate_and_never_a_go(
    draw: Draw, value: float, slower: int
) -> None:
    """Twice as far as the FAIL threshold: nobody is blamed, the page lists it, and the level stays FAIL. So many beyond the WARN
    threshold are a warning of their own, which hid it.
    """
    found = _judged(draw, 2, {(7, 0): value, **{(9 * at + 8, 0): 0.94 for at in range(slower)}})
    said = [one for one in found if one.subject == CLUSTER and "node-7/rank-7" in one.message]

    assert set() == _named(found)
    assert [(Level.FAIL, Cause.EVIDENCE)] == [(one.level, one.cause) for one in said]
    assert f"node-7/rank-7 ({value:.2f})" in said[0].message
    assert said[0].remedy == "Run the gate again: a broken part stays slow. Look."


@pytest.mark.parametrize("value", [0.79, 0.5])
def test_a_freak_value_does_not_excuse_a_slow_part(value: float) -> None:
    """One metric has a value twice as fast as it can be: the noise is normal all the same."""
    assert {"node-7/rank-7"} == _named(_judged(normal, 3, {(7, 0): value, (9, 0): 2.0}))
