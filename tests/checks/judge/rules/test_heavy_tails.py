"""Noise with heavy tails names nobody, and excuses nobody who hardly works."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping

import pytest

from checks.judge.rules.apply import apply
from checks.judge.rules.values import Chances, RuleContext
from checks.model import CLUSTER, Cause, Declared, Finding, Level, Observation, Outcome
from checks.policy import CheckPolicy, Over, Rule

METRICS = tuple(f"m{number}_gbps" for number in range(6))
CHANCES = Chances(5e-8, 2e-7, 2e-7)
NODES = 300


def student(chance: random.Random) -> float:
    """Student's t with four degrees of freedom, and about the quartiles of a normal distribution."""
    return 0.91 * chance.gauss(0, 1) / math.sqrt(sum(chance.gauss(0, 1) ** 2 for _ in range(4)) / 4)


def mixed(chance: random.Random) -> float:
    """Normal, and five times as wide in a twentieth of the values."""
    return chance.gauss(0.0, 5.0 if chance.random() < 0.05 else 1.0)


def normal(chance: random.Random) -> float:
    """Normal noise."""
    return chance.gauss(0.0, 1.0)


Draw = Callable[[random.Random], float]


def _judged(draw: Draw, seed: int, given: Mapping[tuple[int, int], float] | None = None) -> list[Finding]:
    """The findings about 300 nodes with six values each at 2 % noise; some (node, metric) have the given value."""
    chance, given = random.Random(seed), given or {}
    values = [[1.0 + 0.02 * draw(chance) for _ in METRICS] for _ in range(NODES)]
    rows = [
        Observation(
            "x.y",
            f"node-{node}/rank-{node}",
            Outcome.MEASURED,
            1.0,
            {name: given.get((node, at), own[at]) for at, name in enumerate(METRICS)},
        )
        for node, own in enumerate(values)
    ]
    line = CheckPolicy(
        rules=tuple(
            Rule(name, "s", Over.PEERS, warn_below=0.95, fail_below=0.9, remedy="Look.") for name in METRICS
        )
    )
    known = RuleContext(declared=Declared("cpu", NODES, 0, 1), chances=CHANCES)
    return list(apply("x.y", line, rows, NODES, known))


def _named(found: list[Finding]) -> set[str]:
    return {finding.subject for finding in found} - {CLUSTER}


@pytest.mark.parametrize("draw", [student, mixed, normal])
@pytest.mark.parametrize("seed", range(4))
def test_noise_names_nobody(draw: Draw, seed: int) -> None:
    """Of 1,800 values several are a fifth slower, of machines on which nothing is wrong."""
    assert set() == _named(_judged(draw, seed))


@pytest.mark.parametrize("draw", [student, mixed, normal])
def test_a_node_that_is_slower_in_all_values_is_named(draw: Draw) -> None:
    """A tenth slower: the median of six values is an outlier, however far single ones reach."""
    found = _judged(draw, 1, {(7, at): 0.9 for at in range(6)})

    assert {"node-7/rank-7"} == _named(found)


@pytest.mark.parametrize("draw", [student, mixed, normal])
@pytest.mark.parametrize("value", [0.0, 0.09])
def test_a_part_that_hardly_works_is_named_whatever_the_noise(draw: Draw, value: float) -> None:
    """At a tenth of the rate in a single value."""
    (found,) = (one for one in _judged(draw, 2, {(7, 0): value}) if one.subject != CLUSTER)

    assert ("node-7/rank-7", Level.FAIL, Cause.HARDWARE) == (found.subject, found.level, found.cause)


@pytest.mark.parametrize("draw", [student, mixed])
@pytest.mark.parametrize("value", [0.5, 0.7, 0.79])
def test_a_value_that_heavy_tails_explain_is_a_candidate_and_never_a_go(draw: Draw, value: float) -> None:
    """Twice as far as the FAIL threshold: nobody is blamed, the page lists it, and the level stays FAIL."""
    found = _judged(draw, 2, {(7, 0): value})
    said = [one for one in found if one.subject == CLUSTER and "node-7/rank-7" in one.message]

    assert set() == _named(found)
    assert [(Level.FAIL, Cause.EVIDENCE)] == [(one.level, one.cause) for one in said]
    assert f"node-7/rank-7 ({value:.2f})" in said[0].message
    assert said[0].remedy == "Run the gate again: a broken part stays slow. Look."


@pytest.mark.parametrize("value", [0.79, 0.5])
def test_a_freak_value_does_not_excuse_a_slow_part(value: float) -> None:
    """One metric has a value twice as fast as it can be: the noise is normal all the same."""
    assert {"node-7/rank-7"} == _named(_judged(normal, 3, {(7, 0): value, (9, 0): 2.0}))
