"""A second fault hides none: with two faults no answer is better than with the worse of them alone."""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import lru_cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checks.culprit.decode import decode
from checks.culprit.matrix import Decoded, Direction, Entity, Matrix, Tolerance
from checks.judge.cpu_contention import RecordedLoads
from checks.judge.culprits.findings import CheckFindings
from checks.judge.culprits.from_report import COLLECTIVE, MatrixSubject, PairTable
from checks.judge.culprits.pattern_findings import MatrixReading
from checks.model import CLUSTER, LINK, Finding, Level, node_of, worst
from tests.benchmarks.localising.cluster import Cluster, Fault
from tests.benchmarks.localising.noise import CALM, Noise
from tests.benchmarks.localising.ours import swept
from tests.benchmarks.localising.pair_worlds import EVEN
from tests.benchmarks.localising.world import World
from tests.checks.culprit.planted import BAD, Cell, IsBad, sweep

WANTED = {"detects_slow_node": 0.1}
LEAF = 4


@lru_cache
def findings(
    faults: tuple[Fault, ...], nodes: int = 16, rails: int = 2, seed: int = 1, noise: Noise = EVEN
) -> tuple[Finding, ...]:
    """What the judge says of a cluster with these faults, whose switches are known."""
    world = World(Cluster(nodes, rails, faults, LEAF, leaf=LEAF), noise, random.Random(f"{seed} {faults}"))
    tests, decoded = swept(world, tolerance=Tolerance(0.7))
    return _judged(tests.matrix, decoded, WANTED)


def _judged(matrix: Matrix, decoded: Decoded, options: Mapping[str, float]) -> tuple[Finding, ...]:
    reading = MatrixReading(COLLECTIVE, MatrixSubject.BANDWIDTH, matrix, decoded)
    table = PairTable(matrix.endpoints, tuple(range(len(matrix.endpoints))))
    return tuple(CheckFindings(COLLECTIVE, table, [reading], RecordedLoads((), {}), options).findings())


def refused(found: Collection[Finding]) -> set[str]:
    return {one.subject for one in found if one.level is Level.FAIL}


