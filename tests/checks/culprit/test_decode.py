"""The decoder on small matrices with planted faults: who is named, how, and who is not."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import pytest

from checks.culprit.decode import decode
from checks.culprit.likelihood import Chance, Odds
from checks.culprit.matrix import Better, Direction, Endpoint, Entity, Matrix, MatrixAnswer, Span, Tolerance
from tests.checks.culprit.planted import BAD, GOOD, all_pairs, matrix, named, nodes, ranks, together

HALF = Tolerance(0.5)


def test_a_healthy_cluster_has_no_culprit() -> None:
    """Good values that scatter are nobody's fault, and the noise says what is usual."""
    found = decode(matrix(nodes(8)), HALF)

    assert (MatrixAnswer.NOBODY, (), (), ()) == (found.answer, found.suspects, found.confirm, found.bad)
    assert GOOD == pytest.approx(found.noise.usual, rel=0.02)
    assert GOOD / 2 == pytest.approx(found.noise.line, rel=0.02)
    assert 0.001 < found.noise.spread < 0.02


@pytest.mark.parametrize("number", [3, 4, 5, 16])
@pytest.mark.parametrize(
    ("way", "is_bad"),
    [
        (Direction.BOTH, lambda a, b: 1 in (a, b)),
        (Direction.OUT, lambda a, b: a == 1),
        (Direction.IN, lambda a, b: b == 1),
    ],
)
def test_decoder_names_a_slow_node_with_its_direction(
    number: int, way: Direction, is_bad: Callable[[int, int], bool]
) -> None:
    """One slow node, of three already, is named with the way in which it is slow, and does not become the norm."""
    decoded = decode(matrix(nodes(number), is_bad), HALF)

    assert {(Entity.NODE, "node-1", way)} == named(decoded)
    suspect = decoded.suspects[0]
    assert suspect.probability > 0.9
    tests = (number - 1) * (2 if way is Direction.BOTH else 1)
    assert tests == suspect.bad == suspect.tests == len(decoded.bad)
    assert suspect.ratio == pytest.approx(BAD / GOOD, rel=0.05)
    assert GOOD == pytest.approx(decoded.noise.usual, rel=0.03)


