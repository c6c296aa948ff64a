"""Lines of kernel logs: what the kernel wrote in each, and how long ago. Pure.

Only lines of the kernel count: a line of /dev/kmsg, of dmesg, or of a syslog whose tag is "kernel" (journalctl leaves out the host's
name if it is told to). Text that a program quotes is not at the start of such a line, so it does not match. Patterns make events of
the lines that report a fault; an event is shown to people as evidence, and as lines of a text.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache, partial

from checks.probes.sysfs import pci_id

DAY_S = 86400.0
# The names in syslog of a machine whose name is not set yet: the kernel's default and that of most images.
NAMELESS = ("localhost", "(none)", "-")


@dataclass(frozen=True)
class Now:
    """The reader's clocks: seconds since boot (as the kernel's timestamps count), and since 1970. `boot_s` includes suspended time;
    without it no line counts as one of an earlier boot.
    """

    uptime_s: float
    epoch_s: float
    boot_s: float = math.inf


@dataclass(frozen=True)
class Line:
    """One line of the kernel. `age_s` is None without a timestamp, and 0 for a timestamp in the future (of another boot).

    `facility` is 0 for the kernel's own lines and 1 for lines that a program wrote into /dev/kmsg; text logs do not show it.
    `tagged`: the form of the line shows that the kernel wrote it; a line without that form may be any program's. `record` is the
    sequence number of /dev/kmsg, `number` the number of the line in a text, `host` the machine that a text log names.
    """

    message: str
    age_s: float | None
    facility: int = 0
    tagged: bool = False
    record: int | None = None
    number: int = 0
    host: str = ""


# journalctl, dmesg and grep print colours; in a file their codes would be in front of the words that decide.
_COLOUR = re.compile(r"\x1b\[[0-9;]*[mK]")
_KMSG = re.compile(r"(\d{1,9}),(\d{1,20}),(\d{1,20}),[^;]*;(.*)")
_SYSLOG = re.compile(r"([A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d)(?:\.\d+)? (.*)")
# Who wrote the line, if the kernel has CONFIG_PRINTK_CALLER: the console prints no blank before it, dmesg of util-linux 2.41 does.
_CALLER = r"(?: ?\[ *[TC]\d+\])?"
# ISO 8601; RFC 5424 has its version before the time; journalctl -o short-full has a day of the week and a zone's name.
_ISO = re.compile(
    r"(?:1 |[A-Z][a-z]{2} )?(\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d)(?:([.,])\d+)?"
    r"(Z|[+-]\d\d:?\d\d| [A-Z]{3,5}(?= \S+ \S+:)| [+-]\d\d)?" + _CALLER + " (.*)"
)
_UNIX = re.compile(r"(\d{9,10}\.\d{6}) (.*)")
# dmesg -d and journalctl -o short-delta add the time since the last line.
_AFTER_TIME = rf"(?: *<[ \d.+]*>| +)?\]{_CALLER} ?(.*)"
_CTIME = re.compile(r"\[([A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4})" + _AFTER_TIME)
_DMESG = re.compile(r"\[ *(\d+(?:\.\d+)?|\.\.\.)" + _AFTER_TIME)
# `dmesg -r` and `dmesg -x` (util-linux, sys-utils/dmesg.c) print who wrote the line, and its severity.
_LEVEL = re.compile(r"<(\d{1,3})>|([a-z]+\d?) *:[a-z]+ *: ")
# The name of a host does not end with a colon, but that of a program does. journald counts the kernel's lines that it missed.
_TAG = re.compile(
    r"(?:(\S*[^\s:]) )?(?:kernel(?:: | \S+ \S+ (?:-|\[.*?[^\\]\])+ (?:\ufeff)?)"
    r"|systemd-journald?\[\d+\]: (?=Missed \d+ kernel messages))"
)
# The beginning of a kernel line after a timestamp without a tag: the kernel's own timestamp, or the name of a driver.
_BARE = re.compile(r"\[ *\d+\.\d+\]|NVRM: \w|nvidia-nvswitch\d+: ")
_OTHER_TAG = re.compile(r"\S+ \S+\[\d+\]: ")
_PROGRAM = re.compile(r" \S+\[\d+\]: ")

# How a line of a log begins: a timestamp, the record of /dev/kmsg, the driver's own name, a note of journalctl, or the indentation
# under which a record goes on.
FORM = re.compile(
    r"(?:(?:\x1b\[[0-9;]*[mK]|\0)*(?:<\d{1,3}>|[a-z]+\d? *:[a-z]+ *: )?"
    r"(?:[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d|\[ *(?:\d+(?:\.\d+)?(?: *<[ \d.+]*>| +)?\]|\.\.\.\]|[A-Z][a-z]{2} [A-Z][a-z]{2} )"
    r"|(?:1 |[A-Z][a-z]{2} )?\d{4}-\d\d-\d\d[T ]|\d{9,10}\.\d{6} "
    r"|\d{1,9},\d{1,20},\d{1,20},|NVRM: |nvidia-nvswitch\d|(?: [A-Z_0-9]+=| {10,}|[ \t\0\r]*$)"
    r"|--(?:$| (?:Logs begin|Journal begins|Boot|Reboot|No entries))))"
)


def read_line(raw: str, now: Now) -> Line | None:
    """The kernel's line in a line of a text log; None for lines of other programs and blank lines."""
    text = _COLOUR.sub("", raw).strip()
    if _KMSG.fullmatch(text):
        return read_record(text, now)
    text, facility = _without_level(text)
    if match := _SYSLOG.fullmatch(text):
        line = _syslog_line(match[2], _age_of_syslog(match[1], now), now)
    elif match := _ISO.fullmatch(text):
        line = _iso_line(match, now)
    elif match := _UNIX.fullmatch(text):
        line = _syslog_line(match[2], _age(float(match[1]), now.epoch_s), now)
    elif match := _CTIME.fullmatch(text):
        age_s = _age(_local(match[1], "%a %b %d %H:%M:%S %Y"), now.epoch_s)
        line = Line(match[2].strip(), age_s, tagged=True)
    else:
        line = _inner(text, None, False, now) if text else None
    return replace(line, facility=facility) if line and facility else line


