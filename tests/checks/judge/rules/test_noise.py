"""The noise of a group: how far from the others an outlier must be, and how many values noise takes beyond a threshold."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from statistics import median, stdev

import pytest

from checks.judge.robust_statistics import qn, scaled_mad
from checks.judge.rules.noise import (
    FAR,
    GROSS,
    HARDLY,
    Noise,
    SharedNoise,
    good_side,
    noise_of,
    of_small_group,
    spread_of,
)
from checks.judge.rules.tails import NORMAL, Tails, student_quantile

CHANCE = 1e-6
# What many values say of noise that is normal on both sides.
ALIKE = SharedNoise(NORMAL)


def _normal(many: int, spread: float, seed: int = 3) -> list[float]:
    chance = random.Random(seed)
    return [1.0 + chance.gauss(0.0, spread) for _ in range(many)]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ((0.0, 1.0), 0.399 * 2.2219),
        ((0.0, 1.0, 3.0), 0.994 * 2.2219 * 1.0),
        ((5.0, 5.0, 5.0, 5.0, 9.0), 0.0),
        ((0.0, 1.0, 3.0, 7.0), 0.512 * 2.2219 * 3.0),
    ],
)
def test_qn_of_few_values_is_what_its_definition_gives(values: tuple[float, ...], expected: float) -> None:
    """The difference of rank h(h-1)/2 with h = n // 2 + 1, times the constants of its authors."""
    assert expected == pytest.approx(qn(values))


def test_qn_of_one_value_is_refused() -> None:
    """One value has no spread."""
    with pytest.raises(ValueError, match="fewer than two"):
        qn((1.0,))


