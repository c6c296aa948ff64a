"""Reads a kernel log as kernel.xid, kernel.sxid and kernel.hardware do: a dump of /dev/kmsg, dmesg with any time stamp, the journal,
/var/log/messages.

Most lines of a log are about no fault. Only the lines that contain a needle of a check's patterns are read, and the beginning of
the text, its end and a few places between, so that a log of gigabytes takes only the time of a search.
"""

from __future__ import annotations

import hashlib
import math
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import islice

from checks.check import Measurement
from checks.explain.log_formats import to_plain_log
from checks.explain.reading import Broken, Complete, Kind, NotRecognised, Part, Reading, ReadOptions
from checks.explain.unread_lines import sentence, unread_lines
from checks.model import Value
from checks.probes.kernel import hardware, log_source, neuron_lines, sxid, xid
from checks.probes.kernel.log_excerpt import LogExcerpt
from checks.probes.kernel.log_lines import FORM, UPTIME_S, Event, Find, Line, Now, read_line
from checks.probes.kernel.log_search import (
    LINE_BYTES,
    RawLine,
    Text,
    blocks,
    lines_with,
    lines_without,
    matcher_of,
    of_bytes,
    whole_lines,
)
from checks.probes.kernel.xid_catalogue import Since
from checks.probes.kernel.xid_context import Mark, XidContext, in_order

LOOKED_AT = 5000
EDGE_BYTES = 64 << 10
SAMPLES = 64
SAMPLE_BYTES = 2 << 10
NAMED = 4
# Each takes some 50 us, so that a second is spent on them; whoever has more has seen enough to look at the machine.
MOST_LINES = 20_000
_DRIVER = re.compile(r"NVRM: \w|nvidia-nvswitch\d+: ")
# A kernel's time stamp as a rule has a fraction: a number alone may be the rank of whoever prints it.
_NUMBER = re.compile(r"\[ *\d+\]")
# A serial console mixes what two processors print at once; a finder looks at a line's beginning alone.
_WITHIN = re.compile(r".(?:NVRM: Xid \(|nvidia-nvswitch\d+: SXid \()")
# What a line of the kernel's holds as a rule, for logs that begin with other programs' lines.
_MARKS = (b"kernel: ", b"NVRM: ", b"nvidia-nvswitch", b",-;")
_RECORD = re.compile(rb"^(?:[ \t\0]|\x1b\[[0-9;]*[mK])*\d{1,9},(\d{1,20}),\d{1,20},[^;\n]*;", re.MULTILINE)
# Facts that only a log that is read now has, and a count that takes more than a search: see kernel.xid.
TIMELESS = (
    "covers_s",
    "earlier_boot",
    "window_s",
    "older_events",
    "source",
    "lines_read",
    log_source.OWN_SOURCE,
)
MORE_OF_IT = "Give the whole log of this boot (journalctl -k), or at least its last 24 hours."
# What may hide a needle: /dev/kmsg writes some letters as \x4e, journalctl and grep colour words, a crash leaves zeros.
_HIDING = (b"\\x", b"\x1b", b"\0")
NEEDLES = tuple(
    dict.fromkeys(
        [
            *(
                needle.encode()
                for needle in (*xid.NEEDLES, *hardware.NEEDLES, *neuron_lines.NEEDLES, *log_source.NEEDLES)
            ),
            *_HIDING,
        ]
    )
)


@dataclass(frozen=True)
class _Family:
    check: str
    find: Find
    measured: Callable[[log_source.Log], Measurement]
    decides_restarts: bool = False  # by itself: what a restart of the machine answers
    always: bool = True  # a machine of any kind has it


FAMILIES = (
    _Family(xid.xid.name, xid.find, lambda log: xid.measured(log, ()), decides_restarts=True),
    _Family(sxid.sxid.name, sxid.find, sxid.measured),
    _Family(hardware.hardware.name, hardware.find, hardware.measured),
    _Family(neuron_lines.NAME, neuron_lines.find, neuron_lines.of_log, always=False),
)


def detect(text: str) -> bool:
    """Whether the text is a kernel's log: some line's own form says that the kernel wrote it."""
    now, lines = _now(), to_plain_log(text).splitlines()
    marks = [mark.decode() for mark in _MARKS]
    later = (line for line in lines[LOOKED_AT:] if any(mark in line for mark in marks))
    return any(
        _DRIVER.match(line.message) or (line.tagged and not _NUMBER.match(raw))
        for part in (lines[:LOOKED_AT], later)
        for raw in part
        if (line := read_line(raw[:LINE_BYTES], now)) is not None
    )


def read(text: str, asked: ReadOptions) -> Reading:
    """What the text tells. Raises NotRecognised, and Broken where the kernel says nothing."""
    text = to_plain_log(text)
    data = text.encode("utf-8", "surrogateescape")
    whole = of_bytes(data)
    explainer = _Explainer(whole, _now())
    explainer.doubt_length(data)
    made = explainer.read(lines_with(whole, matcher_of(NEEDLES)))
    strange = {number for number, _ in lines_without(whole, FORM)}
    return replace(made, understood=frozenset(range(1, len(text.splitlines()) + 1)) - strange)


