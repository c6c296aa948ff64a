"""Searches the lines of a large file that contain one of some needles, with `grep`, which is faster than Python: one part of the
file per core.

grep gets the needles, and reads a part of the file followed by one line per needle. Only what these lines prove counts: that each of
them came back, and at which position, shows that grep knows the needles and read the part to its end. If it does not, is not
installed, or is too slow, Python's own search continues after the last line that grep returned.

A text can have any size: it is read by positions and never held as a whole. If it becomes shorter while it is read,
TextBecameShorter is raised.
"""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import os
import re
import resource
import subprocess
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import BinaryIO

from checks.process import tool
from checks.process.isolate import piped

BLOCK_BYTES = 1 << 20
# The kernel's own lines have at most CONSOLE_EXT_LOG_MAX = 8192 bytes (linux/printk.h).
LINE_BYTES = 64 << 10
# Longer than any needle: how much is kept of a line that continues in the next block.
OVERLAP_BYTES = 256
_SPECIAL = re.compile(rb"[][\\.^$+(){}|]")


class TextBecameShorter(Exception):
    """The text became shorter while it was read."""


@dataclass(frozen=True)
class Text:
    """`read(at, count)` returns at most `count` bytes from `at`; `descriptor` is the open file behind it, if there is one."""

    size: int
    read: Callable[[int, int], bytes]
    descriptor: int | None = None


@dataclass(frozen=True)
class RawLine:
    """A line without its end: its number from 1 (0: not counted), its position, and its bytes (at most LINE_BYTES; `whole` is False
    if it is longer).
    """

    number: int
    at: int
    data: bytes
    whole: bool = True


def of_bytes(data: bytes) -> Text:
    """A text in memory."""
    return Text(len(data), lambda at, count: data[at : at + count])


def of_file(stream: BinaryIO) -> Text:
    """An open regular file with its present size: what is written to it later is not read."""
    descriptor = stream.fileno()
    return Text(os.fstat(descriptor).st_size, lambda at, count: os.pread(descriptor, count, at), descriptor)


def whole_lines(text: Text, begin: int, count: int) -> list[RawLine]:
    """The lines that begin in these bytes, without numbers. Lines that end outside are left out, unless the text ends there."""
    before = min(begin, 1)
    data = text.read(begin - before, count + before)
    start = data.find(b"\n", 0, -1) + 1 if before else 0
    stop = len(data) if begin - before + len(data) >= text.size else data.rfind(b"\n") + 1
    if before and not start:
        return []
    lines, at = [], begin - before + start
    for line in data[start:stop].removesuffix(b"\n").split(b"\n"):
        lines.append(RawLine(0, at, line[:LINE_BYTES], len(line) <= LINE_BYTES))
        at += len(line) + 1
    return lines


def blocks(text: Text) -> Iterator[bytes]:
    """The text in blocks of whole lines. A line that fills a block by itself is cut."""
    at, rest = 0, b""
    while block := text.read(at, min(BLOCK_BYTES, text.size - at)):
        at += len(block)
        data = rest + block
        ready = data.rfind(b"\n") + 1
        ready = len(data) if at >= text.size or not ready else ready
        yield data[:ready]
        rest = data[ready:]


def lines_without(text: Text, form: bytes) -> Iterator[tuple[int, bytes]]:
    """The lines that do not begin with the form, with their numbers."""
    search = re.compile(rb"\n(?!" + form + rb")", re.MULTILINE)
    number = 1
    for block in blocks(text):
        data, counted = b"\n" + block.removesuffix(b"\n"), 1
        for found in search.finditer(data):
            number += data.count(b"\n", counted, found.end())
            counted = found.end()
            yield number, data[found.end() : found.end() + LINE_BYTES].partition(b"\n")[0]
        number += data.count(b"\n", counted) + 1


def line_start(text: Text, at: int) -> int:
    """The position of the first line that begins at or after `at`; the text's end if there is none."""
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
    """Finds any of the needles. In a needle "?" stands for any byte and "*" for any bytes, within one line."""
    return re.compile(b"|".join(map(expression_of, needles)))


