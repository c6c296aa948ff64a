"""What holds of the decoder whatever was measured: names, order, unit and sense of the values do not matter."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from checks.culprit.decode import decode
from checks.culprit.matrix import Better, Decoded, Entity, Matrix, MatrixAnswer, Suspect, Tolerance
from tests.checks.culprit.planted import BAD, COLUMNS, GOOD, all_pairs, matrix, nodes, ranks

HALF = Tolerance(0.5)
FEW = settings(max_examples=30)


@st.composite
def planted(draw: st.DrawFn, clear: bool = False) -> Matrix:
    """A small cluster, now and then of several ranks, with a bad node, link or rank, some hiccups and some silence."""
    number, each = draw(st.sampled_from([(2, 1), (3, 1), (5, 1), (8, 1), (12, 1), (4, 2), (5, 3)]))
    parts = nodes(number) if each == 1 else ranks(number, each)
    rng = random.Random(draw(st.integers(0, 2**32)))
    bad = set(rng.sample(range(len(parts)), draw(st.integers(0, min(2, len(parts))))))
    link = set(rng.sample(range(len(parts)), 2)) if draw(st.booleans()) else set()
    sensitivity = draw(st.sampled_from([0.9, 1.0] if clear else [0.5, 0.9, 1.0]))
    hiccup = draw(st.sampled_from([0.0, 0.02] if clear else [0.0, 0.02, 0.2]))
    cells = all_pairs(parts)
    kept = [cell for cell in cells if rng.random() > 0.1] if draw(st.booleans()) else cells
    values: list[float | None] = []
    for a, b in kept:
        spoiled = rng.random() < (sensitivity if {a, b} & bad or {a, b} == link else hiccup)
        value = (BAD if spoiled else GOOD) * rng.uniform(0.97, 1.03)
        values.append(None if spoiled and rng.random() < 0.3 else value)
    return replace(matrix(parts, cells=kept), values=values)


def said(decoded: Decoded) -> tuple[MatrixAnswer, set[tuple[Entity, frozenset[str], int, int]]]:
    """The answer, and whom it names: links by their ends, in whatever order."""
    return decoded.answer, {_said(one) for one in decoded.suspects}


def _said(one: Suspect) -> tuple[Entity, frozenset[str], int, int]:
    return one.kind, frozenset(one.subject.split("<->")), one.bad, one.tests


@FEW
@given(planted(), st.floats(1e-3, 1e3))
def test_the_unit_does_not_matter(matrix: Matrix, scale: float) -> None:
    """All values times a number: the same suspects."""
    scaled = replace(matrix, values=[None if value is None else value * scale for value in matrix.values])

    assert said(decode(matrix, HALF)) == said(decode(scaled, HALF))


@FEW
@given(planted())
def test_seconds_a_byte_say_what_bytes_a_second_say(matrix: Matrix) -> None:
    """1 / x, lower is better: the same suspects."""
    slowness = replace(
        matrix, better=Better.LOWER, values=[None if value is None else 1 / value for value in matrix.values]
    )

    assert said(decode(matrix, HALF)) == said(decode(slowness, HALF))


@FEW
@given(planted(), st.randoms(use_true_random=False))
def test_the_order_of_tests_does_not_matter(matrix: Matrix, rng: random.Random) -> None:
    """Tests in another order: the same suspects, and the same cells to confirm."""
    order = list(range(len(matrix.values)))
    rng.shuffle(order)
    columns: dict[str, Any] = {name: [getattr(matrix, name)[test] for test in order] for name in COLUMNS}
    mixed = replace(matrix, **columns)
    one, other = decode(matrix, HALF), decode(mixed, HALF)

    assert said(one) == said(other)
    assert set(one.confirm) == set(other.confirm)
    assert set(one.bad) == {order[test] for test in other.bad}


def test_the_order_does_not_matter_for_a_link_that_was_good_at_times() -> None:
    """Of a link of two rails that is measured again, the same rail and the same good pairs are, whichever were tested first."""
    made = matrix(ranks(4, 2), lambda a, b: 1 in (a, b) or (a, b) in ((2, 6), (6, 2), (3, 7)))
    turned = replace(made, **{name: getattr(made, name)[::-1] for name in COLUMNS})

    assert set(decode(made, HALF).confirm) == set(decode(turned, HALF).confirm)


@FEW
@given(planted(clear=True), st.randoms(use_true_random=False))
def test_the_numbers_of_parts_do_not_matter(matrix: Matrix, rng: random.Random) -> None:
    """The same parts under other indices: the same answer, and the same suspects where it names any.

    (Of explanations that are equally likely one is taken; so this holds where faults are clear.)
    """
    order = list(range(len(matrix.endpoints)))
    rng.shuffle(order)
    other = replace(
        matrix,
        endpoints=tuple(matrix.endpoints[order.index(to)] for to in range(len(order))),
        sources=[order[part] for part in matrix.sources],
        targets=[order[part] for part in matrix.targets],
    )

    one, same = decode(matrix, HALF), decode(other, HALF)
    assert one.answer is same.answer
    if one.answer is MatrixAnswer.BLAMED:
        assert said(one) == said(same)


@FEW
@given(planted(), st.sampled_from([HALF, Tolerance(0.5, floor=5.0), Tolerance(0.9, 20.0, 0.5)]))
def test_decoder_blames_no_part_without_evidence(matrix: Matrix, tolerance: Tolerance) -> None:
    """Suspects have bad tests, all of them their own; probabilities are such; what is bad leads to no clean answer."""
    decoded = decode(matrix, tolerance)

    for one in decoded.suspects:
        assert 0 < one.bad <= one.tests
        assert 0.5 <= one.probability <= 1
        assert set(one.cells) <= set(decoded.bad)
        assert 0 < len(one.cells) == min(16, one.bad)
        assert all(set(one.nodes) & _nodes(matrix, test) for test in one.cells)
        assert one.runner_up is None or 0 <= one.runner_up.probability <= 0.5
    if decoded.answer is MatrixAnswer.NOBODY:
        assert not decoded.bad
    if decoded.answer is MatrixAnswer.BLAMED:
        blamed = {
            node for one in decoded.suspects if one.kind in (Entity.NODE, Entity.RANK) for node in one.nodes
        }
        number = len({part.node for part in matrix.endpoints})
        assert len(blamed) <= max(1.0, tolerance.max_unfit_fraction * number)
    cells = set(zip(matrix.sources, matrix.targets, strict=True))
    assert all((a, b) in cells or (b, a) in cells for a, b in decoded.confirm)


def _nodes(matrix: Matrix, test: int) -> set[str]:
    return {matrix.endpoints[matrix.sources[test]].node, matrix.endpoints[matrix.targets[test]].node}