def read_large(text: Text, found: Iterable[RawLine]) -> tuple[Reading, bytes]:
    """The same for a text that nobody holds, whose lines with NEEDLES were `found`; and the digest of what was looked at,
    with the text's size.
    """
    explainer = _Explainer(text, _now())
    reading = explainer.read(found)
    lines = islice(lines_without(text, FORM), MOST_LINES)
    strange = [
        (at, line) for at, raw in lines for _, line in unread_lines(raw.decode("utf-8", "replace"), ())
    ]
    if strange:
        reading = replace(reading, unread=(*reading.unread, Complete(sentence(strange))))
    return reading, explainer.digest.digest()


@dataclass
class _Explainer:
    """Reads one text."""

    text: Text
    now: Now
    shown: LogExcerpt = field(default_factory=LogExcerpt)
    digest: hashlib._Hash = field(default_factory=hashlib.sha256)
    doubts: dict[str, str] = field(default_factory=dict)
    lost: int = 0

    def read(self, found: Iterable[RawLine]) -> Reading:
        """The reading. Raises NotRecognised, Broken."""
        self.digest.update(b"%d\n" % self.text.size)
        places, lines = list[RawLine](), list[Line]()
        for begin, count in _places(self.text.size):
            place = whole_lines(self.text, begin, count)
            self.shown.again()
            places += place
            lines += [line for raw in place for line in self._said(raw)]
        if not self.shown.spoken and 2 * sum(b"\0" in raw.data for raw in places) > len(places):
            raise Broken("most lines have zero bytes, so the file is not text")
        self.shown.again()
        kept = self._kept(found)
        self.shown.again()
        if not self.shown.spoken and not self._spoken_elsewhere():
            if lines or kept:
                raise Broken(
                    "no line is proven to come from the kernel, and a log without kernel lines does not show a healthy machine"
                )
            raise NotRecognised("the text has no line in the form of a kernel log")
        if self.shown.first_record is not None:
            self.lost += _gaps(self.text)
        left_out = self._put_in_order(kept)
        if len(self.shown.hosts) > 1:
            names = ", ".join(list(self.shown.hosts)[:NAMED])
            said = f"lines of {len(self.shown.hosts)} machines ({names}), whose GPUs have the same addresses"
            self._doubt(
                "hosts", f"the text has {said}. Explain the log of each machine separately", complete=True
            )
        kept = [replace(line, record=None) for line in kept]  # their numbers have gaps by design
        parts = tuple(part for family in FAMILIES if (part := self._part(family, kept)))
        covers_s = self.shown.covers_s
        over = "" if covers_s is None else f" over {covers_s:.0f} s"
        return Reading(
            Kind.KERNEL_LOG,
            f"kernel log, {_size(self.text.size)}{over}",
            parts,
            tuple(self._unread()),
            left_out=left_out,
            remedy=MORE_OF_IT,
        )

    def doubt_length(self, data: bytes) -> None:
        """A line that is longer than any of the kernel's was made of several, or is none: its form tells nothing."""
        lengths = map(len, data.split(b"\n"))
        number = next((number for number, length in enumerate(lengths, 1) if length > LINE_BYTES), None)
        if number is not None:
            self._doubt("long", _too_long(number))

    def _put_in_order(self, kept: list[Line]) -> tuple[str, ...]:
        """Turns a text round that begins with its newest line, and drops the starts of the kernel that answer nothing, because
        the text's own order is in doubt. Returns what that leaves unknown.
        """
        if self.shown.newest_first:
            kept.reverse()
        ordered = [line for line in kept if not _starts(line) or self.shown.answers(line)]
        dropped = len(kept) - len(ordered)
        kept[:] = ordered
        if not dropped:
            return ()
        why = "the timestamps of this text are not in order, or do not show the order of the lines"
        return (
            f"kernel.xid restarts: {why}; the lines are read as they stand, and restarts repair no earlier fault",
        )

    def _said(self, raw: RawLine) -> list[Line]:
        """The kernel's lines in one of the text, which may hold several if it was drawn on a terminal."""
        self.digest.update(raw.data + b"\n")
        text = raw.data.replace(b"\0", b"").decode("utf-8-sig" if not raw.at else "utf-8", "backslashreplace")
        lines = [
            replace(line, number=raw.number)
            for part in text.splitlines()
            if (line := read_line(part, self.now)) is not None
        ]
        self.shown.see(line for line in lines if _speaks(line))
        if raw.number:
            self._doubt_line(raw, text, lines)
        return lines

    def _doubt_line(self, raw: RawLine, text: str, lines: Sequence[Line]) -> None:
        if b"\0" in raw.data:
            self._doubt("zero", f"line {raw.number} has a zero byte: the text at that place is lost")
        if not raw.whole and lines:
            self._doubt("long", _too_long(raw.number))
        if any(_WITHIN.search(line.message) for line in lines):
            said = "an Xid in the middle, probably because two lines were merged. That Xid is not counted"
            self._doubt("within", f"line {raw.number} has {said}")
        self.lost += log_source.missed(text)

    def _kept(self, found: Iterable[RawLine]) -> list[Line]:
        """The lines that the checks' finders look at, each once and in order."""
        kept: list[Line] = []
        for raw in found:
            kept += [line for line in self._said(raw) if _matters(line)]
            if len(kept) > MOST_LINES:
                said = f"more than {MOST_LINES} lines may report faults, so the text after line {raw.number} was not read"
                self._doubt("many", said)
                break
        return kept

    def _spoken_elsewhere(self) -> bool:
        said = (self._said(raw) for raw in lines_with(self.text, matcher_of(_MARKS)))
        return any(_speaks(line) for lines in said for line in lines)

    def _part(self, family: _Family, kept: list[Line]) -> Part | None:
        reader = log_source.Reader(family.find, self.now, math.inf)
        reader.take(kept)
        reader.lost += self.lost
        log = reader.log("text")
        if not family.decides_restarts:
            log = boots_apart(log, kept, self.shown.newest_first)
        if not (family.always or log.this_boot):
            return None
        measured = family.measured(log)
        metrics: dict[str, Value] = {
            name: value
            for name, value in measured.metrics.items()
            if name not in TIMELESS or (name == "earlier_boot" and value)
        }
        if self.shown.first_record is None and not log.records_lost:
            metrics.pop("records_lost", None)  # only /dev/kmsg numbers its records
        covers_s = self.shown.covers_s
        if covers_s is not None and not self.shown.left_out():  # what is missing is said once, of the text
            metrics["covers_s"] = covers_s
        return Part(family.check, metrics, measured.lines, measured.evidence)

    def _unread(self) -> Iterator[str]:
        if self.text.read(self.text.size - 1, 1) != b"\n":
            yield "the last line is not complete: the text may be truncated"
        yield from filter(None, (self.shown.left_out(),))
        yield from self.doubts.values()

    def _doubt(self, about: str, said: str, complete: bool = False) -> None:
        self.doubts.setdefault(about, Complete(said) if complete else said)