def expression_of(needle: bytes) -> bytes:
    """The needle as a regular expression that means the same for Python and for `grep -E`."""
    return _SPECIAL.sub(rb"\\\g<0>", needle).replace(b"?", b".").replace(b"*", b".*")


def lines_with(
    text: Text, needle: re.Pattern[bytes], begin: int = 0, number: int = 1, end: int | None = None
) -> Generator[RawLine, None, int]:
    """The lines between two positions that contain a needle, in order; line `number` begins at `begin`. Returns the number of the
    following line. Raises TextBecameShorter.
    """
    stop = text.size if end is None else end
    at, base, line_at, told, rest = begin, begin, begin, -1, b""
    while at < stop:
        block = text.read(at, min(BLOCK_BYTES, stop - at))
        if not block:
            raise TextBecameShorter(f"the file ends at byte {at}, but it had {text.size} bytes before")
        at += len(block)
        data = rest + block
        ready = len(data) if at >= stop else data.rfind(b"\n") + 1
        split = not ready and len(data) > BLOCK_BYTES  # a line that does not end in this block
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


def _line(text: Text, number: int, begin: int, end: int, ended: bool, stop: int) -> RawLine:
    """The line that begins there, and ends at `end` if that is known."""
    data = text.read(begin, min(end if ended else stop, begin + LINE_BYTES + 1) - begin)
    data = data if ended else data.partition(b"\n")[0]
    return RawLine(number, begin, data[:LINE_BYTES], len(data) <= LINE_BYTES)


# For smaller texts starting grep takes longer than the search in Python.
LEAST_BYTES = 8 << 20
MOST_PIECES = 4
# The memory limit of grep: a line that it cannot hold ends grep, and does not use up the machine's memory. The search in Python
# holds no line.
MEMORY_BYTES = 256 << 20
PIPE_BYTES = 1 << 20
# What grep writes before a line: two numbers.
HEAD_BYTES = 64
# Slower than any disk that holds a log: below this speed grep hangs.
BYTES_PER_S = 10e6
START_S = 30.0
_F_SETPIPE_SZ = 1031  # linux/fcntl.h
_OUT = re.compile(rb"(\d{1,19}):(\d{1,19}):")


@dataclass
class _Piece:
    """A part of the text, and the grep that reads it, if one could be started. `ends`: it ends with the end of a line."""

    begin: int
    end: int
    ends: bool = True
    child: subprocess.Popen[bytes] | None = None
    pump: threading.Thread | None = None


@contextlib.contextmanager
def searching(text: Text, needles: Sequence[bytes], program: str = "grep") -> Iterator[Iterator[RawLine]]:
    """Starts the search. Its lines come in order, each once. They raise TextBecameShorter if the text becomes shorter."""
    pieces = [_Piece(begin, end) for begin, end in _places(text)]
    for piece in pieces:
        with contextlib.suppress(OSError, tool.ToolMissing, subprocess.SubprocessError):
            _start(piece, text, needles, tool.find(program))
    late = threading.Timer(START_S + text.size / BYTES_PER_S, _end, (pieces,))
    late.daemon = True
    late.start()
    try:
        yield _lines(text, pieces, needles)
    finally:
        late.cancel()
        _end(pieces)
        for piece in pieces:
            _close(piece)


