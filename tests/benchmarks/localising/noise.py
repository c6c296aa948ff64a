"""How healthy tests scatter, how bad parts waver, and how whole stretches of time go wrong: the noise models.

The decoder supposes that each test fails by itself, at one rate. CALM and NOISY are so; BURSTY is not: values have a heavy
tail, a bad part is bad in spells, and congestion comes for some rounds at a time and slows a whole group of nodes.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Noise:
    """One model; a good value is 1.0, give or take.

    `hiccup`: how often a test of good parts is bad. `sensitivity`: how often a bad part's test is. `spread`: the standard
    deviation of the logarithm of good values. `tail`: of heavy-tailed delay on top, in parts of a good test's time.
    `spell`: how many rounds a bad part stays bad at a time (0: each test by itself). `congestion`: how often a round
    begins one, `lasting` that many rounds on average; it covers an eighth of the nodes, or one `leaf` of so many nodes. `each`: every
    leaf has such times of its own.
    """

    name: str
    hiccup: float
    sensitivity: float
    spread: float
    tail: float = 0.0
    spell: float = 0.0
    congestion: float = 0.0
    lasting: float = 4.0
    leaf: int = 0
    each: bool = False


CALM = Noise("calm", hiccup=0.005, sensitivity=0.9, spread=0.03)
NOISY = Noise("noisy", hiccup=0.02, sensitivity=0.85, spread=0.08)
BURSTY = Noise("bursty", 0.003, sensitivity=0.9, spread=0.03, tail=0.02, spell=6, congestion=0.01)
MODELS = (CALM, NOISY, BURSTY)
COVERED = 8
TAIL_EXPONENT = 2.5
SLOWED_EXPONENT = 1.5


def good_values(noise: Noise) -> tuple[float, ...]:
    """Values that good tests draw from."""
    rng = random.Random(7_310_011)
    return tuple(_good(noise, rng) for _ in range(1 << 14))


def _good(noise: Noise, rng: random.Random) -> float:
    value = math.exp(rng.gauss(0.0, noise.spread))
    if noise.tail:
        value /= 1.0 + noise.tail * (rng.paretovariate(TAIL_EXPONENT) - 1.0)
    return value


def hiccup_value(value: float, rng: random.Random) -> float | None:
    """What a hiccup leaves: one in five gives nothing, the others a tenth to seven tenths."""
    return None if rng.random() < 0.2 else value * rng.uniform(0.1, 0.7)


def slowed(value: float, rng: random.Random) -> float:
    """What congestion leaves: at most half."""
    return value / (1.0 + rng.paretovariate(SLOWED_EXPONENT))


def chances(rate: float, count: int, rng: random.Random) -> Iterator[int]:
    """Those of `count` things that happen, each at `rate` by itself; it costs what happens, not what might."""
    if rate <= 0.0:
        return
    scale = math.log1p(-rate) if rate < 1.0 else -math.inf
    at = -1
    while True:
        at += 1 + int(math.log(1.0 - rng.random()) / scale)
        if at >= count:
            return
        yield at


@dataclass(frozen=True)
class Spells:
    """A thing that is on or off for rounds at a time; the same round always gives the same answer."""

    rate: float
    length: float
    rng: random.Random
    states: list[bool]

    @staticmethod
    def of(rate: float, length: float, rng: random.Random) -> Spells:
        """On `rate` of the time, in spells of `length` rounds."""
        return Spells(rate, length, rng, [rng.random() < rate])

    def on(self, when: int) -> bool:
        """In round `when`."""
        leave = 1.0 / self.length
        enter = leave * self.rate / (1.0 - self.rate) if self.rate < 1.0 else 1.0
        while len(self.states) <= when:
            last = self.states[-1]
            self.states.append(self.rng.random() >= leave if last else self.rng.random() < enter)
        return self.rate >= 1.0 or self.states[when]


@dataclass(frozen=True)
class Weather:
    """Congestion: in which rounds, and which nodes it covers (an unbroken stretch of them, as under one switch)."""

    noise: Noise
    nodes: int
    rng: random.Random
    covered: list[range]
    own: range = range(0)

    def over(self, when: int) -> range:
        """The nodes that are covered in round `when`; tests that leave them or enter them are slowed, half of the time."""
        while len(self.covered) <= when:
            last = self.covered[-1] if self.covered else range(0)
            self.covered.append(self._next(last))
        return self.covered[when]

    def _next(self, last: range) -> range:
        if last and self.rng.random() >= 1.0 / self.noise.lasting:
            return last
        if self.rng.random() >= self.noise.congestion:
            return range(0)
        if self.own:
            return self.own
        if self.noise.leaf:
            first = self.rng.randrange(self.nodes // self.noise.leaf) * self.noise.leaf
            return range(first, first + self.noise.leaf)
        size = max(1, self.nodes // COVERED)
        first = self.rng.randrange(self.nodes - size + 1)
        return range(first, first + size)


def spells(noise: Noise, rate: float, rng: random.Random) -> Callable[[int], bool]:
    """Whether a part that is bad at this rate shows it in a round."""
    if noise.spell and rate < 1.0:
        return Spells.of(rate, noise.spell, rng).on
    return lambda when: rng.random() < rate
