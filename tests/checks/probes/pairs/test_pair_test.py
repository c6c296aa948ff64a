"""The sizes of a duel's messages: both ranks must make the same of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from checks.probes.pairs.pair_test import Sizes, whole

SIZES = Sizes(pings=2, least_bytes=4, most_bytes=4, seconds=0.01, repeats=1)


def test_the_smallest_sizes_are_right() -> None:
    """One element, one message, one round trip from each side."""
    assert SIZES.wrong() == ""


@pytest.mark.parametrize(
    "change", [{"least_bytes": 8}, {"least_bytes": 0}, {"pings": 1}, {"repeats": 0}, {"seconds": 0.0}]
)
def test_sizes_that_would_make_ranks_wait_for_each_other_are_refused(change: dict[str, Any]) -> None:
    """With more to send than there is room for, each would call the other silent."""
    assert replace(SIZES, **change).wrong()


def test_a_size_fills_its_last_element() -> None:
    """The receiver knows elements, the sender bytes: the pattern depends on either."""
    assert [whole(size) for size in (3, 4, 1_000_003, 2.5e3)] == [0, 4, 1_000_000, 2500]
