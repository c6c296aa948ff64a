"""A simulated cluster that can be measured: by duels within one job, or by jobs that pass or fail."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import combinations, pairwise

from checks.culprit.matrix import Entity
from tests.benchmarks.localising import noise as noises
from tests.benchmarks.localising.cluster import Cluster, Fault
from tests.benchmarks.localising.noise import Noise, Weather
from tests.benchmarks.localising.plan import Plan, circle, met, rounds_of, seated

SLOW = 0.8  # the public rules know what is usual, and call a job failed that gives less than this part of it
CONGESTED = 0.5


class World:
    """Counts rounds and tests; the same seed gives the same faults, spells and congestion, and the same answers."""

    def __init__(self, cluster: Cluster, noise: Noise, rng: random.Random) -> None:
        self.cluster, self.noise, self.rng = cluster, noise, rng
        self.rounds = 0
        self.tests = 0
        self.seconds = 0.0  # the processor's time for the simulation itself
        self.weather = Weather(noise, cluster.nodes, random.Random(rng.random()), [])
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
        self.tests += len(plan.duels)
        self.seconds += time.process_time() - before
        return values

    def _congest(self, plan: Plan, values: list[float | None]) -> None:
        for when in range(len(plan.starts)) if self.noise.congestion else ():
            covered = self.weather.over(self.rounds + when)
            for test in plan.tests_of(when) if covered else ():
                a, b, _ = plan.duels[test // 2]
                value = values[test]
                if value and (a in covered) != (b in covered) and self.rng.random() < CONGESTED:
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

    def fails(self, members: Sequence[int]) -> bool:
        """One job over some nodes: a ring of them. One hiccup a job, however many nodes: in the rules' favour."""
        self.tests += 1
        hops = [(members[-1], members[0]), *pairwise(members)]
        if len(hops) == 2:
            hops = hops[1:]
        failed = self.rng.random() < _glitch(self.noise)
        failed = failed or any((min(hop), max(hop)) in self.cluster.paths for hop in hops)
        for fault, shows in zip(self.cluster.faults, self.spells, strict=True):
            if any(_through(fault, a, b) for a, b in hops) and shows(self.rounds):
                failed = True
        if self.noise.congestion and (covered := self.weather.over(self.rounds)):
            crossing = any((a in covered) != (b in covered) for a, b in hops)
            failed = failed or (crossing and self.rng.random() < CONGESTED)
        return failed

    def next_round(self) -> None:
        """The jobs of one round have ended."""
        self.rounds += 1

    def failing_pairs(self) -> set[tuple[int, int]]:
        """Each pair of nodes in a job of its own, in the rounds of a round robin: those that failed, low node first."""
        nodes = self.cluster.nodes
        rounds, size = rounds_of(nodes), (nodes + 1) // 2
        glitches = noises.chances(_glitch(self.noise), rounds * size, self.rng)
        failed = {seated(nodes, at // size, at % size) for at in glitches} | self.cluster.paths
        for when in range(rounds) if self.noise.congestion else ():
            if covered := self.weather.over(self.rounds + when):
                pairs = circle(range(nodes), when)
                crossing = [(a, b) for a, b in pairs if (a in covered) != (b in covered)]
                failed.update(pair for pair in crossing if self.rng.random() < CONGESTED)
        for fault, shows in zip(self.cluster.faults, self.spells, strict=True):
            touched = _pairs_through(fault, nodes)
            failed.update((a, b) for a, b in touched if shows(self.rounds + met(nodes, a, b)))
        self.rounds += rounds
        self.tests += nodes * (nodes - 1) // 2
        return {(min(pair), max(pair)) for pair in failed if max(pair) < nodes}


def _pairs_through(fault: Fault, nodes: int) -> list[tuple[int, int]]:
    if fault.kind in (Entity.NODE, Entity.RANK):
        return [(fault.nodes[0], other) for other in range(nodes) if other != fault.nodes[0]]
    pairs = [fault.nodes[:2]] if fault.kind is Entity.LINK else combinations(range(nodes), 2)
    return [(a, b) for a, b in pairs if _through(fault, a, b)]


def _through(fault: Fault, a: int, b: int) -> bool:
    """Whether a job that uses this pair of nodes, on all rails and both ways, uses the bad part."""
    if fault.kind is Entity.LINK:
        return a in fault.nodes and b in fault.nodes
    if fault.kind is Entity.SWITCH:
        return (a in fault.nodes) != (b in fault.nodes)
    return not fault.nodes or a in fault.nodes or b in fault.nodes


@lru_cache(maxsize=8)
def _pool(noise: Noise) -> tuple[float, ...]:
    return noises.good_values(noise)


@lru_cache(maxsize=8)
def _glitch(noise: Noise) -> float:
    """How often a job over good nodes fails: a hiccup, or a value in the tail."""
    pool = _pool(noise)
    return noise.hiccup + sum(value < SLOW for value in pool) / len(pool)
