"""The sentence about a suspect shows numbers that are bad, and no median that looks good."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from checks.culprit.decode import decode
from checks.culprit.matrix import Better, Endpoint, Matrix, MatrixAnswer, PairNoise, Span, Tolerance
from checks.judge.culprits.from_report import MatrixSubject
from checks.judge.culprits.pattern_findings import MatrixReading, unexplained_level
from checks.judge.culprits.wording import MOST_VALUES, _value, cells, unexplained
from checks.model import Level
from tests.checks.culprit import planted

NOISE = PairNoise(sensitivity=0.9, hiccup=0.01, usual=0.9, spread=0.1, line=0.3)


@pytest.mark.parametrize(
    ("better", "ratio", "usual", "line", "said"),
    [
        (Better.HIGHER, 0.05, 1.0, 0.1, "median 0.05 GB/s, usual 1 GB/s, threshold 0.1 GB/s; "),
        (Better.HIGHER, 0.87, 0.0648, 0.02, "bad is below 0.02 GB/s; "),
        (Better.HIGHER, None, 1.0, 0.1, "no value, usual 1 GB/s, threshold 0.1 GB/s; "),
        (Better.LOWER, 20.0, 100.0, 500.0, "median 2,000 GB/s, threshold 500 GB/s; "),
        (Better.LOWER, 2.0, 100.0, 500.0, "bad is above 500 GB/s; "),
    ],
)
def test_a_median_is_shown_if_it_is_bad(
    better: Better, ratio: float | None, usual: float, line: float, said: str
) -> None:
    """Of a part with some bad tests the median may be good: then it would contradict the sentence."""
    matrix: Any = SimpleNamespace(unit="GB/s", better=better, metric="bandwidth")
    result: Any = SimpleNamespace(noise=SimpleNamespace(usual=usual, line=line))
    found: Any = SimpleNamespace(ratio=ratio)

    assert said == _value(matrix, result, found)


def test_the_evidence_has_one_line_for_each_direction_of_a_pair() -> None:
    """With every value that it was measured at, and not the same line again and again with another one."""
    parts = [SimpleNamespace(name=name) for name in ("node-0/rank-0", "node-1/rank-2")]
    values = [0.000542, 0.000611, None, 0.000542, 0.25, *(0.001 * n for n in range(1, 7))]
    sources = [1, 1, 1, 1, 0, *([1] * 6)]
    matrix: Any = SimpleNamespace(
        endpoints=parts, unit="GB/s", better=Better.HIGHER, values=values, sources=sources,
        targets=[1 - source for source in sources], sizes=(),
    )  # fmt: skip
    tests: Any = SimpleNamespace(mine=(), peers=(), outcomes=(), failures=())

    said = cells(matrix, [0, 1, 2, 3, 4], tests, NOISE).splitlines()
    many = cells(matrix, range(len(values)), tests, NOISE).splitlines()

    assert [
        "bad is below 0.3 GB/s, usual is 0.9 GB/s",
        "node-1/rank-2 -> node-0/rank-0: 0.000542 GB/s, 0.000611 GB/s, no value (in 4 bad tests)",
        "node-0/rank-0 -> node-1/rank-2: 0.25 GB/s",
    ] == said
    assert f" and {10 - MOST_VALUES} more (in 10 bad tests)" in many[1] and len(many) == 3


@pytest.mark.parametrize(
    ("tests", "bad", "said"),
    [
        ([(0.2, 1 << 20), (None, 1 << 16)], True, "0.2 GB/s, no value (in 2 bad tests, with messages of 1 MiB)"),
        ([(0.2, 1 << 20), (0.1, 1 << 16)], True, "0.2 GB/s, 0.1 GB/s (in 2 bad tests, with messages of 64 KiB to 1 MiB)"),
        ([(0.2, 1 << 20), (0.1, None)], False, "0.2 GB/s, 0.1 GB/s (in 2 tests, with messages of 1 MiB)"),
        ([(0.2, 1000)], True, "0.2 GB/s with messages of 1,000 B"),
        ([(0.2, None)], True, "0.2 GB/s"),
    ],
)  # fmt: skip
def test_a_rate_is_told_with_the_message_that_gave_it(
    tests: list[tuple[float | None, int | None]], bad: bool, said: str
) -> None:
    """A small message is slow on a good link. A test without a value has no message, and rows of earlier releases have none."""
    values, sizes = zip(*tests, strict=True)
    count = len(tests)
    matrix = Matrix(
        "bandwidth", "GB/s", Better.HIGHER, Span.BETWEEN, (Endpoint("a", "a"), Endpoint("b", "b")), [0] * count, [1] * count, values,
        sizes=sizes,
    )  # fmt: skip
    without: Any = SimpleNamespace(mine=(), peers=(), outcomes=(), failures=())

    scale, line = cells(matrix, range(count), without, NOISE, bad).splitlines()

    assert line == f"a -> b: {said}"
    assert scale == ("bad is below 0.3 GB/s, usual is 0.9 GB/s" if bad else "usual is 0.9 GB/s")


ONCE_BAD: dict[str, tuple[object, ...]] = {
    "good again": (
        (),
        Level.WARN,
        "3 of 30 tests were bad, and the same pairs were good in another test; no single part explains them",
    ),
    "never good": (
        ((2, 3),),
        Level.FAIL,
        "3 of 27 tests are bad, and 1 of them is of a pair that was never good; no single",
    ),
}


@pytest.mark.parametrize(("once", "level", "said"), ONCE_BAD.values(), ids=ONCE_BAD)
def test_pairs_that_were_good_again_are_told_from_those_that_never_were(
    once: tuple[tuple[int, int], ...], level: Level, said: str
) -> None:
    """The first are a warning, whatever else ran on the nodes; the others are missing evidence, whatever the decoder makes of them."""
    bad = {(0, 1), (2, 3), (3, 1)}
    first = planted.matrix(planted.nodes(4), lambda a, b: (a, b) in bad)
    again = [(a, b) for a, b in first.ends if {(a, b), (b, a)} & bad and (a, b) not in once]
    matrix = planted.together(first, planted.matrix(first.endpoints, cells=3 * again))
    tests = [test for test, cell in enumerate(first.ends) if cell in bad]
    decoded = replace(decode(matrix, Tolerance(0.5)), answer=MatrixAnswer.UNEXPLAINED)

    assert f"bandwidth between nodes: {said}" in unexplained(matrix, decoded, tests)
    reading = MatrixReading("collective.pairs", MatrixSubject.BANDWIDTH, matrix, decoded)
    assert level is unexplained_level(reading, 1.0, tests)
