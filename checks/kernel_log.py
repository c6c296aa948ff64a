"""kernel.log: what the kernel said went wrong, from /dev/kmsg, a log file, or $PRELAUNCH_KERNEL_LOG.

Records stay in the ring until the next boot, so only those of the last `window_s` count; older ones are
counted apart. A log in which the kernel says nothing at all is no evidence of a healthy one.
"""

from __future__ import annotations

import os
import time
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from checks.check import CheckError, Context, Measurement, Skipped, check
from checks.kernel_lines import Event, Kind, Line, Now, events, read_line, read_record
from checks.model import Scope, Skip, Value

KMSG = "/dev/kmsg"
FILES = ("/var/log/messages", "/var/log/syslog", "/var/log/kern.log")
FILE_VARIABLE = "PRELAUNCH_KERNEL_LOG"
WINDOW_S = 86400.0
TAIL_BYTES = 16 << 20
LINE_BYTES = 16 << 10
# The kernel gives one record a read, at most CONSOLE_EXT_LOG_MAX = 8192 bytes (linux/printk.h).
RECORD_BYTES = 16 << 10
KEPT = 40
# What a program's own fault causes (NVIDIA's Xid catalogue: graphics engine exception, page fault, user
# application).
APPLICATION_XIDS = (13, 31, 43, 45)
COUNTS = (*(kind.value for kind in Kind), "xid_application")


class Unusable(Exception):
    """This source says nothing of the kernel; `skip` is the reason that a policy may accept."""

    def __init__(self, message: str, skip: Skip = Skip.NOT_PERMITTED) -> None:
        super().__init__(message)
        self.skip = skip


@dataclass
class Tally:
    """What was read so far: counts within the window, the newest matching lines, and how far back it goes."""

    window_s: float
    lines: int = 0
    tagged: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    older: int = 0
    newest_age_s: float | None = None
    oldest_age_s: float = 0.0
    kept: deque[Event] = field(default_factory=lambda: deque(maxlen=KEPT))
    notes: list[str] = field(default_factory=list)

    def take(self, lines: Iterable[Line]) -> None:
        """Read the lines, oldest first. An event without a stamp counts as recent."""
        for event in events(self._seen(lines)):
            if event.line.age_s is not None and event.line.age_s > self.window_s:
                self.older += 1
            else:
                self.counts[_metric(event)] += 1
                self.kept.append(event)

    def _seen(self, lines: Iterable[Line]) -> Iterator[Line]:
        for line in lines:
            self.lines += 1
            self.tagged += line.tagged
            if line.age_s is not None:
                self.oldest_age_s = max(self.oldest_age_s, line.age_s)
                self.newest_age_s = min(
                    line.age_s, self.oldest_age_s if self.newest_age_s is None else self.newest_age_s
                )
            yield line


@check(
    "kernel.log",
    Scope.NODE,
    timeout_s=30,
    metrics=("source", "lines_read", "window_s", "covers_s", "older_events", *COUNTS),
    needs=f"{KMSG}, a kernel log file, or ${FILE_VARIABLE}",
)
def kernel_log(context: Context) -> Measurement | Skipped:
    """Counts Xids, lost GPUs, OOM kills, machine checks, I/O errors and lock-ups in the kernel's log.

    Lines, not incidents, of the last `window_s` seconds (an option, a day by default); `older_events` are
    those before. `xid` leaves out codes 13, 31, 43 and 45, which are `xid_application`. `lines_read` counts
    the kernel's lines, `covers_s` says how far back the source goes. A source that cannot be opened, or in
    which the kernel says nothing, is Skipped, or CheckError if it was asked for by name.
    """
    window_s = context.options.get("window_s", WINDOW_S)
    now = Now(time.monotonic(), time.time())
    named = os.environ.get(FILE_VARIABLE, "")
    if named:
        try:
            return measure_file(Path(named), now, window_s, vouched=True)
        except Unusable as reason:
            raise CheckError(f"{reason}. Correct or unset {FILE_VARIABLE}.") from reason
    return first_usable(Path(KMSG), [Path(path) for path in FILES], now, window_s, context.timeout_s / 2)


def first_usable(
    kmsg: Path, files: Iterable[Path], now: Now, window_s: float, deadline_s: float
) -> Measurement | Skipped:
    """The measurement of the first source that speaks for the kernel, or why none does."""
    try:
        return measure_kmsg(kmsg, now, window_s, deadline_s)
    except Unusable as reason:
        refusals = [reason]
    for path in files:
        try:
            return measure_file(path, now, window_s, vouched=False)
        except Unusable as reason:
            refusals.append(reason)
    permitted = all(reason.skip is Skip.TOOL_MISSING for reason in refusals)
    return Skipped(Skip.TOOL_MISSING if permitted else Skip.NOT_PERMITTED, "; ".join(map(str, refusals)))


