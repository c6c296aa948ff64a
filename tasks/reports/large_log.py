"""A kernel log that is too large for memory, named on a command line: it is searched in its file."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from checks.explain.log_formats import is_of_records
from checks.explain.reading import Broken, Kind, Reading
from checks.explain.registry import AS_LINES, Ambiguous, Unrecognised, claimed_by, claims, only_kind

# What is recognised by its beginning; a report says what it is in its first lines.
HEAD_BYTES = 64 << 10
# How files begin that hold a log, and are none (file(1) knows them by the same bytes).
PACKED = {
    b"\x1f\x8b": "compressed: gunzip it",
    b"\x28\xb5\x2f\xfd": "compressed: unzstd it",
    b"\xfd7zXZ\0": "compressed: unxz it",
    b"BZh": "compressed: bunzip2 it",
    b"PK\x03\x04": "an archive: unzip it",
    b"LPKSHHRH": "a journal: print it with journalctl --file, -k and -o short-iso",
}


@dataclass(frozen=True)
class LargeLog:
    """An open file, and how it begins."""

    stream: BinaryIO
    size: int
    head: bytes


@contextlib.contextmanager
def open_large_log(file: str, above: int) -> Iterator[LargeLog | None]:
    """The file, if it is a regular one of more than `above` bytes; what else it may be is for others to say."""
    try:
        regular = file != "-" and stat.S_ISREG(os.stat(file).st_mode)
    except (OSError, ValueError):
        regular = False
    if not regular or os.path.getsize(file) <= above:
        yield None
        return
    with contextlib.ExitStack() as opened:
        try:
            stream = opened.enter_context(Path(file).open("rb"))
        except OSError:
            yield None
            return
        size = os.fstat(stream.fileno()).st_size
        yield LargeLog(stream, size, os.pread(stream.fileno(), HEAD_BYTES, 0))


@contextlib.contextmanager
def search_large_log(found: LargeLog) -> Iterator[Callable[[], tuple[Reading, bytes]]]:
    """Starts the search, which takes longer than all else. What it gives, called once, reads the log: what the log tells,
    and what the verdict's digest is made from. Raises NotRecognised, Broken.
    """
    from checks.probes.kernel import explain
    from checks.probes.kernel.log_search import TextBecameShorter, of_file, searching

    text = of_file(found.stream)
    with searching(text, explain.NEEDLES) as lines:

        def reading() -> tuple[Reading, bytes]:
            try:
                return explain.read_large(text, lines)
            except (TextBecameShorter, OSError) as error:
                raise Broken(f"it changed while it was read, or cannot be read: {error}") from error

        yield reading


def require_unpacked(head: bytes) -> None:
    """Raise Broken for what begins as a compressed file or a journal does."""
    for begins, said in PACKED.items():
        if head.startswith(begins):
            raise Broken(f"it is {said}, and explain what comes out", "")


def require_kernel_log(found: LargeLog, head: str, kind: Kind | None) -> None:
    """Raise Broken or Ambiguous unless it may be one: other tools' output is held as a whole, or not read.

    Where the kernel speaks at once nobody else is asked: a line without the form of a log is missing evidence.
    """
    require_unpacked(found.head)
    if is_of_records(head):
        said = f"it has {found.size >> 20} MiB in a form whose lines are not searched where they lie"
        raise Broken(f"{said}. Print it in another form.", AS_LINES)
    try:
        sure = Kind.KERNEL_LOG if kind is None and claims(Kind.KERNEL_LOG, head) else kind
        claimed = sure or only_kind(claimed_by(head))
    except Ambiguous:
        raise
    except Unrecognised:
        return  # the kernel may speak later
    if claimed is not Kind.KERNEL_LOG:
        said = f"it has {found.size >> 20} MiB: only a kernel log may be that large"
        raise Broken(f"{said}. Cut out the relevant part.", "")