def boots_apart(log: log_source.Log, kept: Iterable[Line], newest_first: bool) -> log_source.Log:
    """The log with what came before a restart apart, as a node's own clock would put it: what kernel.xid calls handled
    by a restart is a fault of an earlier boot for the other checks too.
    """
    starts = [event for event in xid.find(kept) if event.kind == Mark.BOOT.value]
    if not starts:
        return log
    together = [*log.this_boot, *starts]
    together.sort(key=lambda event: event.line.number, reverse=newest_first)
    ordered = in_order(together)
    company = XidContext(ordered)
    closed = {id(seen.event) for seen in ordered if company.since(seen) is Since.REBOOTED}
    this_boot, earlier = list[Event](), list[Event]()
    for event in log.this_boot:
        (earlier if id(event) in closed else this_boot).append(event)
    return replace(log, this_boot=tuple(this_boot), earlier_boot=(*log.earlier_boot, *earlier))


def _places(size: int) -> list[tuple[int, int]]:
    """Where the beginning, places between and the end lie: lines are missing between two of them, or in both."""
    places = [(0, EDGE_BYTES)]
    if size > 2 * EDGE_BYTES:
        places += [(size * index // SAMPLES, SAMPLE_BYTES) for index in range(1, SAMPLES)]
    if size > EDGE_BYTES:
        places.append((max(size - EDGE_BYTES, EDGE_BYTES), EDGE_BYTES))
    return places


def _gaps(text: Text) -> int:
    """How many records of /dev/kmsg are missing, or stand where their number does not."""
    lost, last = 0, -1
    for block in blocks(text):
        numbers = [int(number) for number in _RECORD.findall(block)]
        if not numbers:
            continue
        following = numbers[0] if last < 0 else last + 1
        if numbers != list(range(following, following + len(numbers))):
            for number in numbers:
                lost += 0 if number == following else max(number - following, 1)
                following = number + 1
        last = numbers[-1]
    return lost


def _too_long(number: int) -> str:
    return f"line {number} is longer than any line of the kernel, so it was not read to its end"


def _starts(line: Line) -> bool:
    return line.message.startswith(log_source.START) and not line.facility


def _matters(line: Line) -> bool:
    told = any(needle in line.message for needle in (*xid.NEEDLES, *neuron_lines.NEEDLES))
    return told or log_source.tells_of_loss(line) or _tells_of_a_fault(line.message)


@lru_cache(maxsize=4096)
def _tells_of_a_fault(message: str) -> bool:
    return any(True for _ in hardware.find([Line(message, None)]))


def _speaks(line: Line) -> bool:
    return line.tagged or bool(_DRIVER.match(line.message))


def _now() -> Now:
    """The text says when, not how long ago: nothing in it is too old, and stamps since boot must not lie ahead."""
    return Now(UPTIME_S, time.time())


def _size(size: int) -> str:
    """The size in a suitable unit: "812 bytes", "1.0 GB" (10^9 bytes)."""
    for unit, bytes_of in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size >= bytes_of:
            return f"{size / bytes_of:.1f} {unit}"
    return f"{size} bytes"