@pytest.mark.parametrize("many", [9, 10, 11, 40, 100])
def test_qn_estimates_a_standard_deviation(many: int) -> None:
    """On average over 400 normal samples, within 5 %; and a quarter of outliers at most doubles it."""
    samples = [_normal(many, 0.02, seed) for seed in range(400)]
    mean = sum(map(qn, samples)) / len(samples)
    spoilt = [sample[: many - many // 4] + [9.0] * (many // 4) for sample in samples]

    assert 0.02 == pytest.approx(mean, rel=0.05)
    assert sum(map(qn, spoilt)) / len(samples) < 0.04


@pytest.mark.parametrize(("values", "nodes"), [(7, 7), (8, 4), (300, 4), (0, 0)])
def test_noise_of_a_small_group_allows_only_gross_outliers(values: int, nodes: int) -> None:
    """Fewer than eight values, or than five nodes: nothing is known of the spread."""
    noise = noise_of(_normal(values, 0.02), nodes, CHANCE)

    assert (0.0, GROSS, GROSS, False) == (noise.spread, noise.warn, noise.fail, noise.is_known)


def test_values_of_other_groups_tell_the_spread_of_a_small_one() -> None:
    """Seven values are too few; with 60 of other metrics a fifth is an outlier. Where those vary more, the group is taken to."""
    few = _normal(7, 0.02)
    known = noise_of(few, 7, CHANCE, shared=SharedNoise(NORMAL, _normal(60, 0.02, 4)))
    wide = noise_of(few, 7, CHANCE, shared=SharedNoise(NORMAL, _normal(60, 0.05, 4)))

    assert known.is_known and 0.02 == pytest.approx(known.spread, rel=0.3) and known.fail < 0.2 < wide.fail


def test_a_small_group_keeps_the_deviations_of_its_rule() -> None:
    """They hold however few values there are, if they are farther than a gross difference."""
    ratios = _normal(6, 0.02)

    assert 30.0 * scaled_mad(ratios) == noise_of(ratios, 6, CHANCE, deviations=30.0).warn > GROSS
    assert (GROSS, GROSS) == (noise_of(ratios, 6, CHANCE, 3.0).warn, noise_of(ratios, 6, CHANCE, 3.0).fail)


@pytest.mark.parametrize("many", [100, 101, 300])
def test_the_distance_is_that_of_the_chance_and_of_the_spread(many: int) -> None:
    """About 5 standard deviations for one in a million, a little more than the normal quantile of 4.75."""
    ratios = _normal(many, 0.02)
    noise = noise_of(ratios, many, CHANCE, shared=ALIKE)

    assert stdev(ratios) == pytest.approx(noise.spread, rel=0.2)
    assert 4.75 < noise.warn / noise.spread < 5.8
    assert CHANCE * many == pytest.approx(noise.chance)
    assert noise_of(ratios, many, CHANCE / 10, shared=ALIKE).warn > noise.warn
    ninefold = noise_of(ratios, many, CHANCE, deviations=9.0, shared=ALIKE)
    assert ninefold.warn == pytest.approx(9.0 * scaled_mad(ratios))


def test_values_that_are_equal_have_no_noise() -> None:
    """Then the thresholds alone decide, and nothing is an excess."""
    noise = noise_of([1.0] * 300, 300, CHANCE)

    assert (0.0, 0.0, 0.0) == (noise.spread, noise.warn, noise.fail)
    assert not noise.is_excess(300, 300, 0.05)


def test_noise_expects_as_many_values_beyond_a_threshold_as_a_normal_distribution() -> None:
    """2.3 % beyond two deviations; none if nothing is known of the spread."""
    assert 22.75 == pytest.approx(Noise(0.025, 1.0, 1.0, 0.001).expected(1000, 0.05), rel=0.001)
    assert 0.0 == Noise().expected(1000, 0.05)


@pytest.mark.parametrize(
    ("beyond", "values", "excess"),
    [
        (22, 1000, False),
        (69, 1000, True),
        (68, 1000, False),
        (12, 15, False),
        (14, 16, True),
        (0, 1000, False),
    ],
)
def test_more_values_than_noise_explains_are_an_excess(beyond: int, values: int, excess: bool) -> None:
    """More than three times the expected number, and that is improbable; of fewer than 16 values nothing is said."""
    assert excess is Noise(0.025, 1.0, 1.0, 0.001).is_excess(beyond, values, 0.05)


def test_an_improbable_number_is_no_excess_unless_it_is_improbable_enough() -> None:
    """Four beyond a threshold where one in ten fleets has one: not less probable than the budget; seven are."""
    noise = Noise(0.025, 1.0, 1.0, 1e-6)
    distance = 0.025 * 3.4  # 0.1 of 300 values

    assert not noise.is_excess(4, 300, distance)
    assert noise.is_excess(7, 300, distance)
    assert noise.is_excess(1, 300, 100.0)  # which noise never does


def test_eight_values_of_five_nodes_are_enough() -> None:
    """From there on their spread is known; with one value or one node less it is not."""
    ratios = _normal(8, 0.02)

    assert noise_of(ratios, 5, CHANCE).is_known
    assert not noise_of(ratios[:7], 5, CHANCE).is_known and not noise_of(ratios, 4, CHANCE).is_known


def test_ratios_of_a_small_group_are_widened_for_the_noise_of_many() -> None:
    """A median of eight hides a fifth of the noise: 1 + 2.5 / 8."""
    assert [1.0, 1.13125, 0.86875] == pytest.approx(of_small_group([1.0, 1.1, 0.9], 8))
    assert [] == of_small_group([], 0)


@pytest.mark.parametrize("seed", range(3))
def test_the_noise_of_many_small_groups_is_that_of_their_values(seed: int) -> None:
    """200 nodes of 8 ranks: the widened ratios have at least the spread of the values, and not a quarter more."""
    values = _normal(1600, 0.02, seed)
    groups = [values[at : at + 8] for at in range(0, 1600, 8)]
    ratios = [r for group in groups for r in of_small_group([v / median(group) for v in group], 8)]

    assert 0.02 < noise_of(ratios, 200, CHANCE).spread < 0.025


@pytest.mark.parametrize(
    ("many", "freedom"), [(12, 6.6), (40, 22.0), (100, 55.0), (101, 85.85), (300, 255.0)]
)
def test_fewer_values_ask_for_a_greater_distance(many: int, freedom: float) -> None:
    """As many degrees of freedom as the estimate of the spread has: 55 % of the values for Qn, 85 % for the biweight."""
    ratios = _normal(many, 0.02)
    noise = noise_of(ratios, many, CHANCE, shared=ALIKE)

    assert student_quantile(CHANCE, freedom) == pytest.approx(noise.warn / spread_of(ratios))


def test_many_outliers_are_each_named_at_a_nearer_distance() -> None:
    """Twelve of 300 are six spreads away: the thirteenth needs not be as far as if it were the only one."""
    ratios = _normal(300, 0.02)
    alone = noise_of(ratios, 300, CHANCE, shared=ALIKE)
    among = noise_of([*ratios, *[0.88] * 12], 312, CHANCE, shared=ALIKE)

    assert among.warn < 0.96 * alone.warn


def test_heavy_tails_move_the_distance_and_the_limit() -> None:
    """Student's t with three degrees of freedom: no single value is an outlier before it hardly works."""
    chance = random.Random(2)
    wide = [
        1.0 + 0.02 * chance.gauss(0, 0.9) / (sum(chance.gauss(0, 1) ** 2 for _ in range(3)) / 3) ** 0.5
        for _ in range(900)
    ]
    heavy, usual = noise_of(wide, 900, CHANCE), noise_of(_normal(900, 0.02), 900, CHANCE)

    assert heavy.tails.heavy and heavy.warn > 0.5 > 0.2 > usual.warn
    assert (HARDLY, GROSS, FAR * 0.3) == (heavy.limit(0.1), usual.limit(0.1), usual.limit(0.3))
    assert FAR * 0.5 == heavy.limit(0.5)


@pytest.mark.parametrize(
    ("freedom", "extreme", "limit"),
    [(14.0, 8.7, GROSS), (14.0, 8.8, 0.9), (math.inf, 9.0, GROSS), (7.0, 0.0, 0.587), (3.0, 0.0, 0.9)],
)
def test_the_limit_is_moved_only_by_noise_that_reaches_it(
    freedom: float, extreme: float, limit: float
) -> None:
    """By heavy tails that are half as far on the good side, or as far as they reach with the chance of a false name."""
    noise = Noise(0.02, 0.3, 0.3, 1e-6, tails=Tails(freedom, extreme), values=100)

    assert limit == pytest.approx(noise.limit(0.1), abs=0.001)
    assert (noise.limit(0.1) < replace(noise, widest=0.025).limit(0.1)) is (freedom == 7.0)


def test_faults_of_the_worse_side_are_no_tails() -> None:
    """A fiftieth of 1,500 values is a tenth slower: the distance is that of normal noise. Which side is worse, the rule says."""
    ratios = [*_normal(1470, 0.02), *[0.9 - 0.001 * (at % 15) for at in range(30)]]

    assert not noise_of(ratios, 1500, CHANCE, better=1).tails.heavy
    assert noise_of(ratios, 1500, CHANCE, better=-1).tails.heavy
    assert not noise_of(ratios, 1500, CHANCE, better=0).tails.heavy


@pytest.mark.parametrize(("better", "expected"), [(1, [1.0, 3.5, 3.5]), (-1, [2.0, 3.5]), (0, [2.0, 3.5])])
def test_the_good_side_is_the_better_one_or_the_one_with_fewer_far_values(
    better: int, expected: list[float]
) -> None:
    """In spreads from the median."""
    ratios = [1.0, 1.1, 1.35, 1.35, 0.8, 0.65]

    assert expected == pytest.approx(good_side(ratios, 0.1, better))
    assert [] == good_side(ratios, 0.0, better)
