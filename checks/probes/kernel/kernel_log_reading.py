"""Reads a kernel log as kernel.xid, kernel.sxid and kernel.hardware do: a dump of /dev/kmsg, dmesg with any time stamp, the journal,
/var/log/messages. Every line is read.

A log that begins at a start of the kernel shows everything of this boot. Another one has to go back a day, as far as the checks read
on a node: a shorter one does not show that nothing happened.
"""

from __future__ import annotations

import itertools
import math
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from checks.check import Measurement
from checks.explain import reading
from checks.facts.withheld_kernel_log import OWN_SOURCE
from checks.model import Value
from checks.probes.kernel import hardware, log_lines, log_source, neuron_lines, sxid, xid
from checks.probes.kernel.log import Log
from checks.probes.kernel.xid_catalogue import Since
from checks.probes.kernel.xid_context import EventMark, XidContext, in_order

LOOKED_AT = 5000
# The kernel's clock is at 0.000000 until it is set up, shortly after the first lines (kernel/sched/clock.c).
FIRST_S = 1.0
MOST_HOSTS = 4
# The kernel's own lines have at most CONSOLE_EXT_LOG_MAX = 8192 bytes (linux/printk.h).
LINE_CHARACTERS = 64 << 10
_DRIVER = re.compile(r"NVRM: \w|nvidia-nvswitch\d+: ")
# A kernel's time stamp as a rule has a fraction: a number alone may be the rank of whoever prints it.
_NUMBER = re.compile(r"\[ *\d+\]")
# A serial console mixes what two processors print at once; a finder looks at a line's beginning alone.
_WITHIN = re.compile(r".(?:NVRM: Xid \(|nvidia-nvswitch\d+: SXid \()")
# What a line of the kernel's holds as a rule, for logs that begin with other programs' lines.
_MARKS = ("kernel: ", "NVRM: ", "nvidia-nvswitch", ",-;")
# SageMaker HyperPod's monitoring agent quotes a line of the kernel in a form that is not read.
_AGENT = "HealthMonitoringAgentDetectionEvent"
# Facts that only a log that is read now has, and a count that takes more than a text: see kernel.xid.
TIMELESS = ("covers_s", "earlier_boot", "window_s", "older_events", "source", "lines_read", OWN_SOURCE)
MORE_OF_IT = "Give the whole log of this boot (journalctl -k), or at least its last 24 hours."


@dataclass(frozen=True)
class _Family:
    check: str
    find: log_lines.Find
    measured: Callable[[Log], Measurement]
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
    now, lines = _now(), text.splitlines()
    later = (line for line in lines[LOOKED_AT:] if any(mark in line for mark in _MARKS))
    return any(
        _DRIVER.match(line.message) or (line.tagged and not _NUMBER.match(raw))
        for section in (lines[:LOOKED_AT], later)
        for raw in section
        if (line := log_lines.read_line(raw[:LINE_CHARACTERS], now)) is not None
    )


def read(text: str, options: reading.ReadOptions) -> reading.Reading:
    """What the text tells. Raises NotRecognised, and Garbled where the kernel says nothing."""
    return _Explainer(_now()).read(text)