@pytest.mark.parametrize("number", [4, 8, 32])
@pytest.mark.parametrize(
    ("way", "cells"),
    [(Direction.BOTH, {(1, 2), (2, 1)}), (Direction.OUT, {(1, 2)}), (Direction.IN, {(2, 1)})],
)
def test_decoder_names_a_slow_link_but_neither_end(
    number: int, way: Direction, cells: set[tuple[int, int]]
) -> None:
    """A link between two good nodes, measured again as `confirm` asks, is named; neither end is."""
    parts = nodes(number)
    first = decode(matrix(parts, lambda a, b: (a, b) in cells), HALF)
    assert cells <= set(first.confirm)
    assert all(one.kind is Entity.LINK for one in first.suspects)

    again = all_pairs(parts) + 3 * list(first.confirm)
    second = decode(matrix(parts, lambda a, b: (a, b) in cells, cells=again), HALF)

    assert {(Entity.LINK, "node-1<->node-2", way)} == named(second)
    assert ("node-1", "node-2") == second.suspects[0].nodes


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (
            matrix(nodes(8), lambda a, b: 3 in (a, b) or {a, b} == {5, 6}),
            {(Entity.NODE, "node-3"), (Entity.LINK, "node-5<->node-6")},
        ),
        # What lies between two bad nodes is not blamed once more.
        (
            matrix(nodes(8), lambda a, b: bool({2, 5} & {a, b})),
            {(Entity.NODE, "node-2"), (Entity.NODE, "node-5")},
        ),
        (matrix(ranks(6, 8), lambda a, b: 19 in (a, b)), {(Entity.RANK, "node-2/rank-19")}),
        (matrix(ranks(6, 8), lambda a, b: a % 8 == 3), {(Entity.RAIL, "rail 3")}),
        (matrix(ranks(6, 8), lambda a, b: 2 in (a // 8, b // 8)), {(Entity.NODE, "node-2")}),
        # Of two nodes nobody can say which one it is.
        (matrix(ranks(2, 8), lambda a, b: a % 8 == 3), {(Entity.LINK, "node-0/rank-3<->node-1/rank-11")}),
        (matrix(ranks(1, 8), lambda a, b: 5 in (a, b), span=Span.INSIDE), {(Entity.RANK, "node-0/rank-5")}),
        # Inside of nodes a GPU, a pair of GPUs and a node are told apart; each of them is its node's.
        (matrix(ranks(4, 8), lambda a, b: 10 in (a, b), span=Span.INSIDE), {(Entity.RANK, "node-1/rank-10")}),
        (
            matrix(ranks(4, 8), lambda a, b: {a, b} == {10, 12}, span=Span.INSIDE),
            {(Entity.LINK, "node-1/rank-10<->node-1/rank-12")},
        ),
        (matrix(ranks(4, 8), lambda a, b: a // 8 == 1, span=Span.INSIDE), {(Entity.NODE, "node-1")}),
    ],
)
def test_exactly_what_is_bad_is_named(made: Matrix, expected: set[tuple[Entity, str]]) -> None:
    """Nodes, links, ranks and rails, and nothing that has tests in common with them."""
    assert {(kind, subject, Direction.BOTH) for kind, subject in expected} == named(decode(made, HALF))


def test_three_links_of_one_node_are_links() -> None:
    """A node nearly all of whose pairs are good, also when the bad ones are measured again and again, is not bad."""
    links = {(0, 1), (0, 2), (0, 3)}

    def is_bad(a: int, b: int) -> bool:
        return (min(a, b), max(a, b)) in links

    parts = nodes(32)
    again = [cell for cell in all_pairs(parts) if is_bad(*cell)] * 3
    decoded = decode(matrix(parts, is_bad, cells=all_pairs(parts) + again), HALF)

    assert {(Entity.LINK, f"node-0<->node-{other}", Direction.BOTH) for other in (1, 2, 3)} == named(decoded)


def test_a_node_that_fails_every_other_time() -> None:
    """A fault that comes and goes is named, with the share of tests that it spoiled."""
    decoded = decode(matrix(nodes(16), lambda a, b: 4 in (a, b) and (a + b) % 2 == 0), HALF)

    assert {(Entity.NODE, "node-4", Direction.BOTH)} == named(decoded)
    assert 0.3 < decoded.suspects[0].bad / decoded.suspects[0].tests < 0.6
    assert decoded.confirm, "congestion could have made such a share: it is measured again"


def test_a_node_whose_pairs_are_bad_as_a_whole() -> None:
    """Packet loss spoils some pairs, both ways: three bad links that share an end by chance are less likely."""
    pairs = {frozenset(pair) for pair in ((0, 4), (2, 4), (6, 4))}
    decoded = decode(matrix(nodes(8), lambda a, b: frozenset((a, b)) in pairs), HALF)
    rails = decode(
        matrix(ranks(32, 4), lambda a, b: {5} < {a // 4, b // 4} and (a // 4 + b // 4) % 5 < 2), HALF
    )

    assert {(Entity.NODE, "node-4", Direction.BOTH)} == named(decoded)
    assert {(Entity.NODE, "node-5", Direction.BOTH)} == named(rails)


@pytest.mark.parametrize("events", [3, 9])
def test_events_that_strike_pairs_are_no_bad_links(events: int) -> None:
    """Where pairs go wrong here and there, each at one time on all rails, no link is named before it is met again."""
    decoded = decode(matrix(ranks(32, 4), lambda a, b: a // 8 == b // 8 < events and a != b), HALF)

    assert (MatrixAnswer.UNEXPLAINED, ()) == (decoded.answer, decoded.suspects)
    assert {(a, b) for a, b in all_pairs(ranks(32, 4)) if a // 8 == b // 8 < events} <= set(decoded.confirm)


def test_link_odds_need_two_bad_visits_of_three() -> None:
    """A link is to be bad at two times, where it was met at three."""
    odds = Odds(Chance(hiccup=1e-6, spell=1e-12), nodes=4)

    assert odds.of_link((1, 3, 1, 3, 1), 2, 2) is None
    assert odds.of_link((2, 3, 2, 3, 2), 2, 2) is not None


@pytest.mark.parametrize(
    ("parts", "bad"),
    [
        # One bad test names nobody, and clears nobody.
        (nodes(32), {(3, 4)}),
        # A pair that was bad as a whole.
        (nodes(200), {(1, 2), (2, 1)}),
        # A node a few of whose tests were bad.
        (nodes(64), {*((9, other) for other in range(20, 29)), *((other, 9) for other in range(30, 36))}),
        # Eight tests of two nodes at one time.
        (ranks(16, 4), {(a, b) for a, b in all_pairs(ranks(16, 4)) if {a // 4, b // 4} == {2, 9}}),
    ],
    ids=["a test", "a pair", "a part of a node's tests", "two nodes at one time"],
)
def test_decoder_clears_tests_that_were_bad_once_when_measured_again(
    parts: tuple[Endpoint, ...], bad: set[tuple[int, int]]
) -> None:
    """They are measured again both ways and not blamed; good then, three times, they are forgotten."""
    once = matrix(parts, lambda a, b: (a, b) in bad)
    first = decode(once, HALF)
    assert (MatrixAnswer.UNEXPLAINED, ()) == (first.answer, first.suspects)
    assert bad | {(b, a) for a, b in bad} == set(first.confirm)

    second = decode(together(once, matrix(parts, cells=3 * list(first.confirm))), HALF)

    assert (MatrixAnswer.NOBODY, (), ()) == (second.answer, second.suspects, second.confirm)
    assert len(bad) == len(second.bad)


def test_a_link_on_one_rail_and_on_all() -> None:
    """A link is between two ranks, or between two nodes where all of their rails are slow."""
    one = decode(matrix(ranks(6, 4), lambda a, b: {a, b} == {5, 13}), HALF)
    every = decode(matrix(ranks(6, 4), lambda a, b: {a // 4, b // 4} == {1, 3}), HALF)

    assert {(Entity.LINK, "node-1/rank-5<->node-3/rank-13", Direction.BOTH)} == named(one)
    assert {(Entity.LINK, "node-1<->node-3", Direction.BOTH)} == named(every)
    assert 8 == every.suspects[0].tests


def test_inside_nodes_of_two_gpus_the_node_is_named() -> None:
    """Node, rank and link have the same tests there: it is that node, whichever it is of it."""
    decoded = decode(matrix(ranks(6, 2), lambda a, b: a // 2 == 3, span=Span.INSIDE), HALF)

    assert [("node-3",)] == [one.nodes for one in decoded.suspects]
    assert decoded.suspects[0].runner_up is not None


def _leaf(node: int) -> tuple[str, ...]:
    return (f"leaf-{node // 4}", "spine")


def test_a_switch() -> None:
    """What leaves or enters one leaf is slow, what stays under it is not: the switch, and none of its nodes."""
    decoded = decode(matrix(ranks(16, 1, _leaf), lambda a, b: (a // 4 == 2) != (b // 4 == 2)), HALF)

    assert {(Entity.SWITCH, "leaf-2", Direction.BOTH)} == named(decoded)
    assert tuple(f"node-{n}" for n in (8, 9, 10, 11)) == decoded.suspects[0].nodes


def test_distance_is_no_fault() -> None:
    """Pairs across leaves are all slower than pairs under one: each is held against its like."""
    parts = ranks(16, 1, _leaf)
    far = matrix(parts, lambda a, b: a // 4 != b // 4)
    worse = [
        value / 4 if value is not None and 6 in (a, b) else value
        for a, b, value in zip(far.sources, far.targets, far.values, strict=True)
    ]

    assert MatrixAnswer.NOBODY is decode(far, HALF).answer
    assert {(Entity.NODE, "node-6", Direction.BOTH)} == named(decode(replace(far, values=worse), HALF))


def test_two_parts() -> None:
    """Two parts have nobody to be compared with: against a floor, or where nothing came, it is their link."""
    pair = nodes(2)

    assert MatrixAnswer.TOO_FEW is decode(matrix(pair), HALF).answer
    assert MatrixAnswer.NOBODY is decode(matrix(pair), Tolerance(0.5, floor=5.0)).answer
    link = {(Entity.LINK, "node-0<->node-1", Direction.BOTH)}
    assert link == named(decode(matrix(pair, lambda a, b: True), Tolerance(0.5, floor=5.0)))
    assert link == named(decode(matrix(pair, lambda a, b: True, value=lambda _: None), HALF))


@pytest.mark.parametrize("nothing", [None, math.nan, 0.0])
def test_decoder_counts_a_missing_or_zero_value_as_bad(nothing: float | None) -> None:
    """No value is never a good one, and a node all of whose tests gave none has no ratio."""
    decoded = decode(matrix(nodes(6), lambda a, b: 2 in (a, b), value=lambda _: nothing), HALF)

    assert {(Entity.NODE, "node-2", Direction.BOTH)} == named(decoded)
    assert (0.0 if nothing == 0.0 else None) == decoded.suspects[0].ratio


def test_decoder_answers_fabric_for_no_values_and_too_few_for_no_tests() -> None:
    """All tests without a value are the fabric; no test at all is too few, and every part is unseen."""
    silent = decode(matrix(nodes(5), lambda a, b: True, value=lambda _: None), HALF)
    empty = decode(matrix(nodes(5), cells=()), HALF)

    assert (MatrixAnswer.FABRIC, 20) == (silent.answer, len(silent.bad))
    assert (MatrixAnswer.TOO_FEW, (0, 1, 2, 3, 4)) == (empty.answer, empty.unseen)


def test_decoder_lists_an_unmeasured_part_as_unseen() -> None:
    """A part without a test is no suspect, and is not cleared."""
    parts = nodes(6)
    decoded = decode(matrix(parts, cells=[cell for cell in all_pairs(parts) if 4 not in cell]), HALF)

    assert (MatrixAnswer.NOBODY, (4,)) == (decoded.answer, decoded.unseen)


def test_suspect_on_few_tests_has_a_runner_up() -> None:
    """Of three nodes with a bad link, its ends are who else it could be."""
    decoded = decode(matrix(nodes(4), lambda a, b: {a, b} == {1, 2}), HALF)

    runner_up = decoded.suspects[0].runner_up
    assert runner_up is not None
    assert (Entity.NODE, True) == (runner_up.kind, runner_up.subject in ("node-1", "node-2"))
    assert 0 < runner_up.probability < 1 - decoded.suspects[0].probability + 1e-9


def test_decoder_names_neither_end_after_one_round_of_pairs() -> None:
    """Each node met one other: a bad pair is either of the two, and both are to be measured again."""
    cells = [(a, a ^ 1) for a in range(16)]
    decoded = decode(matrix(nodes(16), lambda a, b: 4 in (a, b), cells=cells), HALF)

    assert (MatrixAnswer.UNEXPLAINED, ()) == (decoded.answer, decoded.suspects)
    assert {(4, 5), (5, 4)} == set(decoded.confirm)


def test_a_part_against_itself_is_no_test() -> None:
    """What stands on the diagonal is left out, and cells still point into the matrix that was given."""
    parts = nodes(5)
    cells = [(a, b) for a in range(5) for b in range(5)]
    given = matrix(parts, lambda a, b: a == b or 3 in (a, b), cells=cells)
    decoded = decode(given, HALF)

    assert {(Entity.NODE, "node-3", Direction.BOTH)} == named(decoded)
    assert {cell for cell in cells if 3 in cell and cell != (3, 3)} == {cells[test] for test in decoded.bad}
    assert set(decoded.suspects[0].cells) == set(decoded.bad)


def test_lower_is_better() -> None:
    """A latency above usual / ratio is bad, and the floor is a ceiling."""
    slow = matrix(nodes(6), lambda a, b: 2 in (a, b))
    latency = replace(slow, better=Better.LOWER, values=[100 / value for value in slow.values if value])

    decoded = decode(latency, HALF)
    assert {(Entity.NODE, "node-2", Direction.BOTH)} == named(decoded)
    assert 20 == pytest.approx(decoded.noise.line, rel=0.03)
    assert MatrixAnswer.FABRIC is decode(latency, Tolerance(0.5, floor=5.0)).answer
