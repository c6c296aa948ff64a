"""Matrices with planted faults: good values lie at 10 GB/s give or take 2 %, bad ones at 3."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from checks.culprit.matrix import Better, Decoded, Direction, Endpoint, Entity, Matrix, MatrixAnswer, Span
from checks.culprit.rounds import round_robin

GOOD, BAD = 10.0, 3.0
COLUMNS = ("sources", "targets", "values")
ROUND_S = 0.07
Cell = tuple[int, int]
IsBad = Callable[[int, int, int], bool]


def nodes(number: int) -> tuple[Endpoint, ...]:
    """Nodes that were measured as a whole."""
    return tuple(Endpoint(f"node-{n}", f"node-{n}") for n in range(number))


def ranks(
    number: int, each: int, switches: Callable[[int], tuple[str, ...]] = lambda _: ()
) -> tuple[Endpoint, ...]:
    """`each` ranks a node: rank r of node n is part n * each + r, on rail r."""
    return tuple(
        Endpoint(f"node-{n}/rank-{n * each + r}", f"node-{n}", r, switches(n))
        for n in range(number)
        for r in range(each)
    )


def all_pairs(parts: Sequence[Endpoint], span: Span = Span.BETWEEN) -> list[Cell]:
    """Both ways between parts of one rail on two nodes, or of two rails on one node."""
    inside = span is Span.INSIDE
    return [
        (a, b)
        for a, one in enumerate(parts)
        for b, other in enumerate(parts)
        if a != b and (one.node == other.node) is inside and (inside or one.rail == other.rail)
    ]


def matrix(
    parts: Sequence[Endpoint],
    is_bad: Callable[[int, int], bool] = lambda a, b: False,
    *,
    span: Span = Span.BETWEEN,
    cells: Iterable[Cell] | None = None,
    seed: int = 7,
    value: Callable[[float], float | None] = lambda bad: bad,
) -> Matrix:
    """All pairs, or `cells`; `value` maps what a bad test would have given."""
    rng = random.Random(seed)
    tests = all_pairs(parts, span) if cells is None else list(cells)
    values = [
        value(BAD * rng.uniform(0.98, 1.02)) if is_bad(a, b) else GOOD * rng.uniform(0.98, 1.02)
        for a, b in tests
    ]
    sources, targets = ([test[end] for test in tests] for end in (0, 1))
    return Matrix("bandwidth", "GB/s", Better.HIGHER, span, tuple(parts), sources, targets, values)


def together(one: Matrix, other: Matrix) -> Matrix:
    """The tests of both, of which the parts are the same."""
    both: dict[str, Any] = {name: [*getattr(one, name), *getattr(other, name)] for name in COLUMNS}
    return replace(one, **both)


def one_sweep(number: int) -> list[tuple[int, int, int]]:
    """Source, target and round of each test of all pairs."""
    return [
        (a, b, at)
        for at, round_ in enumerate(round_robin(number))
        for a in range(number)
        if (b := round_.partner(a)) is not None
    ]


def in_rounds(
    parts: Sequence[Endpoint], tests: Sequence[tuple[int, int, int]], values: Sequence[float]
) -> Matrix:
    """Tests of a source and a target, each in its round."""
    sources, targets, rounds = ([test[column] for test in tests] for column in range(3))
    made = replace(matrix(parts, cells=[(0, 1)]), sources=sources, targets=targets, values=values)
    return replace(made, rounds=rounds, moments=[ROUND_S * at for at in rounds])


def sweep(number: int, is_bad: IsBad, again: int = 0, known: bool = True, leaf: int = 0) -> Matrix:
    """All pairs in their rounds; then every cell that was bad `again` times, thirty rounds later; `is_bad(source, target, round)`."""
    rng, tests = random.Random(5), one_sweep(number)
    wrong = [(a, b) for a, b, at in tests if is_bad(a, b, at)]
    last = max(at for _, _, at in tests)
    tests += [(a, b, last + 30 * (time + 1)) for time in range(again) for a, b in wrong]
    values = [(BAD if is_bad(a, b, at) else GOOD) * rng.uniform(0.98, 1.02) for a, b, at in tests]
    parts = nodes(number)
    if leaf:
        parts = tuple(replace(part, switches=(f"leaf-{at // leaf}",)) for at, part in enumerate(parts))
    made = in_rounds(parts, tests, values)
    return made if known else replace(made, rounds=(), moments=())


def on_rails(stages: int, is_bad: Callable[[int, int, int, random.Random], bool]) -> Matrix:
    """All pairs of eight nodes on eight rails, swept at several times, three seconds apart; a sweep has seven rounds.

    `is_bad(node, node, round, rng)` has the lower node first. One good test in 200 is bad by chance.
    """
    rng = random.Random(11)
    tests = [
        (one * 8 + rail, other * 8 + rail, stage * 7 + at, 3.0 * stage + 0.07 * at)
        for stage in range(stages)
        for one, other, at in one_sweep(8)
        for rail in range(8)
    ]
    values = []
    for a, b, at, _ in tests:
        low, high = sorted((a // 8, b // 8))
        bad = is_bad(low, high, at, rng) or rng.random() < 0.005
        values.append((BAD if bad else GOOD) * rng.uniform(0.98, 1.02))
    made = matrix(ranks(8, 8), cells=[(a, b) for a, b, _, _ in tests])
    return replace(
        made, values=values, rounds=[test[2] for test in tests], moments=[test[3] for test in tests]
    )


def named(decoded: Decoded) -> set[tuple[Entity, str, Direction]]:
    """Whom the decoder names, each with its way."""
    assert (decoded.answer is MatrixAnswer.BLAMED) == bool(decoded.suspects)
    return {(one.kind, one.subject, one.way) for one in decoded.suspects}