def read_record(raw: str, now: Now) -> Line | None:
    """The line of one record of /dev/kmsg ("6,1234,171167620236,-;NVRM: ..."); None if it is not a record."""
    match = _KMSG.fullmatch(raw.partition("\n")[0])
    if match is None:
        return None
    message = re.sub(r"\\x([0-9a-f]{2})", lambda code: chr(int(code[1], 16)), match[4])
    age_s = max(0.0, now.uptime_s - int(match[3]) / 1e6)
    return Line(message.strip(), age_s, int(match[1]) >> 3, tagged=True, record=int(match[2]))


def _without_level(text: str) -> tuple[str, int]:
    """The line without dmesg's facility and level, and the facility: 0 for the kernel, 1 for any program."""
    match = _LEVEL.match(text)
    if not match:
        return text, 0
    program = int(match[1]) >> 3 if match[1] else match[2] != "kern"
    return text[match.end() :], int(bool(program))


def _syslog_line(text: str, age_s: float | None, now: Now) -> Line | None:
    if tag := _TAG.match(text):
        return _inner(text[tag.end() :], age_s, True, now, _host(tag[1] or ""))
    nameless = text[:1] == " " and not _PROGRAM.match(text)  # rsyslog where neither host nor tag is known
    return _inner(text.lstrip(), age_s, nameless, now) if nameless or _BARE.match(text) else None


def _iso_line(match: re.Match[str], now: Now) -> Line | None:
    try:
        moment = datetime.fromisoformat(match[1] + _offset(match[3])).timestamp()
    except (ValueError, OverflowError):
        return _inner(match[4], None, False, now)
    age_s = _age(moment, now.epoch_s)
    if tag := _TAG.match(match[4]):
        return _inner(match[4][tag.end() :], age_s, True, now, _host(tag[1] or ""))
    # dmesg --time-format iso prints neither host nor tag, and a comma before the fraction.
    return None if _OTHER_TAG.match(match[4]) else _inner(match[4], age_s, match[2] == ",", now)


def _offset(zone: str | None) -> str:
    if not zone:
        return ""
    if zone in ("Z", " UTC", " GMT"):
        return "+00:00"
    if zone[1].isalpha():
        return ""
    return zone if ":" in zone else f"{zone.strip()[:3]}:{zone.strip()[3:] or '00'}"


def _host(name: str) -> str:
    """The name without its domain; "" for names that a machine has before it knows its own."""
    short = name if name[:1].isdigit() else name.partition(".")[0]  # an IP address has no domain
    return "" if short in NAMELESS else short


def _inner(text: str, age_s: float | None, tagged: bool, now: Now, host: str = "") -> Line:
    """A line without its outer timestamp. dmesg's own timestamp inside is less exact, and is not used."""
    text, facility = _without_level(text)
    match = _DMESG.fullmatch(text)
    if match:
        if age_s is None and match[1] != "...":
            age_s = max(0.0, now.uptime_s - float(match[1]))
        tagged = tagged or match[1] != "..."
        text = match[2]
    tag = None if tagged and not match else _TAG.match(text)  # journalctl -o short-monotonic
    return Line(text[tag.end() if tag else 0 :].strip(), age_s, facility, tagged, host=host)


