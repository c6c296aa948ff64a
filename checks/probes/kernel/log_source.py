"""Reads the kernel log from $PRELAUNCH_KERNEL_LOG, /dev/kmsg, the journal or a file, and reports how far back it goes and what is
missing.

Events of an earlier boot are kept separately, and so are those of this boot that are older than `window_s`: a check counts an old
event only if it calls for an action that was not taken. A log without any line of the kernel does not show a healthy machine. A
source without lines of the kernel raises UnusableSource.
"""

from __future__ import annotations

import contextlib
import math
import os
import re
import time
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import BinaryIO

from checks.check import CheckError, Context, Skipped
from checks.facts.withheld_kernel_log import FILE_VARIABLE
from checks.model import Skip
from checks.probes.kernel.log import KMSG, Log, is_old
from checks.probes.kernel.log_lines import Event, Find, Line, Now, read_line, read_record
from checks.process import tool

JOURNAL, START = "journalctl", "Linux version "
# The kernel's lines, and journald's about kernel lines that it missed (SD_MESSAGE_JOURNAL_MISSED). `-k` would leave the latter out.
MATCHES = ("_TRANSPORT=kernel", "+", "_TRANSPORT=driver", "MESSAGE_ID=e9bf28e6e834481bb6f48f548ad13606")
# What journalctl prints, with exit code 1, if a search finds nothing.
NOTHING = "-- No entries --"
FILES = ("/var/log/messages", "/var/log/syslog", "/var/log/kern.log")
WINDOW_S = 86400.0
TAIL_BYTES = 16 << 20
BESIDE_BYTES = 2 << 20
LINE_BYTES = 16 << 10
JOURNAL_LINES = 3000
# The kernel gives one record a read, at most CONSOLE_EXT_LOG_MAX = 8192 bytes (linux/printk.h).
RECORD_BYTES = 16 << 10
# The clocks of the log and of the reader are not read at the same instant.
BOOT_SLACK_S = 60.0
# What the kernel and journald print if messages were dropped (kernel/printk, journald-kmsg.c).
_DROPPED = re.compile(
    r"(?:\*\* |printk: |Missed )(\d{1,9}) (?:printk |kernel )?messages(?: suppressed| dropped|$)"
)


class UnusableSource(Exception):
    """The source has no lines of the kernel. `skip` is the reason that a policy may accept."""

    def __init__(self, message: str, skip: Skip = Skip.NOT_PERMITTED) -> None:
        super().__init__(message)
        self.skip = skip


@dataclass
class Reader:
    """Reads lines, oldest first, numbers those without a number, and keeps the events that `find` makes of them."""

    find: Find
    now: Now
    window_s: float
    lines: int = 0
    tagged: int = 0
    lost: int = 0
    newest_age_s: float | None = None
    oldest_age_s: float = 0.0
    events: list[Event] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    last_record: int | None = None
    first_record: int | None = None
    _starts: list[Line] = field(default_factory=list)

    def take(self, lines: Iterable[Line]) -> None:
        """Reads all lines."""
        self.events += self.find(self._observed(lines))

    def log(self, source: str) -> Log:
        """The log of the lines that were read."""
        if self.lost:
            self.notes.append(f"{self.lost} records of the kernel are lost")
        before = [event for event in self.events if self._restarted_since(event.line)]
        earlier = {id(event) for event in before}
        return Log(
            source,
            self.window_s,
            self.lines,
            self.oldest_age_s,
            self.lost,
            tuple(event for event in self.events if id(event) not in earlier),
            tuple(event for event in before if not is_old(event, self.now.boot_s + self.window_s)),
            tuple(self.notes),
            newest_age_s=self.newest_age_s,
        )

    def _restarted_since(self, line: Line) -> bool:
        """Whether the line is of an earlier boot: its time says so, and a start of the kernel comes after it by position and by
        time. A clock that was wrong for a while does not settle an open fault by itself.
        """
        age_s = line.age_s
        if age_s is None or age_s <= self.now.boot_s + BOOT_SLACK_S:
            return False
        later = self._starts[bisect_right(self._starts, line.number, key=lambda start: start.number) :]
        return any(start.age_s is not None and start.age_s < age_s for start in later)

    def _observed(self, lines: Iterable[Line]) -> Iterator[Line]:
        for line in lines:
            self.lines += 1
            self.tagged += line.tagged
            self._count_lost(line)
            line = line if line.number else replace(line, number=self.lines)
            if line.message.startswith(START) and not line.facility:
                self._starts.append(line)
            if line.age_s is not None:
                self.oldest_age_s = max(self.oldest_age_s, line.age_s)
                newest = line.age_s if self.newest_age_s is None else self.newest_age_s
                self.newest_age_s = min(line.age_s, newest)
            yield line

    def _count_lost(self, line: Line) -> None:
        dropped = _DROPPED.match(line.message)
        if dropped and (line.age_s is None or line.age_s <= self.window_s):
            self.lost += int(dropped[1])
        if line.record is None:
            return
        if self.last_record is None:
            self.first_record = line.record
            if line.record:
                self.notes.append(
                    f"the kernel's ring buffer begins at record {line.record}: earlier records were overwritten"
                )
        elif line.record != self.last_record + 1:
            # Numbers that decrease mean that the order of the text is wrong.
            self.lost += max(line.record - self.last_record - 1, 1)
        self.last_record = line.record


