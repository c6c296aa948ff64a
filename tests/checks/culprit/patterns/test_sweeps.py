"""Several sweeps of all pairs: what they tell of time and of pairs, and which tests were chosen because a cell was bad."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from dataclasses import replace

import pytest

from checks.culprit.decode import decode
from checks.culprit.matrix import Decoded, Entity, Matrix, MatrixAnswer, Tolerance
from checks.culprit.patterns.paths import always_bad
from checks.culprit.patterns.sweeps import varies_between_sweeps
from checks.culprit.rounds import round_robin, sweeps
from tests.checks.culprit.planted import BAD, GOOD, all_pairs, in_rounds, matrix, named, nodes, one_sweep

SHIPPED = Tolerance(0.7)
Share = Callable[[int, int, int], float]


def swept(number: int, share: Share, times: int) -> Matrix:
    """So many sweeps, one after the other; `share(source, target, round)` is left of a good value."""
    rng, rounds = random.Random(3), len(round_robin(number))
    tests = [(a, b, sweep * rounds + at) for sweep in range(times) for a, b, at in one_sweep(number)]
    values = [GOOD * share(a, b, at) * rng.uniform(0.98, 1.02) for a, b, at in tests]
    return in_rounds(nodes(number), tests, values)


def test_a_few_nodes_are_swept_as_often_as_makes_as_many_rounds_as_those_of_many() -> None:
    """About 63 rounds; up to 64 nodes each link is tested at two times."""
    assert [63, 21, 9, 4, 2, 2, 1] == [sweeps(number) for number in (2, 4, 8, 16, 32, 64, 256)]


def test_a_second_sweep_was_not_chosen_because_cells_were_bad() -> None:
    """The retests of a few cells were."""
    parts = nodes(8)
    cells = all_pairs(parts)
    twice = matrix(parts, cells=2 * cells + 3 * cells[:4])

    assert [True] * 2 * len(cells) + [False] * 12 == twice.swept
    assert [True] * len(cells) + [False] * 12 == matrix(parts, cells=cells + 3 * cells[:4]).swept


def test_cells_that_are_bad_in_each_test_are_told_from_those_that_are_not() -> None:
    """Four tests are enough."""
    made = swept(8, lambda a, b, at: 0.3 if {a, b} == {1, 2} or (3 in (a, b) and at < 20) else 1.0, 4)
    bad = [test for test, value in enumerate(made.values) if (value or 0) < BAD * 1.1]

    assert {(1, 2), (2, 1)} == {cell for cell in always_bad(made, bad) if 3 not in cell}


def test_a_node_that_is_bad_for_a_fifth_of_the_time_is_found_among_eight() -> None:
    """Nine sweeps see two of its periods."""
    found = decode(swept(8, lambda a, b, at: 0.4 if 5 in (a, b) and at % 30 < 6 else 1.0, 9), SHIPPED)

    assert {"node-5"} == {one.subject for one in found.suspects}
    assert not found.suspects[0].passed


@pytest.mark.parametrize("pairs", [{(1, 5)}, {(1, 5), (1, 7)}, {(1, 5), (1, 7), (5, 7)}])
def test_pairs_that_are_slow_in_each_sweep_are_links_with_their_cost(pairs: set[tuple[int, int]]) -> None:
    """No node is named, although their rounds follow each other in each sweep; half of the rate is what a shared path leaves."""
    found = decode(swept(8, lambda a, b, at: 0.5 if (min(a, b), max(a, b)) in pairs else 1.0, 9), SHIPPED)

    assert {f"node-{a}<->node-{b}" for a, b in pairs} == {one.subject for one in found.suspects}
    assert all(one.cost == pytest.approx(1 / 28, rel=0.05) for one in found.suspects)


@pytest.mark.parametrize("left", [0.19, 0.1])
def test_a_pair_with_less_than_a_shared_path_leaves_is_a_broken_link(left: float) -> None:
    """It has no cost, so that it is refused."""
    found = decode(swept(8, lambda a, b, at: left if {a, b} == {1, 5} else 1.0, 9), SHIPPED)

    assert [None] == [one.cost for one in found.suspects]


def test_a_link_that_is_good_at_times_is_no_shared_path() -> None:
    """Paths that share a link do so in each test: it is named, and has no cost."""
    rng = random.Random(1)
    found = decode(
        swept(8, lambda a, b, at: 0.5 if {a, b} == {1, 5} and rng.random() < 0.5 else 1.0, 9), SHIPPED
    )

    assert [("node-1<->node-5", None)] == [(one.subject, one.cost) for one in found.suspects]


def test_two_nodes_of_which_no_test_is_good_have_a_bad_link() -> None:
    """There is no time at which it was good."""
    dead = replace(made := swept(2, lambda a, b, at: 1.0, 9), values=[None] * len(made.values))

    assert {Entity.LINK} == {kind for kind, _, _ in named(decode(dead, SHIPPED))}


def leaf_of_two(number: int, first: int, last: int) -> Share:
    """Half of the tests between two leaves are slow in these rounds."""

    def share(a: int, b: int, at: int) -> float:
        crosses = (a < number // 2) != (b < number // 2)
        hit = random.Random(f"{a} {b} {at}").random() < 0.5
        return 0.3 if crosses and first <= at <= last and hit else 1.0

    return share


@pytest.mark.parametrize("number", [8, 16])
def test_congestion_between_the_only_two_leaves_is_congestion(number: int) -> None:
    """Every node loses the same share of its tests, which is less than half."""
    found = decode(swept(number, leaf_of_two(number, 20, 38), sweeps(number)), SHIPPED)

    assert () == found.suspects and len(found.congestion) == 1
    assert 18 <= found.congestion[0].first <= 23 and 35 <= found.congestion[0].last <= 40


def test_congestion_for_most_of_the_sweep_is_not_explained_and_the_cluster_is_swept_again() -> None:
    """Nothing shows that it passes."""
    found = decode(swept(8, leaf_of_two(8, 5, 60), 9), SHIPPED)

    assert not found.congestion and found.answer in (MatrixAnswer.UNEXPLAINED, MatrixAnswer.FABRIC)
    assert set(all_pairs(nodes(8))) <= set(found.confirm)


def test_a_spell_of_one_node_is_not_the_whole_clusters() -> None:
    """A quarter of all tests is bad then, and all of them are its own."""
    found = decode(swept(8, lambda a, b, at: 0.4 if 5 in (a, b) and 20 <= at < 30 else 1.0, 9), SHIPPED)

    assert () == found.congestion
    assert {"node-5"} == {one.subject for one in found.suspects}


def halves(found: Decoded) -> set[frozenset[str]]:
    assert found.groups is not None
    return {frozenset(group) for group in found.groups.groups}


@pytest.mark.parametrize("number", [8, 16])
def test_two_leaves_that_nobody_told_of_are_seen(number: int) -> None:
    """All pairs between them have half of the rate; a node that is slow besides is named."""

    def share(a: int, b: int, at: int) -> float:
        return (0.5 if (a < number // 2) != (b < number // 2) else 1.0) * (0.5 if 3 in (a, b) else 1.0)

    healthy = decode(swept(number, lambda a, b, at: share(a, b, at) * (2 if 3 in (a, b) else 1), 2), SHIPPED)
    expected = {frozenset(f"node-{n}" for n in range(half, half + number // 2)) for half in (0, number // 2)}
    assert (MatrixAnswer.NOBODY, expected) == (healthy.answer, halves(healthy))
    assert healthy.groups is not None and 0.5 == pytest.approx(healthy.groups.share, rel=0.02)

    found = decode(swept(number, share, 2), SHIPPED)
    assert {"node-3"} == {subject for _, subject, _ in named(found)} and expected == halves(found)


@pytest.mark.parametrize("left", [0.2, 0.01])
def test_halves_that_reach_each_other_badly_are_no_leaves(left: float) -> None:
    """Less than a quarter of the rate is no oversubscription."""
    found = decode(swept(8, lambda a, b, at: left if (a < 4) != (b < 4) else 1.0, 2), SHIPPED)

    assert found.groups is None and found.bad and found.answer is not MatrixAnswer.NOBODY


def test_half_of_the_nodes_that_are_slow_are_no_leaf() -> None:
    """They are slow with each other as well."""
    found = decode(swept(8, lambda a, b, at: 0.5 if min(a, b) < 4 else 1.0, 2), SHIPPED)

    assert (MatrixAnswer.FABRIC, None) == (found.answer, found.groups)


def test_nodes_below_a_bad_switch_that_nobody_told_of_are_not_named_beside_a_bad_node() -> None:
    """They are good with each other; what they share is named, and the node elsewhere."""

    def share(a: int, b: int, at: int) -> float:
        return 0.5 if (a < 4) != (b < 4) or 20 in (a, b) else 1.0

    found = decode(swept(32, share, 2), SHIPPED)

    assert {(Entity.NODE, "node-20"), (Entity.SWITCH, "switch of node-0, node-1, node-2 and others")} == {
        (kind, subject) for kind, subject, _ in named(found)
    }


@pytest.mark.parametrize("seed", range(5))
def test_what_comes_and_goes_is_told_from_what_is_broken(seed: int) -> None:
    """A quarter of the flows that leave a leaf take a broken uplink in each sweep; other traffic half of them at times."""
    rng = random.Random(seed)
    first = rng.randrange(25)
    busy = range(first, first + 5)

    def broken(a: int, b: int, at: int) -> float:
        return 0.3 if a < 8 <= b and rng.random() < 0.25 else 1.0

    def congested(a: int, b: int, at: int) -> float:
        return 0.3 if (a < 8) != (b < 8) and at in busy and rng.random() < 0.5 else 1.0

    for share, expected in ((broken, False), (congested, True)):
        tests = swept(16, share, 2)
        bad = [test for test, value in enumerate(tests.values) if value and value < GOOD / 2]
        assert expected == varies_between_sweeps(tests, bad)
        assert not varies_between_sweeps(swept(16, share, 1), bad)


@pytest.mark.parametrize(
    ("last", "controls", "is_named"),
    [("......", "......", False), ("X.....", "......", True), ("X.....", "X..X..", False)],
)
def test_a_link_that_was_good_at_times_is_named_if_its_ends_are_good(
    last: str, controls: str, is_named: bool
) -> None:
    """Of its tests 3 of 8 were bad, then 5 of 6 retests. Its path was busy if the next are good, or if good pairs of its ends,
    which are measured beside it, have become bad as well.
    """
    sweep_tests = swept(
        16, lambda a, b, at: 0.3 if {a, b} == {2, 5} and ((at < 15 and a < b) or at >= 45) else 1.0, 4
    )
    tests = [*zip(sweep_tests.sources, sweep_tests.targets, sweep_tests.rounds, strict=True)]
    values, moments = [value or 0.0 for value in sweep_tests.values], [*sweep_tests.moments]

    def measure(stage: int, pair: tuple[int, int], states: str) -> None:
        for index, state in enumerate(states):
            a, b = pair if index % 2 == 0 else pair[::-1]
            tests.append((a, b, 87 + 30 * stage + index // 2))
            values.append(BAD if state == "X" else GOOD)
            moments.append(6.5 + 2.2 * stage + 0.07 * (index // 2))

    def decoded() -> Decoded:
        return decode(replace(in_rounds(nodes(16), tests, values), moments=moments), SHIPPED)

    measure(0, (2, 5), "X.XXXX")
    beside = [pair for pair in decoded().confirm if pair not in ((2, 5), (5, 2))]
    assert {2, 5} <= {end for pair in beside for end in pair} and len(beside) == 4
    measure(1, (2, 5), last)
    for pair in beside[::2]:
        measure(1, pair, controls)

    assert is_named == bool(decoded().suspects)


@pytest.mark.parametrize(("share", "expected"), [(0.0, {"node-2<->node-5"}), (0.25, set[str]())])
def test_a_pair_that_was_never_good_is_named_unless_others_of_its_end_are_often_bad(
    share: float, expected: set[str]
) -> None:
    """One of four uplinks that is broken leaves some pairs of each node below it without a good test, by chance."""
    rng = random.Random(3)
    wrong = {(other, sweep) for sweep in range(4) for other in range(16) if rng.random() < share}
    made = swept(16, lambda a, b, at: 0.3 if a == 2 and (b == 5 or (b, at // 15) in wrong) else 1.0, 4)
    decoded = decode(made, SHIPPED)

    assert expected == {suspect.subject for suspect in decoded.suspects}
    assert expected or (2, 5) in decoded.confirm


@pytest.mark.parametrize(("is_busy", "expected"), [(False, {"node-2<->node-20"}), (True, set[str]())])
def test_a_link_that_is_bad_just_when_others_of_its_leaf_are_is_not_named(
    is_busy: bool, expected: set[str]
) -> None:
    """In each of five stages it is bad in two or three rounds of six, as two others of its leaf. Those of other leaves are good."""
    mates, others = {(2, 20), (1, 17), (3, 19)}, [(32 + at, 48 + at) for at in range(16)]
    sick = mates if is_busy else {(2, 20)}
    sweep = swept(64, lambda a, b, at: 0.3 if (a, b) in sick or (b, a) == (2, 20) else 1.0, 1)
    tests, moments = [*zip(sweep.sources, sweep.targets, sweep.rounds, strict=True)], [*sweep.moments]
    values = [value or 0.0 for value in sweep.values]
    for stage, at in itertools.product(range(5), range(6)):
        for pair in (*mates, *others):
            for a, b in (pair, pair[::-1]):
                tests.append((a, b, 80 + 30 * stage + at))
                values.append(BAD if pair in sick and at < 3 - stage % 2 else GOOD)
                moments.append(8 + 2.5 * stage + 0.07 * at)
    parts = [replace(part, switches=(f"leaf-{index // 16}",)) for index, part in enumerate(nodes(64))]
    made = replace(in_rounds(parts, tests, values), moments=moments)

    assert expected == {suspect.subject for suspect in decode(made, SHIPPED).suspects}
