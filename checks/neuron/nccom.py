"""What `nccom-test` prints -> Run (pure).

A table of sizes (size(B), count(elems), type, time(us), algbw(GB/s), busbw(GB/s)) and "Avg bus bandwidth". A size that failed
has "Failure running neuron-bench" instead of figures, and the end says "1 errors found - test failed". Its GB/s are 2^30
bytes per second (awsdocs-neuron, nccom-test).

RunError            the text is cut, garbled, or holds no table
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

GIB_IN_GB = (1 << 30) / 1e9
_HEADER = re.compile(
    r"^\s*size\(B\)\s+count\(elems\)\s+type\s+time\S*\(us\)\s+algbw\S*\(GB/s\)\s+busbw\S*\(GB/s\)"
)
_ROW = re.compile(r"^\s*(\d+)\s+(\d+)\s+([a-z]+\d+)\s+(\S+)\s+(\S+)\s+(\S+)\s*$")
_FAILED_ROW = re.compile(r"^\s*(\d+)\s+(\D.*)$")
_AVERAGE = re.compile(r"^\s*Avg bus bandwidth:\s*(\S+?)\s*GB/s\s*$")
_ERRORS = re.compile(r"^\s*(\d+) errors? found\b")
_WRONG = re.compile(r"mismatch|incorrect|wrong|corrupt|(?:check|validation) failed", re.IGNORECASE)


class RunError(Exception):
    """The text gives no answer. The message says where it breaks."""


@dataclass(frozen=True)
class Row:
    """One size: its bus bandwidth in 10^9 bytes per second."""

    size_bytes: int
    time_us: float
    busbw_gbps: float


@dataclass(frozen=True)
class Run:
    """The whole output. `failures` are lines about sizes that failed, `wrong` those that speak of wrong results."""

    rows: tuple[Row, ...]
    failures: tuple[str, ...]
    wrong: tuple[str, ...]


def parse(text: str) -> Run:
    """The run. Raises RunError."""
    lines = text.splitlines()
    start = next((index for index, line in enumerate(lines) if _HEADER.match(line)), None)
    if start is None:
        raise RunError(f"nccom-test printed no table: {' '.join(text.split())[:300] or 'nothing'}")
    rows: list[Row] = []
    failures, wrong = [], [line.strip() for line in lines if _WRONG.search(line)]
    ended = False
    for number, line in enumerate(lines[start + 1 :], start + 2):
        if _AVERAGE.match(line) or _ERRORS.match(line):
            ended = True
            errors = _ERRORS.match(line)
            failures += [line.strip()] if errors and int(errors[1]) else []
        elif row := _ROW.match(line):
            rows.append(_row(row, number))
        elif _FAILED_ROW.match(line):
            failures.append(line.strip())
    if not ended:
        raise RunError("its last line is missing: it was cut, or did not end")
    return Run(tuple(rows), tuple(failures), tuple(wrong))


def _row(found: re.Match[str], number: int) -> Row:
    try:
        time_us, algbw, busbw = (float(found[index]) for index in (4, 5, 6))
    except ValueError as error:
        raise RunError(f"line {number}: {error}") from error
    if not all(math.isfinite(value) and value >= 0 for value in (time_us, algbw, busbw)) or not time_us:
        raise RunError(f"line {number} holds no measurement: {found[0].strip()}")
    # The columns account for each other; where the rounded figure is large enough, they have to.
    size = int(found[1])
    computed = size / (time_us * 1e-6) / (1 << 30)
    if algbw >= 1 and not 0.8 * algbw <= computed <= 1.25 * algbw:
        raise RunError(f"line {number}: {size} bytes in {time_us:g} us are not {algbw:g} GB/s")
    return Row(size, time_us, busbw * GIB_IN_GB)
