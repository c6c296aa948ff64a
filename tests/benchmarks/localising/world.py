"""A simulated cluster whose pairs of nodes can be measured within one job."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from functools import lru_cache

from tests.benchmarks.localising import noise as noises
from tests.benchmarks.localising.cluster import Cluster, Fault
from tests.benchmarks.localising.noise import Noise, Weather
from tests.benchmarks.localising.plan import Plan

CONGESTED = 0.5


class World:
    """Counts rounds; the same seed gives the same faults, spells and congestion, and the same answers."""

    def __init__(self, cluster: Cluster, noise: Noise, rng: random.Random) -> None:
        self.cluster, self.noise, self.rng = cluster, noise, rng
        self.rounds = 0
        self.seconds = 0.0  # the processor's time for the simulation itself
        leaves = range(0, cluster.nodes, noise.leaf) if noise.each else ()
        own = [range(first, first + noise.leaf) for first in leaves] or [range(0)]
        self.weather = [Weather(noise, cluster.nodes, random.Random(rng.random()), [], leaf) for leaf in own]
        self.spells = [self._spells(fault) for fault in cluster.faults]

    def _spells(self, fault: Fault) -> Callable[[int], bool]:
        rate = self.noise.sensitivity if fault.rate is None else fault.rate
        return noises.spells(self.noise, rate, random.Random(self.rng.random()))

    def measure(self, plan: Plan) -> list[float | None]:
        """Values of a plan's tests, good ones about 1.0, None where nothing came back."""
        before = time.process_time()
        count = 2 * len(plan.duels)
        values: list[float | None] = [*self.rng.choices(_pool(self.noise), k=count)]
        for test in noises.chances(self.noise.hiccup, count, self.rng):
            values[test] = noises.hiccup_value(values[test] or 1.0, self.rng)
        self._congest(plan, values)
        self._route(plan, values)
        for fault, shows in zip(self.cluster.faults, self.spells, strict=True):
            for test in plan.touched(fault):
                value = values[test]
                if value is not None and shows(self.rounds + plan.round_of(test)):
                    values[test] = None if fault.factor is None else value * fault.factor
        self.rounds += len(plan.starts)
        self.seconds += time.process_time() - before
        return values

    def _congest(self, plan: Plan, values: list[float | None]) -> None:
        for when in range(len(plan.starts)) if self.noise.congestion else ():
            covered = [now for weather in self.weather if (now := weather.over(self.rounds + when))]
            for test in plan.tests_of(when) if covered else ():
                a, b, _ = plan.duels[test // 2]
                value = values[test]
                leaves = any((a in leaf) != (b in leaf) for leaf in covered)
                if value and leaves and self.rng.random() < CONGESTED:
                    values[test] = noises.slowed(value, self.rng)

    def _route(self, plan: Plan, values: list[float | None]) -> None:
        if not self.cluster.paths and self.cluster.far_factor == 1.0:
            return
        for duel, (a, b, _) in enumerate(plan.duels):
            share = self.cluster.share(a, b)
            if share != 1.0:
                for test in (2 * duel, 2 * duel + 1):
                    value = values[test]
                    values[test] = None if value is None else value * share

    def wait(self, rounds: int) -> None:
        """Nothing is measured for as long as so many rounds take."""
        self.rounds += rounds


@lru_cache(maxsize=8)
def _pool(noise: Noise) -> tuple[float, ...]:
    return noises.good_values(noise)
