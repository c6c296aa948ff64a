"""How much more likely the tests are if a part is to blame for them than by chance. Pure.

The tests of a bad part are bad at a rate of its own, which is unknown: the likelihood is averaged over RATES. All other tests are
bad at the rate of hiccups, averaged over a beta distribution. Parts that fail each time and parts that fail every third time are
both found, and a part whose tests are bad once in a while is not blamed.

What two nodes measure at one time (in both directions, on all rails) is a visit. Its tests may be bad together, because of a fault
that comes and goes as well as by chance. Therefore the same tests are also evaluated as visits of which some were bad: 8 bad tests
of one visit are then little more evidence than one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from checks.culprit.matrix import Direction, Entity

# Judgement: a faulty part fails a third of its tests or more; most faulty parts fail nearly all.
RATES = (
    (0.3, 0.08),
    (0.4, 0.08),
    (0.5, 0.08),
    (0.6, 0.09),
    (0.7, 0.1),
    (0.8, 0.12),
    (0.9, 0.17),
    (0.98, 0.28),
)
# Judgement: a good part may have a bad moment (congestion that others cause) in which a few of its tests are bad. This is
# rare, so that it explains many tests, where the rate tells it from a fault, and not a few.
MOMENT, MOMENT_RATES = 0.0003, (0.03, 0.06, 0.1, 0.15, 0.2)
# Judgement: before any measurement, one good test in 200 is assumed to be bad, with the weight of a hundred tests.
HICCUP_BAD, HICCUP_GOOD = 0.5, 99.5
# Judgement: before any measurement, a visit between good ends is assumed to be almost never bad as a whole; the first that is
# counts for much.
SPELL_BAD, SPELL_GOOD = 0.002, 100.0
# Judgement, as the share of each kind that is bad in a cluster that a gate is put in front of. Whole nodes fail most
# often; a rank needs a fault of one GPU or NIC of many; of links there are N/2 times as many as of nodes.
NODE, RANK, RAIL, SWITCH, LINKS_A_NODE = 0.01, 0.002, 0.002, 0.005, 0.005
# Judgement: most faults act both ways.
WAYS = {Direction.BOTH: 0.6, Direction.OUT: 0.2, Direction.IN: 0.2}


# logarithms of weight, rate and 1 - rate
Logs = tuple[tuple[float, float, float], ...]


def _logs(rates: Iterable[tuple[float, float]]) -> Logs:
    return tuple((math.log(weight), math.log(rate), math.log1p(-rate)) for rate, weight in rates)


_FAULT = _logs(RATES)
_MOMENT = _logs((rate, MOMENT / len(MOMENT_RATES)) for rate in MOMENT_RATES)


@lru_cache(maxsize=65_536)
def rated(bad: float, tests: float) -> float:
    """The log likelihood of this many bad tests of a faulty part."""
    return _sum([weight + bad * rate + (tests - bad) * rest for weight, rate, rest in _FAULT])


def blamed(bad: int, tests: int, visits: int, size: float) -> float:
    """The log likelihood of the tests of a faulty part: each by itself, or visits of `size` tests as a whole."""
    if size <= 1:
        return rated(bad, tests)
    return _sum([rated(bad, tests), _visited(bad, tests, visits, size, _FAULT)]) - math.log(2)


def _visited(bad: int, tests: int, visits: int, size: float, rates: Logs) -> float:
    """The log likelihood that this many visits were bad, at one of the rates, with this many bad tests in them."""
    good = max(0.0, tests / size - visits)
    among = _sum([weight + visits * rate + good * rest for weight, rate, rest in rates])
    return among + rated(bad, max(bad, visits * size))


def _sum(logs: Sequence[float]) -> float:
    most = max(logs)
    return most + math.log(sum(math.exp(log - most) for log in logs))


def by_chance(bad: int, tests: float, spells: int, spoiled: int, size: float) -> float:
    """The log likelihood of all tests without a culprit; `spells` visits were bad, with `spoiled` bad tests."""
    hiccups = _beta(bad, tests, HICCUP_BAD, HICCUP_GOOD)
    if not spells:
        return hiccups
    rest = _beta(bad - spoiled, max(bad - spoiled, tests - spells * size), HICCUP_BAD, HICCUP_GOOD)
    whole = _beta(spells, max(spells, tests / size), SPELL_BAD, SPELL_GOOD) + rated(
        spoiled, max(spoiled, spells * size)
    )
    return max(hiccups, rest + whole)


def _beta(bad: float, tests: float, bad_weight: float, good_weight: float) -> float:
    return (
        math.lgamma(bad_weight + bad) + math.lgamma(good_weight + tests - bad) - math.lgamma(bad_weight + good_weight + tests)
        - math.lgamma(bad_weight) - math.lgamma(good_weight) + math.lgamma(bad_weight + good_weight)
    )  # fmt: skip


def at_least(trials: int, least: int, share: float) -> float:
    """The probability of `least` successes or more in so many trials."""
    if share >= 1:
        return 1.0
    return math.fsum(
        math.exp(
            math.lgamma(trials + 1) - math.lgamma(some + 1) - math.lgamma(trials - some + 1)
            + some * math.log(share) + (trials - some) * math.log1p(-share)
        )
        for some in range(least, trials + 1)
    )  # fmt: skip


@dataclass(frozen=True)
class Chance:
    """How often a good test is bad, and how often a whole visit between good ends is bad."""

    hiccup: float
    spell: float

    @classmethod
    def fitted(cls, bad: int, tests: float, spells: int, spoiled: int, size: float) -> Chance:
        """The rates, fitted to the tests without a culprit."""
        visits = max(float(spells), tests / size)
        rest = max(float(bad - spoiled), tests - spells * size)
        hiccup = (HICCUP_BAD + bad - spoiled) / (HICCUP_BAD + HICCUP_GOOD + rest)
        return cls(hiccup, (SPELL_BAD + spells) / (SPELL_BAD + SPELL_GOOD + visits))


def prior(entity: Entity, direction: Direction, nodes: int) -> float:
    """The log odds that one candidate of this kind is bad, before any measurement."""
    each = {Entity.NODE: NODE, Entity.RANK: RANK, Entity.RAIL: RAIL, Entity.SWITCH: SWITCH}
    share = each.get(entity, 2 * LINKS_A_NODE / max(1, nodes - 1)) * WAYS[direction]
    return math.log(share / (1 - share))


class Gain(NamedTuple):
    """Log odds. `sure`: compared with everything that a good part may show; above 0 the part is more likely bad than good.
    `over_hiccups`: compared with hiccups alone; explanations of the same tests are compared with each other by this value.
    """

    sure: float
    over_hiccups: float


class LinkOdds(NamedTuple):
    """The most likely way in which a link is bad: on how many of its tests, and of its visits of `size` tests each."""

    direction: Direction
    bad: int
    tests: int
    visits: int
    size: float
    gain: Gain


def passed(tests: int, visits: int, size: float) -> bool:
    """Whether a link was tested in three visits or more and was bad in one of them alone: such a passing problem is not a fault of
    the link.
    """
    return visits == 1 and tests >= 3 * size


class Odds:
    """The gain of blaming over chance: sums of log odds. Results are kept, because many candidates have the same few counts."""

    def __init__(self, chance: Chance, nodes: int) -> None:
        self._hiccup = ((0.0, math.log(chance.hiccup), math.log1p(-chance.hiccup)),)
        self._spell = ((0.0, math.log(chance.spell), math.log1p(-chance.spell)),)
        self._prior = {(entity, side): prior(entity, side, nodes) for entity in Entity for side in Direction}
        self._known: dict[tuple[Entity, Direction, int, int, int, float], Gain] = {}
        self._links: dict[tuple[int, ...], LinkOdds | None] = {}

    def gain(
        self, entity: Entity, direction: Direction, bad: int, tests: int, visits: int, size: float
    ) -> Gain:
        """The gain from blaming one candidate for its tests, with `size` tests per visit."""
        key = (entity, direction, bad, tests, visits, size)
        gain = self._known.get(key)
        if gain is None:
            guilty = self._prior[entity, direction] + blamed(bad, tests, visits, size)
            sure = guilty - self._innocent(entity, bad, tests, visits, size)
            gain = self._known[key] = Gain(sure, guilty - self.hiccups(bad, tests))
        return gain

    def hiccups(self, bad: int, tests: int) -> float:
        """The log likelihood of tests that are bad by hiccups alone, with which all others are compared."""
        return bad * self._hiccup[0][1] + (tests - bad) * self._hiccup[0][2]

    def innocent(self, bad: int, tests: int, visits: int, size: float) -> float:
        """How much more likely hiccups and spells are than hiccups alone, for the tests between two ends."""
        return self._innocent(Entity.LINK, bad, tests, visits, size) - self.hiccups(bad, tests)

    def _innocent(self, entity: Entity, bad: int, tests: int, visits: int, size: float) -> float:
        """Hiccups, or spells; for a part that is not a link also a bad moment: many hiccups, or many spells."""
        moment = () if entity is Entity.LINK else _MOMENT
        rates = (*self._hiccup, *moment)
        logs = [weight + bad * rate + (tests - bad) * rest for weight, rate, rest in rates]
        if size > 1:
            logs.append(_visited(bad, tests, visits, size, (*self._spell, *moment)))
        return _sum(logs)

    def of_link(self, counts: tuple[int, ...], size: int, back: int) -> LinkOdds | None:
        """The most likely way in which a link is bad; None if chance is more likely.

        `counts` are bad tests and tests in one direction, the same in the other direction, then visits with a bad test. A visit has
        `size` tests, in `back` directions.
        """
        key = (*counts, size, back)
        if key not in self._links:
            bad, tests, bad_back, tests_back, visits = counts
            single = size / back
            ways = (
                (Direction.BOTH, bad + bad_back, tests + tests_back, visits, float(size)),
                (Direction.OUT, bad, tests, min(visits, bad), single),
                (Direction.IN, bad_back, tests_back, min(visits, bad_back), single),
            )
            odds = [
                LinkOdds(*case, self.gain(Entity.LINK, *case))
                for case in ways
                if case[1] > 0 and not passed(*case[2:])
            ]
            best = max(odds, key=lambda entry: entry.gain.over_hiccups, default=None)
            self._links[key] = best if best and best.gain.sure > 0 else None
        return self._links[key]
