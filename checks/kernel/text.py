"""A text of any size, by places, never held as a whole; and those of its lines that hold one of some needles.

Changed             the text became shorter while it was read
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from typing import BinaryIO

BLOCK_BYTES = 1 << 20
# The kernel's own lines have at most CONSOLE_EXT_LOG_MAX = 8192 bytes (linux/printk.h).
LINE_BYTES = 64 << 10
# Longer than any needle: what is kept of a line that goes on in the next block.
OVERLAP_BYTES = 256
_SPECIAL = re.compile(rb"[][\\.^$+(){}|]")


class Changed(Exception):
    """The text became shorter while it was read."""


@dataclass(frozen=True)
class Text:
    """`read(at, count)` gives at most `count` bytes from `at`; `descriptor` is the open file behind it, if there is one."""

    size: int
    read: Callable[[int, int], bytes]
    descriptor: int | None = None


@dataclass(frozen=True)
class Raw:
    """A line without its end: its number from 1 (0: nobody counted), where it begins, its bytes (at most LINE_BYTES;
    `whole` is False where it goes on).
    """

    number: int
    at: int
    data: bytes
    whole: bool = True


def of_bytes(data: bytes) -> Text:
    """A text that is in memory."""
    return Text(len(data), lambda at, count: data[at : at + count])


def of_file(stream: BinaryIO) -> Text:
    """An open regular file, as long as it is now: what is written to it later is not read."""
    descriptor = stream.fileno()
    return Text(os.fstat(descriptor).st_size, lambda at, count: os.pread(descriptor, count, at), descriptor)


def whole_lines(text: Text, begin: int, count: int) -> list[Raw]:
    """The lines that begin in these bytes, without numbers; those that end outside are left out, unless the text does."""
    before = min(begin, 1)
    data = text.read(begin - before, count + before)
    start = data.find(b"\n", 0, -1) + 1 if before else 0
    stop = len(data) if begin - before + len(data) >= text.size else data.rfind(b"\n") + 1
    if before and not start:
        return []
    lines, at = [], begin - before + start
    for line in data[start:stop].removesuffix(b"\n").split(b"\n"):
        lines.append(Raw(0, at, line[:LINE_BYTES], len(line) <= LINE_BYTES))
        at += len(line) + 1
    return lines


def blocks(text: Text) -> Iterator[bytes]:
    """The text in blocks of whole lines; a line that fills a block by itself is cut."""
    at, rest = 0, b""
    while block := text.read(at, min(BLOCK_BYTES, text.size - at)):
        at += len(block)
        data = rest + block
        ready = data.rfind(b"\n") + 1
        ready = len(data) if at >= text.size or not ready else ready
        yield data[:ready]
        rest = data[ready:]


def line_start(text: Text, at: int) -> int:
    """Where the first line begins at or after `at`; the text's end for none."""
    if at <= 0:
        return 0
    place = at - 1
    while block := text.read(place, BLOCK_BYTES):
        found = block.find(b"\n")
        if found >= 0:
            return min(place + found + 1, text.size)
        place += len(block)
    return text.size


def matcher_of(needles: Iterable[bytes]) -> re.Pattern[bytes]:
    """Finds any of them. In a needle "?" stands for any byte and "*" for any bytes, of one line."""
    return re.compile(b"|".join(map(expression_of, needles)))


def expression_of(needle: bytes) -> bytes:
    """The needle as a regular expression that Python and `grep -E` read alike."""
    return _SPECIAL.sub(rb"\\\g<0>", needle).replace(b"?", b".").replace(b"*", b".*")


def lines_with(
    text: Text, needle: re.Pattern[bytes], begin: int = 0, number: int = 1, end: int | None = None
) -> Generator[Raw, None, int]:
    """The lines between two places that hold the needle, in order; line `number` begins at `begin`. Returns the number of
    the line that follows. Raises Changed.
    """
    stop = text.size if end is None else end
    at, base, line_at, told, rest = begin, begin, begin, -1, b""
    while at < stop:
        block = text.read(at, min(BLOCK_BYTES, stop - at))
        if not block:
            raise Changed(f"it ends at byte {at}, it had {text.size} bytes")
        at += len(block)
        data = rest + block
        ready = len(data) if at >= stop else data.rfind(b"\n") + 1
        split = not ready and len(data) > BLOCK_BYTES  # a line without an end in sight
        ready = len(data) if split else ready
        place = counted = 0
        while place < ready and (found := needle.search(data, place, ready)):
            lines = data.count(b"\n", counted, found.start())
            number, counted = number + lines, found.start()
            if lines:
                line_at = base + data.rfind(b"\n", 0, found.start()) + 1
            ends = data.find(b"\n", found.end(), ready)
            place = ready if ends < 0 else ends
            if line_at != told:
                told = line_at
                yield _line(text, number, line_at, base + place, ends >= 0, stop)
        number += data.count(b"\n", counted, ready)
        last = data.rfind(b"\n", 0, ready)
        line_at = base + last + 1 if last >= 0 else line_at
        kept = max(ready - OVERLAP_BYTES, 0) if split else ready
        base, rest = base + kept, data[kept:]
    return number


def _line(text: Text, number: int, begin: int, end: int, ended: bool, stop: int) -> Raw:
    """The line that begins there, and ends at `end` if that was seen."""
    data = text.read(begin, min(end if ended else stop, begin + LINE_BYTES + 1) - begin)
    data = data if ended else data.partition(b"\n")[0]
    return Raw(number, begin, data[:LINE_BYTES], len(data) <= LINE_BYTES)