@dataclass
class LogExcerpt:
    """What was read of the kernel's lines, and how much of a log they show."""

    spoken: bool = False
    started: bool = False
    first_record: int | None = None
    hosts: dict[str, None] = field(default_factory=dict)
    _onward: int = 0
    _back: int = 0
    _out_of_order: int = 0
    _within_a_boot: int = 0
    _last: dict[tuple[str, bool], log_lines.Line] = field(default_factory=dict)
    _spans: dict[bool, tuple[float, float]] = field(default_factory=dict)

    def see(self, line: log_lines.Line) -> None:
        """Reads the next line that has the form of a kernel line."""
        self.spoken = True
        if line.host:
            self.hosts[line.host] = None
        if line.record is not None and self.first_record is None:
            self.first_record = line.record
        self.started |= _starts(line) or line.record == 0
        if line.age_s is None:
            return
        self._step(line, line.age_s)
        newest, oldest = self._spans.get(line.age_s > log_lines.SINCE_BOOT_S, (line.age_s, line.age_s))
        self._spans[line.age_s > log_lines.SINCE_BOOT_S] = min(newest, line.age_s), max(oldest, line.age_s)

    def _step(self, line: log_lines.Line, age_s: float) -> None:
        """Counts how the timestamps change from line to line, for each machine and clock."""
        since_boot = age_s > log_lines.SINCE_BOOT_S
        last = self._last.get((line.host, since_boot))
        self._last[line.host, since_boot] = line
        if last is None or last.age_s is None or last.age_s == age_s:
            return
        if age_s < last.age_s:
            self._onward += 1
            self._within_a_boot += since_boot and not _starts(last)
            return
        self._back += 1
        restarted = _starts(line) or (since_boot and log_lines.UPTIME_S - age_s <= FIRST_S)
        self._out_of_order += age_s > last.age_s + log_lines.JITTER_S and not restarted

    @property
    def newest_first(self) -> bool:
        """Whether every timestamp is earlier than the one before it, as `journalctl --reverse` prints them."""
        return self._back > 0 and self._onward == 0

    def answers(self, start: log_lines.Line) -> bool:
        """Whether a start of the kernel may settle what is above it, because the text is in the order of time.

        Timestamps since boot give no order between boots: the lines of some boot must show it.
        """
        if start.age_s is None or (self._out_of_order and not self.newest_first):
            return False
        return start.age_s <= log_lines.SINCE_BOOT_S or self._within_a_boot > 0

    @property
    def covers_s(self) -> float | None:
        """The seconds from the earliest to the latest timestamp of one clock; None if no line has a time."""
        return max((oldest - newest for newest, oldest in self._spans.values()), default=None)

    def left_out(self) -> str:
        """Why earlier lines are missing that may matter ("it begins ..."), or ""."""
        covers_s = self.covers_s
        if covers_s is None:
            return "no line has a timestamp, so it is unknown how much of the log this is"
        if self._begins_at_boot() or covers_s >= log_source.WINDOW_S:
            return ""
        begins = "the text does not begin at a start of the kernel"
        return f"{begins} and covers {covers_s:.0f} s, not the last 24 hours. Earlier lines are missing"

    def _begins_at_boot(self) -> bool:
        _, oldest = self._spans.get(True, (0.0, 0.0))
        return self.started or (self.first_record is None and log_lines.UPTIME_S - oldest <= FIRST_S)


