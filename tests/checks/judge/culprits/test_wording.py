"""The sentence about a suspect shows numbers that are bad, and no median that looks good."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from checks.culprit.matrix import Better
from checks.judge.culprits.wording import _value


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
    matrix: Any = SimpleNamespace(unit="GB/s", better=better, what="bandwidth")
    result: Any = SimpleNamespace(noise=SimpleNamespace(usual=usual, line=line))
    found: Any = SimpleNamespace(ratio=ratio)

    assert said == _value(matrix, result, found)