def kinds(node: int, other: int, rail: int) -> dict[str, Fault]:
    """A fault of each kind, at this node."""
    leaf = tuple(range(node // LEAF * LEAF, node // LEAF * LEAF + LEAF))
    return {
        "slow node": Fault(Entity.NODE, (node,), factor=0.8, rate=1.0),
        "bad node": Fault(Entity.NODE, (node,), factor=0.4, rate=1.0),
        "node that sends slowly": Fault(Entity.NODE, (node,), factor=0.8, rate=1.0, way=Direction.OUT),
        "node that receives badly": Fault(Entity.NODE, (node,), factor=0.5, rate=1.0, way=Direction.IN),
        "loss": Fault(Entity.NODE, (node,), factor=0.2, rate=0.4),
        "slow rank": Fault(Entity.RANK, (node,), rail=rail, factor=0.8, rate=1.0),
        "bad rank": Fault(Entity.RANK, (node,), rail=rail, factor=0.4, rate=1.0),
        "shared path": Fault(Entity.LINK, (node, other), factor=0.5, rate=1.0),
        "broken link": Fault(Entity.LINK, (node, other), factor=0.1, rate=1.0),
        "link one way": Fault(Entity.LINK, (node, other), factor=0.3, rate=1.0, way=Direction.OUT),
        "switch": Fault(Entity.SWITCH, leaf, factor=0.5, rate=1.0),
        "bad rail": Fault(Entity.RAIL, rail=rail, factor=0.4, rate=1.0),
    }


def test_a_slow_node_is_named_beside_its_own_bad_link() -> None:
    """It was never mentioned: the link counted as its explanation."""
    here = kinds(4, 9, 0)

    assert "n4" in refused(findings((here["slow node"], here["shared path"])))


def _drawn(rng: random.Random) -> tuple[tuple[Fault, ...], int, int, int]:
    """Two faults of any kinds at one node or at two, how many nodes and rails there are, and a seed."""
    nodes, rails = rng.choice((8, 8, 12, 16)), rng.choice((1, 1, 2))
    here, other, away, far = rng.sample(range(nodes), 4)
    second = rng.choice(((here, other), (here, away), (away, here), (away, far)))
    of_ranks = {"slow rank", "bad rank", "bad rail"} if rails == 1 else set()
    faults = [
        fault
        for ends in ((here, other), second)
        for fault in rng.sample(
            [f for name, f in kinds(*ends, rng.randrange(rails)).items() if name not in of_ranks], 1
        )
    ]
    return tuple(faults), nodes, rails, rng.randrange(10**6)


@pytest.mark.parametrize(
    "numbers",
    [
        *(range(first, first + 50) for first in range(0, 200, 50)),
        *(pytest.param(range(first, first + 100), marks=pytest.mark.long) for first in range(200, 2000, 100)),
    ],
)
def test_a_second_fault_never_makes_the_answer_better(numbers: range) -> None:
    """Whoever is refused alone is refused with the other fault, or the whole of the cluster is."""
    for number in numbers:
        pair, nodes, *rest = _drawn(random.Random(f"two faults {number}"))
        entities, world = {fault.kind for fault in pair}, (nodes, *rest)
        if entities == {Entity.RAIL} or (entities == {Entity.SWITCH} and nodes < 4 * LEAF):
            continue  # of two rails both are slow, or of three leaves two: nothing is left to compare with
        both = refused(findings(pair, *world))
        for fault in pair:
            alone = refused(findings((fault,), *world))
            if CLUSTER not in both:
                assert all(_covered(subject, both) for subject in alone), (number, pair, both)


def _covered(subject: str, both: set[str]) -> bool:
    """Whether one of them is the subject, a node or rank at one of its ends, or a part of it."""
    ends = {*subject.split(LINK), *map(node_of, subject.split(LINK))}
    return any(one in ends or set(map(node_of, one.split(LINK))) <= ends for one in both)


def measured_again(rng: random.Random, number: int) -> dict[str, IsBad]:
    """Faults of which each bad test is measured again, and what chance does; most of them are warnings."""
    (node, other, *crowd), first = rng.sample(range(number), 6), rng.randrange(number // 2)
    return {
        "slow link": lambda a, b, at: {a, b} == {node, other},
        "bad node": lambda a, b, at: node in (a, b),
        "node that was bad for a while": lambda a, b, at: node in (a, b) and first <= at < first + 5,
        "congestion": lambda a, b, at: (
            first <= at < first + 4 and not {a, b}.isdisjoint(crowd) and bool((a + b + at) % 3)
        ),
        "pairs that fail at times": lambda a, b, at: a // 2 == b // 2 < 3 and at % 2 == 0,
    }


def _with(matrix: Matrix, cells: Collection[Cell], value: float | None) -> Level:
    """The worst level if all tests of these cells gave this value."""
    values = [value if cell in cells else old for cell, old in zip(matrix.ends, matrix.values, strict=True)]
    changed = replace(matrix, values=values)
    return worst([one.level for one in _judged(changed, decode(changed, Tolerance(0.5)), {})])


@settings(max_examples=40)
@given(st.randoms(use_true_random=False))
def test_more_bad_tests_never_make_the_level_better(rng: random.Random) -> None:
    """Tests that were not measured again, and that no part explains: a warning about another part hid them."""
    number = rng.choice((8, 12, 16, 24))
    is_bad = rng.choice(list(measured_again(rng, number).values()))
    healthy, faulty = sweep(number, lambda a, b, at: False), sweep(number, is_bad, again=3)
    free = [
        (a, b)
        for a, b in healthy.ends
        if not any(is_bad(*its, at) for its in ((a, b), (b, a)) for at in range(number))
    ]
    cells, value = set(rng.sample(free, rng.randint(1, number // 3))), rng.choice((None, BAD))

    both = _with(faulty, cells, value)
    assert both.rank >= max(_with(healthy, cells, value).rank, _with(faulty, (), value).rank)


@pytest.mark.parametrize("factor", [0.85, 0.72])
def test_slow_rank_of_eight_is_named(factor: float) -> None:
    """The median of its whole node does not show it."""
    assert {"n5/3"} == refused(
        findings((Fault(Entity.RANK, (5,), rail=3, factor=factor, rate=1.0),), rails=8)
    )


@pytest.mark.parametrize(
    ("kind", "nodes", "rails"),
    [
        (Entity.NODE, 4, 1),
        (Entity.NODE, 8, 2),
        (Entity.RANK, 8, 2),
        (Entity.LINK, 8, 2),
        pytest.param(Entity.NODE, 16, 8, marks=pytest.mark.long),
        pytest.param(Entity.RANK, 16, 8, marks=pytest.mark.long),
        pytest.param(Entity.LINK, 16, 8, marks=pytest.mark.long),
    ],
)
def test_what_a_verdict_says_it_would_have_named_is_named(kind: Entity, nodes: int, rails: int) -> None:
    """Nine times of ten, also after the retests, for which the slowest tests are chosen."""
    hits = 0
    for seed in range(20):
        healthy = swept(World(Cluster(nodes, rails), EVEN, random.Random(seed)), tolerance=Tolerance(0.7))
        factor = 0.998 - healthy[1].seen_from[kind]
        ends, rail = (1, 3) if kind is Entity.LINK else (2,), 1 if kind is Entity.RANK else None
        fault = Fault(kind, ends, rail, factor=factor, rate=1.0)
        subject = f"n1{LINK}n3" if kind is Entity.LINK else fault.subject(Cluster(nodes, rails))
        hits += any(one.subject == subject for one in findings((fault,), nodes, rails, seed))

    assert hits >= 16


def test_slow_rail_of_eight_is_named_and_none_of_its_ranks() -> None:
    """Its ranks are as slow as each other."""
    (found,) = findings((Fault(Entity.RAIL, rail=2, factor=0.85, rate=1.0),), rails=8)

    assert (CLUSTER, Level.FAIL) == (found.subject, found.level)
    assert found.message.startswith("rail 2 is 1") and "slower than the other rails" in found.message


@pytest.mark.parametrize(("nodes", "seed"), [(16, 0), pytest.param(64, 0, marks=pytest.mark.long)])
def test_a_node_that_is_bad_in_a_fifth_of_its_tests_is_named_and_none_of_its_links(
    nodes: int, seed: int
) -> None:
    """Each of its links was bad by itself, in several tests."""
    fault = Fault(Entity.NODE, (3,), factor=0.4, rate=0.2)

    assert {"n3"} == refused(findings((fault,), nodes, 1, seed, CALM))