def _age_of_syslog(stamp: str, now: Now) -> float | None:
    # These timestamps have no year: the year is used that gives the time nearest to now, at most a day in the future.
    year = time.localtime(now.epoch_s).tm_year
    moment = _local(f"{year} {stamp}", "%Y %b %d %H:%M:%S")
    if moment is not None and moment > now.epoch_s + DAY_S:
        moment = _local(f"{year - 1} {stamp}", "%Y %b %d %H:%M:%S")
    elif moment is not None and moment < now.epoch_s - 364 * DAY_S:
        moment = _local(f"{year + 1} {stamp}", "%Y %b %d %H:%M:%S")
    return _age(moment, now.epoch_s)


@lru_cache(maxsize=4096)
def _local(stamp: str, form: str) -> float | None:
    try:
        return time.mktime(time.strptime(stamp, form))  # these logs use local time
    except (ValueError, OverflowError):
        return None


def _age(moment: float | None, now_s: float) -> float | None:
    return None if moment is None else max(0.0, now_s - moment)


@dataclass(frozen=True)
class Event:
    """One line that reports a fault. `kind` is the metric that counts it; `code` is None if none can be read; `pci` may be "";
    `count` is how many faults the line itself reports.
    """

    metric: str
    line: Line
    code: int | None = None
    pci: str = ""
    text: str = ""
    count: int = 1


@dataclass(frozen=True)
class Find:
    """Finds events. It passes on only lines in which a message begins with `form`, an expression in the syntax of both Python and
    PCRE, so that a search for `form` misses nothing that would be found in the whole log.
    """

    form: str
    events: Callable[[Iterable[Line]], Iterator[Event]]

    def __call__(self, lines: Iterable[Line]) -> Iterator[Event]:
        begins = re.compile(self.form).match
        return self.events(line for line in lines if any(map(begins, messages(line))))


def matching(patterns: Iterable[tuple[str, re.Pattern[str]]]) -> Find:
    """Finds the events of kinds and their forms, at most one of each kind per line. The first words of a line decide, so that quoted
    text does not match.
    """
    forms = tuple(patterns)

    @partial(Find, "|".join(re.sub(r"\(\?P<\w+>", "(?:", form.pattern) for _, form in forms))
    def find(lines: Iterable[Line]) -> Iterator[Event]:
        for line in lines:
            for message in messages(line):
                metrics: set[str] = set()
                for metric, form in forms:
                    match = form.match(message)
                    if match and metric not in metrics:
                        metrics.add(metric)
                        groups = {"pci": "", "count": "1", **match.groupdict(None)}
                        count, pci = int(groups["count"] or "1"), pci_id(groups["pci"] or "")
                        yield Event(metric, line, None, pci, message, count)

    return find


def messages(line: Line) -> Iterator[str]:
    """The lines of a record, which may hold several."""
    for message in line.message.splitlines():
        if message.strip():
            yield message.strip()


MOST_LINES = 40
# Nobody knows when a text was read, so that timestamps since boot are counted from here: an age above the half of it is one
# of them, and cannot be mistaken for seconds since 1970.
UPTIME_S = 1e10
SINCE_BOOT_S = UPTIME_S / 2
# Processors print at the same time, so timestamps may go back by less than this. Text logs have timestamps of whole seconds.
JITTER_S = 1.0
# Judgement: no log is that old, but a clock that was not set yet says 1970.
MOST_AGE_S = 20 * 365 * 86_400.0


def account(events: Iterable[Event], names: dict[str, str] | None = None) -> str:
    """The newest events first, one per line: kind, code, device, age and the kernel's text."""
    lines = [_event_text(event, names or {}) for event in events]
    more = [f"[{len(lines) - MOST_LINES} older ones are not shown]"] if len(lines) > MOST_LINES else []
    return "\n".join([*reversed(lines[-MOST_LINES:]), *more])


def lines_of(events: Iterable[Event]) -> str:
    """The lines of a text that events come from ("17: ..."), each once, at most 40."""
    lines = dict.fromkeys(f"{event.line.number}: {event.line.message[:300]}" for event in events)
    return "\n".join(list(lines)[:MOST_LINES])


def _event_text(event: Event, names: dict[str, str]) -> str:
    code = "" if event.code is None else f" {event.code}"
    age = _when(event.line.age_s)
    author = f", written by a program (facility {event.line.facility})" if event.line.facility else ""
    device = names.get(event.pci, event.pci or "-")
    return f"{event.metric}{code} {device} ({age}{author}): {event.line.message[:300]}"


def _when(age_s: float | None) -> str:
    """ "44 s ago", for a text's timestamp since boot "44 s after the kernel's start"; an impossible time is no age."""
    if age_s is None:
        return "no time"
    if age_s > SINCE_BOOT_S:
        return f"{UPTIME_S - age_s:.0f} s after the kernel's start"
    return f"{age_s:.0f} s ago" if age_s < MOST_AGE_S else "its clock was not set"
