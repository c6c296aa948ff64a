"""Our way: a tournament in the running job, decoded; the cells in doubt three times more; decoded again, while fewer are in doubt.

The rounds, and what is measured next, are the product's own (`checks.probes.pairs`), with time enough for all of them; only the
answers are simulated.
"""

from __future__ import annotations

import math

from checks.culprit.decode import decode
from checks.culprit.matrix import Better, Decoded, Matrix, Span, Tolerance
from checks.culprit.retest import Entry, suspects
from checks.model import PairOutcome
from checks.probes.pairs.retest_rounds import CONFIRMS
from tests.benchmarks.localising.plan import Plan, again, tournament
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

    def run(self, plan: Plan) -> None:
        """Measure a plan's tests as well."""
        sources, targets = plan.columns()
        self.sources += sources
        self.targets += targets
        self.values += self.world.measure(plan)

    def entries(self) -> list[Entry]:
        """The tests as the ranks tell them to each other."""
        columns = zip(self.sources, self.targets, self.values, strict=True)
        ended = {True: PairOutcome.OK, False: PairOutcome.NO_ANSWER}
        return [Entry(a, b, value, None, ended[bool(value)]) for a, b, value in columns]

    @property
    def matrix(self) -> Matrix:
        """The tests as the decoder gets them."""
        columns = (self.sources, self.targets, self.values)
        parts = self.world.cluster.parts
        return Matrix("bandwidth", "GB/s", Better.HIGHER, Span.BETWEEN, parts, *columns)

    def decoded(self) -> Decoded:
        """What they say."""
        return decode(self.matrix, self.tolerance)


def ours(world: World, all_pairs_nodes: int = ALL_PAIRS_NODES) -> Decoded:
    """What the tests of a sweep say in the end."""
    return swept(world, all_pairs_nodes)[1]


def swept(
    world: World, all_pairs_nodes: int = ALL_PAIRS_NODES, tolerance: Tolerance = TOLERANCE
) -> tuple[Tests, Decoded]:
    """All pairs up to `all_pairs_nodes` nodes; above, matchings, then all pairs of what looks suspicious."""
    cluster, tests = world.cluster, Tests(world, tolerance)
    if cluster.nodes <= all_pairs_nodes:
        tests.run(tournament(cluster.nodes, cluster.rails))
    else:
        tests.run(tournament(cluster.nodes, cluster.rails, MATCHINGS))
        pairs = suspects(tests.entries(), cluster.nodes, cluster.rails)
        tests.run(again(pairs, 1, cluster.rails))
    decoded, before = tests.decoded(), math.inf
    for _ in CONFIRMS:
        if not decoded.confirm or len(decoded.confirm) >= before:
            break
        before = len(decoded.confirm)
        tests.run(again(decoded.confirm, REPEATS, cluster.rails))
        decoded = tests.decoded()
    return tests, decoded