@dataclass
class _Explainer:
    """Reads one text."""

    now: log_lines.Now
    excerpt: LogExcerpt = field(default_factory=LogExcerpt)
    doubts: dict[str, str] = field(default_factory=dict)
    records: list[int] = field(default_factory=list)

    def read(self, text: str) -> reading.Reading:
        """The reading. Raises NotRecognised, Garbled."""
        raw = text.splitlines()
        lines = [line for number, raw_line in enumerate(raw, 1) for line in self._line(number, raw_line)]
        if not self.excerpt.spoken:
            self._refuse(raw, lines)
        left_out = self._put_in_order(lines)
        if len(self.excerpt.hosts) > 1:
            hosts = list(self.excerpt.hosts)
            machines = f"{len(hosts)} machines ({', '.join(hosts[:MOST_HOSTS])})"
            doubt = f"the text has lines of {machines}, whose GPUs have the same addresses"
            self._doubt("hosts", f"{doubt}. Explain the log of each machine separately", complete=True)
        results = tuple(result for family in FAMILIES if (result := self._result_of(family, lines)))
        covers_s = self.excerpt.covers_s
        over = "" if covers_s is None else f" over {covers_s:.0f} s"
        understood = (
            number
            for number, raw_line in enumerate(raw, 1)
            if log_lines.FORM.match(raw_line) and _AGENT not in raw_line
        )
        return reading.Reading(
            reading.OutputKind.KERNEL_LOG,
            f"kernel log, {len(raw)} line{'s' * (len(raw) != 1)}{over}",
            results,
            tuple(self._unread(text)),
            left_out=left_out,
            remedy=MORE_OF_IT,
            understood=frozenset(understood),
            hosts=tuple(self.excerpt.hosts),
        )

    def _refuse(self, raw: Sequence[str], lines: Sequence[log_lines.Line]) -> None:
        """Says why a text in which the kernel says nothing is not judged. Raises NotRecognised, Garbled."""
        if 2 * sum("\0" in text for text in raw) > len(raw):
            raise reading.Garbled("most lines have zero bytes, so the file is not text")
        if lines:
            message = "no line is proven to come from the kernel, and a log without kernel lines does not show a healthy machine"
            raise reading.Garbled(message)
        raise reading.NotRecognised("the text has no line in the form of a kernel log")

    def _put_in_order(self, lines: list[log_lines.Line]) -> tuple[str, ...]:
        """Turns a text round that begins with its newest line, and drops the starts of the kernel that answer nothing, because
        the text's own order is in doubt. Returns what that leaves unknown.
        """
        if self.excerpt.newest_first:
            lines.reverse()
        ordered = [line for line in lines if not _starts(line) or self.excerpt.answers(line)]
        dropped = len(lines) - len(ordered)
        lines[:] = ordered
        if not dropped:
            return ()
        reason = "the timestamps of this text are not in order, or do not show the order of the lines"
        return (
            f"kernel.xid restarts: {reason}; the lines are read as they stand, and restarts repair no earlier fault",
        )

    def _line(self, number: int, raw: str) -> list[log_lines.Line]:
        """The kernel's line in one of the text, or none. Its record is counted here, because `_put_in_order` drops lines."""
        line = log_lines.read_line(raw[:LINE_CHARACTERS].replace("\0", ""), self.now)
        if "\0" in raw:
            self._doubt("zero", f"line {number} has a zero byte: the text at that place is lost")
        if len(raw) > LINE_CHARACTERS:
            doubt = "is longer than any line of the kernel, so it was not read to its end"
            self._doubt("long", f"line {number} {doubt}")
        if line is None:
            return []
        if line.tagged or _DRIVER.match(line.message):
            self.excerpt.see(line)
            if line.record is not None:
                self.records.append(line.record)
        if _WITHIN.search(line.message):
            doubt = "an Xid in the middle, probably because two lines were merged. That Xid is not counted"
            self._doubt("within", f"line {number} has {doubt}")
        return [replace(line, number=number, record=None)]

    def _result_of(self, family: _Family, lines: list[log_lines.Line]) -> reading.CheckData | None:
        reader = log_source.Reader(family.find, self.now, math.inf)
        reader.take(lines)
        reader.lost += _gaps(self.records)
        log = reader.log("text")
        if not family.decides_restarts:
            log = boots_apart(log, lines, self.excerpt.newest_first)
        if not (family.always or log.this_boot):
            return None
        measured = family.measured(log)
        metrics: dict[str, Value] = {
            name: value
            for name, value in measured.metrics.items()
            if name not in TIMELESS or (name == "earlier_boot" and value)
        }
        if self.excerpt.first_record is None and not log.records_lost:
            metrics.pop("records_lost", None)  # only /dev/kmsg numbers its records
        covers_s = self.excerpt.covers_s
        if covers_s is not None and not self.excerpt.left_out():  # what is missing is said once, of the text
            metrics["covers_s"] = covers_s
        return reading.CheckData(family.check, metrics, measured.lines, measured.evidence)

    def _unread(self, text: str) -> Iterator[str]:
        if not text.endswith("\n"):
            yield "the last line is not complete: the text may be truncated"
        yield from filter(None, (self.excerpt.left_out(),))
        yield from self.doubts.values()

    def _doubt(self, about: str, doubt: str, complete: bool = False) -> None:
        self.doubts.setdefault(about, reading.Complete(doubt) if complete else doubt)


def boots_apart(log: Log, lines: Iterable[log_lines.Line], newest_first: bool) -> Log:
    """The log with what came before a restart apart, as a node's own clock would put it: what kernel.xid calls handled
    by a restart is a fault of an earlier boot for the other checks too.
    """
    starts = [event for event in xid.find(lines) if event.metric == EventMark.BOOT.value]
    if not starts:
        return log
    together = [*log.this_boot, *starts]
    together.sort(key=lambda event: event.line.number, reverse=newest_first)
    ordered = in_order(together)
    company = XidContext(ordered)
    closed = {id(entry.event) for entry in ordered if company.since(entry) is Since.REBOOTED}
    this_boot, earlier = list[log_lines.Event](), list[log_lines.Event]()
    for event in log.this_boot:
        (earlier if id(event) in closed else this_boot).append(event)
    return replace(log, this_boot=tuple(this_boot), earlier_boot=(*log.earlier_boot, *earlier))


def _gaps(records: Sequence[int]) -> int:
    """How many records of /dev/kmsg are missing, or stand where their number does not."""
    pairs = itertools.pairwise(records)
    return sum(max(after - before - 1, 1) for before, after in pairs if after != before + 1)


def _starts(line: log_lines.Line) -> bool:
    return line.message.startswith(log_source.START) and not line.facility


def _now() -> log_lines.Now:
    """The text says when, not how long ago: nothing in it is too old, and stamps since boot must not lie ahead."""
    return log_lines.Now(log_lines.UPTIME_S, time.time())
