"""Parses what `fi_pingpong` prints: one row per message size (pure).

    bytes   #sent   #ack     total       time     MB/sec    usec/xfer   Mxfers/sec
    1m      10      =10      20m         0.01s   2614.25     401.10       0.00

Sizes are multiples of 1024, MB are 10^6 bytes. "=10" means that as many were acknowledged as were sent. Client and server print
one table each. A line may have a prefix ("[rank 1] "), and each prefix has its own tables.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from checks.check import CheckError

SIZES = (64, 256, 1024, 4096, 65536, 1048576)  # what it runs where no size is asked for
DATAGRAM = SIZES[:4]  # and over its default endpoint: EFA's datagrams end at 4096
_PREFIX = r"^(?P<prefix>\s*(?:\[[^\]]*\]\s*)*)"
HEADER = re.compile(_PREFIX + r"bytes\s+#sent\s+#ack\s+total\s+time\s+MB/sec\s+usec/xfer\s+Mxfers/sec\s*$")
ROW = re.compile(
    _PREFIX
    + r"(?P<size>\d+(?:\.\d)?[kmg]?)\s+(?P<sent>\d+(?:\.\d+)?[kmg]?)\s+(?P<ack>=?\d+(?:\.\d+)?[kmg]?)\s+"
    r"\d+(?:\.\d+)?[kmg]?\s+\d+\.\d\ds\s+(?P<mb>\d+\.\d\d)\s+(?P<usec>\d+\.\d\d)\s+(?P<mx>\d+\.\d\d)\s*$"
)
_NUMBERED = re.compile(_PREFIX + r"\d[\d.]*[kmg]?(?:\s|$)")
_UNIT = {"k": 1, "m": 2, "g": 3}


@dataclass(frozen=True)
class Row:
    """One size. `rate_gbps` is 10^9 bytes/s one way; `usec` is the time of one message one way."""

    size_bytes: int
    sent: int
    acked: int
    rate_gbps: float
    usec: float
    line: int


@dataclass(frozen=True)
class Table:
    """The rows of one side."""

    rows: tuple[Row, ...]

    def missing(self, sizes: tuple[int, ...]) -> tuple[int, ...]:
        """Which of the sizes are not there."""
        have = {row.size_bytes for row in self.rows}
        return tuple(size for size in sizes if size not in have)

    @property
    def acks_missing(self) -> int:
        """Messages that were sent and not acknowledged."""
        return sum(row.sent - row.acked for row in self.rows)

    def row(self, size_bytes: int) -> Row:
        """The row of a size that is there."""
        return next(row for row in self.rows if row.size_bytes == size_bytes)


def parse(text: str, sizes: tuple[int, ...] = SIZES) -> tuple[Table, ...]:
    """Every table, in order. Raises CheckError for one that is cut, garbled or lacks a size, and where there is none."""
    tables = [Table(tuple(rows)) for rows in _tables(text)]
    if not tables:
        raise CheckError("fi_pingpong printed no table")
    for table in tables:
        if table.missing(sizes):
            gone = ", ".join(map(str, table.missing(sizes)))
            raise CheckError(
                f"fi_pingpong's table has no row for {gone} bytes: the output is truncated, or the run "
                "used a datagram endpoint, which stops at 4096 bytes (run it with -e rdm)"
            )
    return tuple(tables)


def _tables(text: str) -> Iterator[list[Row]]:
    open_tables: dict[str, list[Row]] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if header := HEADER.match(line):
            prefix = header["prefix"].strip()
            if prefix in open_tables:
                yield open_tables.pop(prefix)
            open_tables[prefix] = []
            continue
        numbered = _NUMBERED.match(line)
        if numbered is None:
            continue
        rows = open_tables.get(numbered["prefix"].strip())
        if rows is None and ROW.match(line):
            raise CheckError(
                f"line {number} of fi_pingpong's output does not belong to a table: {line.strip()!r:.80}"
            )
        if rows is not None:
            rows.append(_row(line, number, rows))
    yield from open_tables.values()


def _row(line: str, number: int, before: list[Row]) -> Row:
    match = ROW.match(line)
    if match is None:
        raise CheckError(
            f"line {number} of fi_pingpong's output is truncated or garbled: {line.strip()!r:.80}"
        )
    size, sent = _count(match["size"], 1024), _count(match["sent"], 1000)
    acked = _count(match["ack"].lstrip("="), 1000)
    rate, usec, mxfers = float(match["mb"]), float(match["usec"]), float(match["mx"])
    # The last three columns are one measurement in three units, each rounded to two places.
    agree = abs(rate * usec - size) <= 0.006 * (rate + usec) + 1e-3 * size + 1
    if not agree or abs(mxfers * usec - 1) > 0.006 * (mxfers + usec) + 0.01 or acked > sent or sent == 0:
        raise CheckError(f"line {number} of fi_pingpong's output contradicts itself: {line.strip()!r:.80}")
    if before and size <= before[-1].size_bytes:
        raise CheckError(f"line {number} of fi_pingpong's output is out of order: {line.strip()!r:.80}")
    return Row(size, sent, acked, rate / 1000, usec, number)


def _count(text: str, base: int) -> int:
    power = _UNIT.get(text[-1], 0)
    return round(float(text.rstrip("kmg")) * float(base**power))
