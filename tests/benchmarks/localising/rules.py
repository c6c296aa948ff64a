"""The public tools' ways to find bad nodes, written anew from what they publish. None of them names links.

Each round starts jobs, one a group of nodes, and each job passes or fails. Where a publication leaves something open the
rule gets the better choice; `SOURCES` says what was taken from where.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from tests.benchmarks.localising.world import World


@dataclass(frozen=True)
class Blame:
    """Who is named."""

    nodes: frozenset[int] = frozenset()
    links: frozenset[frozenset[int]] = frozenset()


Rule = Callable[[World], Blame]


def adjacent_once(world: World) -> Blame:
    """Neighbours in the list, each node in one pair; both nodes of a failing pair are named."""
    return Blame(frozenset(_failing(world, _neighbours(range(world.cluster.nodes)))))


def two_pass(world: World) -> Blame:
    """Chance pairs; then each node of a failing pair with one that passed, and who fails again is named.

    With nobody left that passed, all are named.
    """
    nodes = [*range(world.cluster.nodes)]
    world.rng.shuffle(nodes)
    suspects = _failing(world, _neighbours(nodes))
    good = [node for node in nodes if node not in suspects]
    return Blame(frozenset(_with_good(world, suspects, good)))


def two_rounds(world: World) -> Blame:
    """Neighbours; then everybody again, the slow ones with the fast ones; who fails twice is named."""
    nodes = [*range(world.cluster.nodes)]
    first = _failing(world, _neighbours(nodes))
    if not first:
        return Blame()
    world.rng.shuffle(nodes)  # who is how fast, among those that passed and among those that failed
    order = sorted(nodes, key=lambda node: node in first)
    half = len(order) // 2
    second = _failing(world, [(order[i], order[-1 - i]) for i in range(half)])
    return Blame(frozenset(first) & second)


def bisection(world: World) -> Blame:
    """Groups of ceil(sqrt N); one job over a node of each group that passed; failing groups are halved down to pairs;
    what is left is tried again, each with a node that passed.
    """
    nodes = range(world.cluster.nodes)
    groups = _groups(nodes, math.ceil(math.sqrt(len(nodes))))
    passed, failed = _sorted_out(world, groups)
    good = {node for group in passed for node in group}
    representatives = [group[0] for group in passed]
    if len(representatives) > 1:
        across = world.fails(representatives)
        world.next_round()
        if across:
            failed.append(representatives)
            good -= set(representatives)
    suspects: set[int] = set()
    while failed:
        suspects.update(node for group in failed if len(group) <= 2 for node in group)
        halves = [half for group in failed if len(group) > 2 for half in _halves(group)]
        passed, failed = _sorted_out(world, [_padded(half, good) for half in halves])
        good.update(node for group in passed for node in group)
        failed = [[node for node in group if node not in good] for group in failed]
    return Blame(frozenset(_with_good(world, suspects, sorted(good - suspects))))


def all_pairs(world: World) -> Blame:
    """Every pair, a round of disjoint pairs at a time; a node is named if more than half of its pairs failed.

    The published rule takes "the node that all failing pairs have in common", which names nobody once two nodes are
    bad or one test is wrong; half is its generous reading. Failing pairs of which no end is named would be the links: that
    reading is ours as well.
    """
    failed = world.failing_pairs()
    count = [0] * world.cluster.nodes
    for a, b in failed:
        count[a] += 1
        count[b] += 1
    named = frozenset(node for node, bad in enumerate(count) if 2 * bad > world.cluster.nodes - 1)
    return Blame(named, frozenset(frozenset(pair) for pair in failed if not named.intersection(pair)))


RULES: dict[str, Rule] = {
    "adjacent pairs once": adjacent_once,
    "two-pass with known-good": two_pass,
    "two-round pairing": two_rounds,
    "bisection by ceil(sqrt N)": bisection,
    "all pairs, by majority": all_pairs,
}

SOURCES: dict[str, str] = {
    "adjacent pairs once": "awslabs/awsome-distributed-ai issue 664 (N/2 tests, pairwise, to isolate a bad node); Azure/azurehpc "
    "pull request 582 (all-reduce over pairs of neighbours, side by side). Neither says which of the two is bad.",
    "two-pass with known-good": "GoogleCloudPlatform/cluster-health-scanner, src/health_runner/nccl_runner.py (chance pairs; a "
    "second pass of the nodes that failed with nodes that passed); rom1504/gpu-tester issue 3",
    "two-round pairing": "intelligent-machine-learning/dlrover, docs/tutorial/check_node_health.md (pairs; sorted by time, slowest "
    "with fastest, all again; bad is who fails both)",
    "bisection by ceil(sqrt N)": "NVIDIA/cluster-readiness-engine, docs/designs/055-adaptive-fault-isolation.md (screening, "
    "representatives, halving to minGroupSize 2, confirmation with healthy nodes), without its round without NVLink",
    "all pairs, by majority": "awslabs/awsome-distributed-ai issue 865 (all pairs, then the node common to the slow ones); "
    "`testScale: pairwise` of NVIDIA/cluster-readiness-engine",
}


def _neighbours(nodes: Sequence[int]) -> list[tuple[int, int]]:
    return [(nodes[i], nodes[i + 1]) for i in range(0, len(nodes) - 1, 2)]


def _failing(world: World, pairs: Iterable[tuple[int, int]]) -> set[int]:
    """One round of pairs: the nodes of those that failed."""
    failed = {node for pair in pairs if world.fails(pair) for node in pair}
    world.next_round()
    return failed


def _with_good(world: World, suspects: Iterable[int], good: Sequence[int]) -> set[int]:
    """Each suspect with another good node, in as many rounds as that takes: the suspects that failed."""
    waiting = sorted(suspects)
    if not good:
        return set(waiting)
    failed: set[int] = set()
    for some in _groups(waiting, len(good)):
        pairs = [*zip(some, world.rng.sample(good, len(some)), strict=True)]
        failed |= _failing(world, pairs) & set(some)
    return failed


def _sorted_out(world: World, groups: list[list[int]]) -> tuple[list[list[int]], list[list[int]]]:
    """One round of groups: those that passed, and those that failed. A node alone cannot be tested: it stays failed."""
    results = [(group, len(group) < 2 or world.fails(group)) for group in groups]
    if groups:
        world.next_round()
    return [group for group, bad in results if not bad], [group for group, bad in results if bad]


def _groups(nodes: Sequence[int], size: int) -> list[list[int]]:
    return [[*nodes[i : i + size]] for i in range(0, len(nodes), size)]


def _halves(group: list[int]) -> tuple[list[int], list[int]]:
    middle = len(group) // 2
    return group[:middle], group[middle:]


def _padded(group: list[int], good: set[int]) -> list[int]:
    """A node that is left alone gets a good one beside it."""
    return [*group, min(good)] if len(group) == 1 and good else group