def read(context: Context, find: Find) -> Log | Skipped:
    """The kernel log as this node can read it. Raises CheckError if a source that was asked for by name cannot be used, or the end
    of the ring buffer is not reached. evidence.py reports a file that the environment names, because it is not this machine's
    log.
    """
    now = Now(time.monotonic(), time.time(), time.clock_gettime(time.CLOCK_BOOTTIME))
    window_s = context.options.get("window_s", WINDOW_S)
    path = os.environ.get(FILE_VARIABLE, "")
    if path:
        try:
            return replace(read_file(Path(path), Reader(find, now, window_s), vouched=True), own=False)
        except UnusableSource as reason:
            raise CheckError(f"{reason}. Correct or unset {FILE_VARIABLE}.") from reason
    return first_usable(Path(KMSG), tuple(map(Path, FILES)), find, now, window_s, context.timeout_s / 3)


def first_usable(
    kmsg: Path, files: Sequence[Path], find: Find, now: Now, window_s: float, deadline_s: float
) -> Log | Skipped:
    """The log of the first source with lines of the kernel, or why there is none. A ring buffer is read together with the log files,
    because some tools that announce faults (SageMaker HyperPod's) write only there; and, if its first records were overwritten,
    together with the journal.
    """
    sources: list[Callable[[], Log]] = [
        lambda: _ring_and_others(kmsg, files, find, now, window_s, deadline_s),
        lambda: read_journal(Reader(find, now, window_s), deadline_s),
    ]
    sources += [partial(read_file, path, Reader(find, now, window_s), vouched=False) for path in files]
    refusals: list[UnusableSource] = []
    for source in sources:
        try:
            return source()
        except UnusableSource as reason:
            refusals.append(reason)
    absent = all(reason.skip is Skip.TOOL_MISSING for reason in refusals)
    return Skipped(Skip.TOOL_MISSING if absent else Skip.NOT_PERMITTED, "; ".join(map(str, refusals)))


def _ring_and_others(
    kmsg: Path, files: Iterable[Path], find: Find, now: Now, window_s: float, deadline_s: float
) -> Log:
    """The log of all of them. Records that were overwritten within the window are lost, unless another source goes back over it, or to
    the boot, and has not lost records itself.
    """
    reader = Reader(find, now, window_s)
    log = ring = read_ring(kmsg, reader, deadline_s)
    if reader.first_record:
        with contextlib.suppress(UnusableSource):
            log = _joined(log, read_journal(Reader(find, now, window_s), deadline_s / 2))
    log = _with_files(log, files, find, now)
    covers_s = min(log.covers_s, now.uptime_s)
    elsewhere = covers_s > ring.covers_s and covers_s >= min(window_s, now.uptime_s - BOOT_SLACK_S)
    lost = ring.records_lost
    if reader.first_record and ring.covers_s < window_s:
        lost = log.records_lost + (0 if elsewhere else reader.first_record)
    return replace(log, covers_s=covers_s, records_lost=lost)


