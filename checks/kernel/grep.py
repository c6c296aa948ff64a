"""The lines of a large file that hold one of some needles, by `grep`, which is faster than we are; a piece each core.

grep is told the needles, and reads a piece and after it one line a needle. Only what these lines prove counts: that
each of them came back, and from where the piece ends, shows that grep knows the needles and read the piece to its end.
Where it does not, is not installed, or is too slow, our own search goes on behind the last line that it gave.
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
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from checks import tool
from checks.isolate import piped
from checks.kernel.text import LINE_BYTES, Raw, Text, expression_of, line_start, lines_with, matcher_of

# Below this grep takes longer to start than we take to search.
LEAST_BYTES = 8 << 20
MOST_PIECES = 4
# A line that grep cannot hold ends it, and not this machine; our own search holds no line.
MEMORY_BYTES = 256 << 20
PIPE_BYTES = 1 << 20
# What grep writes before a line: two numbers.
HEAD_BYTES = 64
# Slower than any disk that a log lies on: then grep hangs.
BYTES_PER_S = 10e6
START_S = 30.0
_F_SETPIPE_SZ = 1031  # linux/fcntl.h
_OUT = re.compile(rb"(\d{1,19}):(\d{1,19}):")


@dataclass
class _Piece:
    """A part of the text, and the grep that reads it, if one could be started. `ends`: with the end of a line."""

    begin: int
    end: int
    ends: bool = True
    child: subprocess.Popen[bytes] | None = None
    pump: threading.Thread | None = None


@contextlib.contextmanager
def searching(text: Text, needles: Sequence[bytes], program: str = "grep") -> Iterator[Iterator[Raw]]:
    """Starts the search; its lines come in order, each once. They raise Changed if the text becomes shorter."""
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
    """Pieces of whole lines, one a core."""
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
        with contextlib.suppress(OSError):  # larger than an ordinary user may have: then it is slower
            fcntl.fcntl(write, _F_SETPIPE_SZ, PIPE_BYTES)
        # Without -a a zero byte ends the search; -E builds one automaton, where -F looks from needle to needle.
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
    """The needle for grep. A class in it keeps grep from searching as by -F."""
    plain = expression_of(needle)
    return b"[" + plain[:1] + b"]" + plain[1:] if plain[:1].isalnum() else plain


def _pump(descriptor: int, piece: _Piece, write: int, proof: bytes) -> None:
    """The piece, without a copy, and its proof into grep's input. Whatever ends this early, the proof is missing."""
    at = piece.begin
    with contextlib.suppress(OSError), open(write, "wb", buffering=0) as stream:
        while at < piece.end:
            sent = os.sendfile(write, descriptor, at, min(piece.end - at, PIPE_BYTES))
            if not sent:
                return
            at += sent
        while proof:
            proof = proof[stream.write(proof) :]


def _lines(text: Text, pieces: Sequence[_Piece], needles: Sequence[bytes]) -> Iterator[Raw]:
    needle, number = matcher_of(needles), 1
    for piece in pieces:
        begin, following, proof = piece.begin, number, list[Raw]()
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


def _is_behind(proof: Raw, piece: _Piece) -> bool:
    """Whether the proof stands where the piece ends: grep has read all of it."""
    return proof.at - (piece.end - piece.begin) == (0 if piece.ends else 1)


def _told(piece: _Piece) -> Iterator[Raw]:
    """The lines that grep gives, as far as they are whole; numbers and places count within the piece."""
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
        yield Raw(int(found[1]), int(found[2]), data[:LINE_BYTES], more is said and len(data) <= LINE_BYTES)


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
