"""Our way: a tournament in the running job, decoded; the cells in doubt three times more; decoded again, while fewer are in doubt.

The rounds, and what is measured next, are the product's own (`checks.probes.pairs`), with time enough for all of them; only the
answers are simulated.
"""

from __future__ import annotations

import time

from checks.culprit.decode import decode
from checks.culprit.matrix import Better, Decoded, Matrix, Span, Tolerance
from checks.culprit.retest import RetestEntry, goes_on, suspects
from checks.culprit.rounds import is_small, sweeps
from checks.model_details import PairOutcome
from checks.probes.pairs.retest_rounds import CONFIRM_WAITS_S, LEAST_ROUNDS
from tests.benchmarks.localising.plan import Plan, again, tournament
from tests.benchmarks.localising.score import JOB_ROUND_S
from tests.benchmarks.localising.world import World

ALL_PAIRS_NODES, MATCHINGS, REPEATS = 256, 12, 3  # the defaults of the check's options
TOLERANCE = Tolerance(ratio=0.8)


class Tests:
    """What was measured so far."""

    def __init__(self, world: World, tolerance: Tolerance = TOLERANCE) -> None:
        self.world, self.tolerance = world, tolerance
        self.sources: list[int] = []
        self.targets: list[int] = []
        self.values: list[float | None] = []
        self.rounds: list[int] = []
        self.longest_s = 0.0  # the processor's time of the longest decoding

    def run(self, plan: Plan) -> None:
        """Measure a plan's tests as well."""
        sources, targets = plan.columns()
        self.sources += sources
        self.targets += targets
        began = self.world.rounds
        self.values += self.world.measure(plan)
        self.rounds += [began + when for when in range(len(plan.starts)) for _ in plan.tests_of(when)]

    def entries(self) -> list[RetestEntry]:
        """The tests as the ranks tell them to each other."""
        columns = zip(self.sources, self.targets, self.values, strict=True)
        ended = {True: PairOutcome.OK, False: PairOutcome.NO_ANSWER}
        return [RetestEntry(a, b, value, None, ended[bool(value)]) for a, b, value in columns]

    @property
    def matrix(self) -> Matrix:
        """The tests as the decoder gets them."""
        columns = (self.sources, self.targets, self.values)
        parts = self.world.cluster.parts
        moments = [round_ * JOB_ROUND_S for round_ in self.rounds]
        return Matrix("bandwidth", "GB/s", Better.HIGHER, Span.BETWEEN, parts, *columns, self.rounds, moments)

    def decoded(self) -> Decoded:
        """What they say."""
        matrix, before = self.matrix, time.process_time()
        found = decode(matrix, self.tolerance)
        self.longest_s = max(self.longest_s, time.process_time() - before)
        return found


def swept(world: World, tolerance: Tolerance = TOLERANCE) -> tuple[Tests, Decoded]:
    """The tests of a sweep: all pairs up to ALL_PAIRS_NODES nodes; above, matchings, then all pairs of what looks suspicious."""
    cluster, tests = world.cluster, Tests(world, tolerance)
    if cluster.nodes <= ALL_PAIRS_NODES:
        for _ in range(sweeps(cluster.nodes)):
            tests.run(tournament(cluster.nodes, cluster.rails))
    else:
        tests.run(tournament(cluster.nodes, cluster.rails, MATCHINGS))
        pairs = suspects(tests.entries(), cluster.nodes, cluster.rails)
        tests.run(again(pairs, 1, cluster.rails))
    decoded, counts = tests.decoded(), list[int]()
    sweep = cluster.rails * cluster.nodes * (cluster.nodes - 1) // 2 if is_small(cluster.nodes) else 0
    for wait_s in CONFIRM_WAITS_S:
        most = max(len(set(tests.rounds)) // 2, LEAST_ROUNDS) // REPEATS
        plan = again(decoded.confirm, REPEATS, cluster.rails, most)
        counts.append(len(plan.duels) // REPEATS)
        if not goes_on(counts, sweep):
            break
        world.wait(round(wait_s / JOB_ROUND_S))
        tests.run(plan)
        decoded = tests.decoded()
    return tests, decoded