def measure_kmsg(path: Path, now: Now, window_s: float, deadline_s: float) -> Measurement:
    """What the kernel's ring holds. Raises Unusable, or CheckError if its end is not reached in time."""
    tally = Tally(window_s)
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise _unusable(path, error) from error
    try:
        tally.take(_records(descriptor, now, time.monotonic() + deadline_s, tally.notes))
    except PermissionError as error:
        raise _unusable(path, error) from error
    finally:
        os.close(descriptor)
    if not tally.lines:
        raise Unusable(f"{path} holds no record at all")
    return _measurement(str(path), tally)


def measure_file(path: Path, now: Now, window_s: float, vouched: bool) -> Measurement:
    """What a log file's last 16 MiB hold. Raises Unusable.

    Unless it is `vouched` for, bare lines are not taken as proof that the kernel writes here at all.
    """
    tally = Tally(window_s)
    try:
        with open(path, "rb") as stream:
            size = os.fstat(stream.fileno()).st_size
            if size > TAIL_BYTES:
                tally.notes.append(f"only the last {TAIL_BYTES} of {size} bytes were read")
                stream.seek(size - TAIL_BYTES - 1)
                stream.readline(TAIL_BYTES)
            raw = _whole_lines(stream, min(size, TAIL_BYTES))
            tally.take(line for text in raw if (line := read_line(text, now)) is not None)
    except OSError as error:
        raise _unusable(path, error) from error
    if not (tally.lines if vouched else tally.tagged):
        raise Unusable(f"{path} holds no line of the kernel's")
    if tally.newest_age_s is not None and tally.newest_age_s > window_s:
        raise Unusable(
            f"the last kernel line of {path} is {tally.newest_age_s:.0f} s old: it says nothing of now"
        )
    return _measurement(str(path), tally)


def _records(descriptor: int, now: Now, deadline: float, notes: list[str]) -> Iterator[Line]:
    first = True
    while time.monotonic() < deadline:
        try:
            raw = os.read(descriptor, RECORD_BYTES)
        except BlockingIOError:
            return
        except BrokenPipeError:
            notes.append("records were overwritten while they were read")
            continue
        text = raw.decode("utf-8", "replace")
        if first and (number := text.split(",")[1:2]) and number[0] not in ("0", ""):
            notes.append(f"the ring begins at record {number[0]}: what came before is overwritten")
        first = False
        line = read_record(text, now)
        if line is not None:
            yield line
    raise CheckError(f"{KMSG} is written faster than it can be read: its end was not reached")


def _whole_lines(stream: BinaryIO, budget: int) -> Iterator[str]:
    """Lines up to a length and, together, a size; the rest of an overlong one must not pass for a line."""
    whole = True
    while budget > 0 and (piece := stream.readline(LINE_BYTES)):
        budget -= len(piece)
        if whole:
            yield piece.decode("utf-8", "replace")
        whole = piece.endswith(b"\n")


def _measurement(source: str, tally: Tally) -> Measurement:
    metrics: dict[str, Value] = {
        "source": source,
        "lines_read": tally.lines,
        "window_s": tally.window_s,
        "covers_s": tally.oldest_age_s,
        "older_events": tally.older,
        **{name: tally.counts[name] for name in COUNTS},
    }
    return Measurement(
        metrics, "\n".join([*tally.notes, *(_account(event) for event in reversed(tally.kept))])
    )


def _metric(event: Event) -> str:
    return (
        "xid_application" if event.kind is Kind.XID and event.code in APPLICATION_XIDS else event.kind.value
    )


def _account(event: Event) -> str:
    code = "" if event.code is None else f" {event.code}"
    age = "no time" if event.line.age_s is None else f"{event.line.age_s:.0f} s ago"
    author = f", written by a program (facility {event.line.facility})" if event.line.facility else ""
    return f"{event.kind.value}{code} {event.pci or '-'} ({age}{author}): {event.line.message[:300]}"


def _unusable(path: Path, error: OSError) -> Unusable:
    missing = isinstance(error, FileNotFoundError)
    return Unusable(f"{path}: {error.strerror}", Skip.TOOL_MISSING if missing else Skip.NOT_PERMITTED)
