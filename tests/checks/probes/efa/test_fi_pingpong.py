"""The parser of fi_pingpong's table."""

from __future__ import annotations

from pathlib import Path

import pytest

from checks.check import CheckError
from checks.probes.efa import fi_pingpong
from tests.fakes.fabric import TABLE

RECORDINGS = Path(__file__).parents[3] / "recordings" / "efa"


def test_sizes_and_rates_are_read_with_their_units() -> None:
    """1m is 2^20 bytes, MB/sec are 10^6 bytes, "=10" is ten of ten."""
    (found,) = fi_pingpong.parse(TABLE)

    assert fi_pingpong.SIZES == tuple(row.size_bytes for row in found.rows)
    assert (2.66983, 392.75, 10, 10) == (
        found.rows[-1].rate_gbps,
        found.rows[-1].usec,
        found.rows[-1].sent,
        found.rows[-1].acked,
    )


def test_missing_acknowledgements_are_counted() -> None:
    """A bare number stands where they differ."""
    (found,) = fi_pingpong.parse((RECORDINGS / "fi_pingpong_acks_missing.txt").read_text())

    assert 3 == found.acks_missing


def test_two_ranks_have_a_table_each() -> None:
    """Their lines come mixed, each behind its rank."""
    pairs = [f"[rank 0] {line}\n[rank 1] {line}" for line in TABLE.splitlines()]

    assert 2 == len(fi_pingpong.parse("\n".join(pairs)))


def test_the_table_of_a_datagram_endpoint_is_short() -> None:
    """It stops at 4096 bytes or before, and the error says why."""
    with pytest.raises(CheckError, match="datagram"):
        fi_pingpong.parse((RECORDINGS / "fi_pingpong_datagram.txt").read_text())


@pytest.mark.parametrize("line", range(7))
def test_a_line_that_was_lost_is_noticed(line: int) -> None:
    """The header, and each of the sizes."""
    lines = TABLE.splitlines(keepends=True)

    with pytest.raises(CheckError):
        fi_pingpong.parse("".join(lines[:line] + lines[line + 1 :]))


@pytest.mark.parametrize("end", range(1, len(TABLE) - 1, 7))
def test_a_cut_is_noticed_wherever_it_falls(end: int) -> None:
    """In a line and between two."""
    with pytest.raises(CheckError):
        fi_pingpong.parse(TABLE[:end])


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


def test_text_without_a_table_is_refused() -> None:
    """An error message is no table."""
    with pytest.raises(CheckError):
        fi_pingpong.parse("[error] util/pingpong.c:408 : failed to connect: Connection refused\n")