def _places(text: Text) -> list[tuple[int, int]]:
    """The parts, of whole lines, one for each core."""
    if text.descriptor is None or text.size < LEAST_BYTES:
        return [(0, text.size)]
    count = min(len(os.sched_getaffinity(0)), MOST_PIECES) if hasattr(os, "sched_getaffinity") else 1
    edges = [line_start(text, text.size * index // count) for index in range(count)] + [text.size]
    return [(begin, end) for begin, end in itertools.pairwise(edges) if end > begin]


def _start(piece: _Piece, text: Text, needles: Sequence[bytes], path: str) -> None:
    if text.descriptor is None or text.size < LEAST_BYTES:
        return
    known, patterns = os.pipe()
    with open(patterns, "wb") as stream:
        stream.write(b"".join(_pattern(needle) + b"\n" for needle in needles))
    read, write = os.pipe()
    try:
        with contextlib.suppress(OSError):  # larger than an ordinary user may set: then it is slower
            fcntl.fcntl(write, _F_SETPIPE_SZ, PIPE_BYTES)
        # Without -a a zero byte ends the search. -E searches for all needles at once, while -F searches one after another.
        piece.child = subprocess.Popen(
            (path, "-a", "-n", "-b", "-E", "-f", f"/dev/fd/{known}"),
            stdin=read,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={"LC_ALL": "C"},
            pass_fds=(known,),
        )
        if hasattr(resource, "prlimit"):
            resource.prlimit(piece.child.pid, resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    except BaseException:
        os.close(write)
        raise
    finally:
        os.close(read)
        os.close(known)
    piece.ends = text.read(piece.end - 1, 1) == b"\n"
    proof = (b"" if piece.ends else b"\n") + b"".join(needle + b"\n" for needle in needles)
    piece.pump = threading.Thread(target=_pump, args=(text.descriptor, piece, write, proof), daemon=True)
    piece.pump.start()


def _pattern(needle: bytes) -> bytes:
    """The needle for grep. A character class in it keeps grep from searching as with -F."""
    plain = expression_of(needle)
    return b"[" + plain[:1] + b"]" + plain[1:] if plain[:1].isalnum() else plain


def _pump(descriptor: int, piece: _Piece, write: int, proof: bytes) -> None:
    """Sends the part, without a copy, and its proof to grep's input. If this ends early, the proof is missing."""
    at = piece.begin
    with contextlib.suppress(OSError), open(write, "wb", buffering=0) as stream:
        while at < piece.end:
            sent = os.sendfile(write, descriptor, at, min(piece.end - at, PIPE_BYTES))
            if not sent:
                return
            at += sent
        while proof:
            proof = proof[stream.write(proof) :]


def _lines(text: Text, pieces: Sequence[_Piece], needles: Sequence[bytes]) -> Iterator[RawLine]:
    needle, number = matcher_of(needles), 1
    for piece in pieces:
        begin, following, proof = piece.begin, number, list[RawLine]()
        for told in _told(piece):
            if told.at >= piece.end - piece.begin:
                proof.append(told)
                continue
            line = replace(told, number=number + told.number - 1, at=piece.begin + told.at)
            begin, following = line.at + 1, line.number + 1
            yield line
        if [line.data for line in proof] == list(needles) and _is_behind(proof[0], piece):
            number += proof[0].number - 1
        else:
            begin = line_start(text, begin) if begin > piece.begin else begin
            number = yield from lines_with(text, needle, begin, following, piece.end)


def _is_behind(proof: RawLine, piece: _Piece) -> bool:
    """Whether the proof is at the end of the part, so that grep has read all of it."""
    return proof.at - (piece.end - piece.begin) == (0 if piece.ends else 1)


def _told(piece: _Piece) -> Iterator[RawLine]:
    """The lines that grep returned, as far as they are complete. Numbers and positions count within the part."""
    if piece.child is None:
        return
    stream = piped(piece.child)
    while said := stream.readline(LINE_BYTES + HEAD_BYTES):
        found, more = _OUT.match(said), said
        while more and not more.endswith(b"\n"):
            more = stream.readline(LINE_BYTES)
        if found is None or not more:
            return
        data = said[found.end() :].rstrip(b"\n")
        yield RawLine(
            int(found[1]), int(found[2]), data[:LINE_BYTES], more is said and len(data) <= LINE_BYTES
        )


def _end(pieces: Sequence[_Piece]) -> None:
    for piece in pieces:
        if piece.child is not None:
            piece.child.kill()


def _close(piece: _Piece) -> None:
    if piece.child is not None:
        piped(piece.child).close()
        piece.child.wait()
    if piece.pump is not None:
        piece.pump.join()