def read_ring(path: Path, reader: Reader, deadline_s: float) -> Log:
    """The kernel's ring buffer. Raises UnusableSource, or CheckError if its end is not reached in time."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise _unusable(path, error) from error
    try:
        reader.take(records(descriptor, reader.now, time.monotonic() + deadline_s))
    except PermissionError as error:
        raise _unusable(path, error) from error
    finally:
        os.close(descriptor)
    if not reader.lines:
        raise UnusableSource(f"{path} has no record")
    return reader.log(str(path))


def records(descriptor: int, now: Now, deadline: float) -> Iterator[Line]:
    """The records of the ring buffer to its end. Records that are overwritten in the meantime leave a gap in the numbers."""
    while time.monotonic() < deadline:
        try:
            raw = os.read(descriptor, RECORD_BYTES)
        except BlockingIOError:
            return
        except BrokenPipeError:
            continue
        if not raw:
            return
        line = read_record(raw.decode("utf-8", "replace"), now)
        if line is not None:
            yield line
    raise CheckError(f"{KMSG} is written faster than it can be read, so its end was not reached")


def read_journal(reader: Reader, deadline_s: float) -> Log:
    """The kernel lines of this boot in the journal: the newest lines, and older ones that report faults. Raises UnusableSource.

    The timestamps are those of the wall clock, which may have been wrong. journald says that all lines are of this boot.
    """
    reader.now = replace(reader.now, boot_s=math.inf)
    deadline = time.monotonic() + deadline_s
    try:
        result = _journal(deadline, f"--lines={JOURNAL_LINES}")
    except tool.ToolMissing as error:
        raise UnusableSource(f"{JOURNAL} is not installed", Skip.TOOL_MISSING) from error
    except tool.ToolError as error:
        raise UnusableSource(str(error)) from error
    if not result.whole or result.code:
        raise UnusableSource(f"the output of {JOURNAL} is not complete: {result.account()[:300]}")
    newest = result.stdout.splitlines()
    older, complete = _searched(reader, deadline) if len(newest) >= JOURNAL_LINES else ([], True)
    read_already = set(newest)
    texts = [*(text for text in older if text not in read_already), *newest]
    reader.take(line for text in texts if (line := read_line(text, reader.now)) is not None and line.tagged)
    if not reader.tagged:
        raise UnusableSource(f"the journal has no line of the kernel: {result.stderr.strip()[:200]}")
    if not complete and reader.oldest_age_s < reader.window_s:
        reader.lost += 1  # at least: how many lines are older is not known
        reader.notes.append(f"the journal is longer than what was read: {reader.oldest_age_s:.0f} s")
    return reader.log("journal")


def _journal(deadline: float, *more: str) -> tool.ToolResult:
    arguments = (JOURNAL, "--boot", "--no-pager", "-o", "short-iso-precise", *MATCHES, *more)
    return tool.run(arguments, max(deadline - time.monotonic(), 0.1))


def _searched(reader: Reader, deadline: float) -> tuple[list[str], bool]:
    """The lines of this boot in which `reader` may find something, the newest last, and whether the search was complete.

    It has every form that would be found, and goes back in time, so that all is known since the oldest line that it gives, even if
    it is cut. A line before the window shows that the journal goes back that far, where nothing was found.
    """
    forms = f"{START}|{_DROPPED.pattern}|{reader.find.form}"
    # With --lines, journalctl before 253 searches only these last lines (github.com/systemd/systemd/issues/25147).
    search = ("--reverse", "--case-sensitive=yes", rf"--grep=^\s*(?:{forms})")
    before = ("--reverse", "--lines=1", f"--until=@{reader.now.epoch_s - reader.window_s - 1:.0f}")
    try:
        result, earlier = _journal(deadline, *search), _journal(deadline, *before)
    except CheckError:
        return [], False
    texts = result.stdout.splitlines()[::-1]
    if not result.whole:
        return texts[2:], False  # what was cut: a part of a line, and a note
    if result.code and NOTHING not in texts:
        return texts, False
    return [*(text for text in earlier.stdout.splitlines() if text not in texts), *texts], True


def read_file(path: Path, reader: Reader, vouched: bool, most: int = TAIL_BYTES) -> Log:
    """The end of a log file. Raises UnusableSource. Unless it is `vouched` for, lines without a tag do not prove that the kernel
    writes to this file. Even then lines without any fault are no proof, because an unknown form (JSON, another date, a compressed
    file) would hide all faults.
    """
    try:
        with open(path, "rb") as stream:
            size = os.fstat(stream.fileno()).st_size
            if size > most:
                reader.notes.append(f"only the last {most} of {size} bytes of {path} were read")
                stream.seek(size - most - 1)
                stream.readline(most)
            raw = _whole_lines(stream, min(size, most))
            reader.take(line for text in raw if (line := read_line(text, reader.now)) is not None)
    except OSError as error:
        raise _unusable(path, error) from error
    if not (reader.tagged or (vouched and reader.events)):
        raise UnusableSource(f"{path} has no kernel line in a known form")
    if reader.newest_age_s is not None and reader.newest_age_s > reader.window_s:
        message = f"the last kernel line of {path} is {reader.newest_age_s:.0f} s old, so it does not show the current state"
        raise UnusableSource(message)
    return reader.log(str(path))


def _with_files(ring: Log, files: Iterable[Path], find: Find, now: Now) -> Log:
    """The log of the ring buffer together with what files add to it. A file that cannot be used takes nothing away."""
    for path in files:
        try:
            more = read_file(path, Reader(find, now, ring.window_s), vouched=False, most=BESIDE_BYTES)
        except UnusableSource:
            continue
        ring = _joined(ring, more)
    return ring


def _joined(ring: Log, more: Log) -> Log:
    """What another source adds to the ring buffer. It goes further back only if nothing can be missing between them. What it lost
    itself is then lost, but may be what another source lost as well.
    """
    meets = more.newest_age_s is not None and more.newest_age_s <= ring.covers_s
    if meets and more.covers_s > ring.covers_s:
        lost, notes = max(ring.records_lost, more.records_lost), (*ring.notes, *more.notes)
        ring = replace(ring, covers_s=more.covers_s, records_lost=lost, notes=notes)
    this_boot = (*ring.this_boot, *_beyond(ring.recent, more.recent), *_beyond(ring.older, more.older))
    return replace(
        ring,
        source=f"{ring.source}, {more.source}",
        lines_read=ring.lines_read + more.lines_read,
        this_boot=_by_time(this_boot),
        earlier_boot=_by_time((*ring.earlier_boot, *_beyond(ring.earlier_boot, more.earlier_boot))),
    )


def _by_time(events: Iterable[Event]) -> tuple[Event, ...]:
    """Events of several sources, whose lines only have the order of their timestamps."""
    return tuple(replace(event, line=replace(event.line, number=0)) for event in events)


def _beyond(events_before: Iterable[Event], events: Iterable[Event]) -> tuple[Event, ...]:
    """The events that are not known yet. An event that is old in the ring buffer may have happened again, with the same text. No
    start of the kernel comes after the content of its ring buffer, whatever clock the writer of the file had.
    """
    messages = {event.line.message for event in events_before}
    new = (event for event in events if event.line.message not in messages)
    return tuple(event for event in new if not event.line.message.startswith(START))


def _whole_lines(stream: BinaryIO, budget: int) -> Iterator[str]:
    """Lines up to a length and a total size. The rest of a line that is too long must not count as a line."""
    whole = True
    while budget > 0 and (piece := stream.readline(LINE_BYTES)):
        budget -= len(piece)
        if whole:
            yield piece.decode("utf-8", "replace")
        whole = piece.endswith(b"\n")


def _unusable(path: Path, error: OSError) -> UnusableSource:
    missing = isinstance(error, FileNotFoundError)
    return UnusableSource(f"{path}: {error.strerror}", Skip.TOOL_MISSING if missing else Skip.NOT_PERMITTED)
