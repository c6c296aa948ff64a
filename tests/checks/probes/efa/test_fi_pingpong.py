"""The parser of fi_pingpong's table."""

from __future__ import annotations

import pytest

from checks.check import CheckError
from checks.probes.efa import libfabric as fi_pingpong
from tests.fakes.fabric import TABLE


def test_sizes_and_rates_are_read_with_their_units() -> None:
    """1m is 2^20 bytes, MB/sec are 10^6 bytes, "=10" is ten of ten."""
    (found,) = fi_pingpong.parse(TABLE)

    assert fi_pingpong.SIZES == tuple(row.size_bytes for row in found.results)
    assert fi_pingpong.PingpongSize(1 << 20, 10, 10, 2.66983, 392.75, 7) == found.results[-1]


def test_two_ranks_have_a_table_each() -> None:
    """Their lines come mixed, each behind its rank."""
    pairs = [f"[rank 0] {line}\n[rank 1] {line}" for line in TABLE.splitlines()]

    assert 2 == len(fi_pingpong.parse("\n".join(pairs)))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("2669.83", "9669.83"),
        ("=10      20m", "11       20m"),
        ("24.65 ", "nan   "),
        ("64k     10", "64k     0 "),
        ("256     10", "32      10"),
    ],
)
def test_a_row_that_contradicts_itself_is_refused(old: str, new: str) -> None:
    """A rate that its time denies, more acknowledged than sent, no number, nothing sent, sizes out of order."""
    assert old in TABLE

    with pytest.raises(CheckError):
        fi_pingpong.parse(TABLE.replace(old, new))
