"""Lines of kernel logs -> what they say went wrong, and how long ago (pure).

Only what the kernel said counts: a line of /dev/kmsg, of dmesg, or of a syslog whose tag is "kernel". Text
that a program quotes is not at the start of such a line, so it is not matched.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from functools import lru_cache

DAY_S = 86400.0


class Kind(str, Enum):
    """What a line tells of; the value is the metric's name."""

    XID = "xid"
    SXID = "sxid"
    OFF_BUS = "off_bus"
    OOM_KILL = "oom_kill"
    MCE = "mce"
    EDAC_UE = "edac_ue"
    IO_ERROR = "io_error"
    LOCKUP = "lockup"


@dataclass(frozen=True)
class Now:
    """The reader's clocks: seconds since boot (as the kernel's stamps count), and since 1970."""

    uptime_s: float
    epoch_s: float


@dataclass(frozen=True)
class Line:
    """What the kernel said. `age_s` is None without a stamp, and 0 for one that lies ahead (another boot's).

    `facility` is 0 for the kernel's own, 1 for what a program wrote into /dev/kmsg; text logs do not tell.
    `tagged`: the line's own form shows that the kernel said it; a bare line might be anybody's.
    """

    message: str
    age_s: float | None
    facility: int = 0
    tagged: bool = False


@dataclass(frozen=True)
class Event:
    """One line that tells of a fault. `code` is None where none can be read; `pci` may be ""."""

    kind: Kind
    code: int | None
    pci: str
    line: Line


# The driver prints "NVRM: Xid (PCI:...): <code>, ..."; a line with this tag and no readable code still
# counts.
_XID = re.compile(r"NVRM: Xid\b(?: \((?:PCI:)?([0-9A-Fa-f:.]+)[^)]*\): (\d+)\b)?")
_SXID = re.compile(r"nvidia-nvswitch\d+: SXid\b(?: \((?:PCI:)?([0-9A-Fa-f:.]+)[^)]*\): (\d+)\b)?")
_OFF_BUS = re.compile(r"NVRM: .*fallen off the bus")
_GPU_NAMED = re.compile(r"NVRM: .*?([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}(?:\.[0-7])?)")
# Forms from Linux 4.x to 6.x, gpud and the EKS node monitoring agent. Floppy and CD drives of virtual
# machines report I/O errors on healthy nodes.
_DISK = r"(?!fd\d|sr\d)\S+"
_PLAIN: tuple[tuple[Kind, re.Pattern[str]], ...] = (
    (Kind.OOM_KILL, re.compile(r"(?:Out of memory[^:]*: |Memory cgroup out of memory: )?Killed process \d+")),
    (
        Kind.MCE,
        re.compile(
            r"(?:mce: |\{\d+\})?\[Hardware Error\]|Memory failure: 0x|Kernel panic .*[Mm]achine check"
        ),
    ),
    (Kind.EDAC_UE, re.compile(r"EDAC \S+ (?:\d+ )?UE\b")),
    (
        Kind.LOCKUP,
        re.compile(r"(?:NMI )?watchdog: (?:BUG: soft lockup|Watchdog detected hard LOCKUP)|BUG: soft lockup"),
    ),
    (Kind.IO_ERROR, re.compile(r"nvme nvme\d+: I/O .*\b(?:timeout|reset controller)")),
    (Kind.IO_ERROR, re.compile(r"nvme nvme\d+: (?:Disabling|Removing|disabling|removing) device after")),
    (Kind.IO_ERROR, re.compile(r"block nvme\S+ no available path - failing I/O")),
    (Kind.IO_ERROR, re.compile(rf"Buffer I/O error on dev(?:ice)? {_DISK}")),
    (Kind.IO_ERROR, re.compile(rf"(?:\w+: )?(?:I/O|critical (?:medium|target)) error, dev {_DISK}")),
    (Kind.IO_ERROR, re.compile(r".*\bRemounting filesystem read-only|.*I/O error while writing superblock")),
    (
        Kind.IO_ERROR,
        re.compile(r"XFS .*(?:log I/O error|[Ss]hutting down filesystem)|md/raid.*: Disk failure on"),
    ),
)

_KMSG = re.compile(r"(\d+),(\d+),(\d+),[^;]*;(.*)")
_SYSLOG = re.compile(r"([A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d) \S+ (?:kernel: (.*)|.*)")
_ISO = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:([.,])\d+)?(Z|[+-]\d\d:?\d\d)? (.*)")
_CTIME = re.compile(r"\[([A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4})\] ?(.*)")
_DMESG = re.compile(r"\[ *(\d+(?:\.\d+)?|\.\.\.)\](?:\[ *[TC]\d+\])? ?(.*)")
_LEVEL = re.compile(r"<\d+>|[a-z]+ *:[a-z]+ *: ")
_TAG = re.compile(r"\S+ kernel: ")
_OTHER_TAG = re.compile(r"\S+ \S+\[\d+\]: ")


def parse(text: str, now: Now) -> tuple[Event, ...]:
    """The faults that a text tells of, in its order."""
    said = (line for raw in text.splitlines() if (line := read_line(raw, now)))
    return tuple(events(said))


def events(lines: Iterable[Line]) -> Iterator[Event]:
    """The faults among the kernel's lines, in their order."""
    named = ""
    for line in lines:
        if line.message.startswith("NVRM: The NVIDIA GPU"):
            named = _pci_in(line.message)  # the driver names the GPU in one line and its fate in a later one
        for event in _events_of(line):
            if event.kind is Kind.OFF_BUS and not event.pci:
                event = Event(event.kind, event.code, named, line)
            yield event


def read_line(raw: str, now: Now) -> Line | None:
    """What the kernel said in a line of a text log; None for other programs' lines and blank ones."""
    text = raw.strip()
    if _KMSG.fullmatch(text):
        return read_record(text, now)
    if found := _SYSLOG.fullmatch(text):
        return None if found[2] is None else _inner(found[2], _age_of_syslog(found[1], now), True, now)
    if found := _ISO.fullmatch(text):
        return _iso_line(found, now)
    if found := _CTIME.fullmatch(text):
        age_s = _age(_local(found[1], "%a %b %d %H:%M:%S %Y"), now.epoch_s)
        return Line(found[2].strip(), age_s, tagged=True)
    return _inner(text, None, False, now) if text else None


def read_record(raw: str, now: Now) -> Line | None:
    """The line of one record of /dev/kmsg ("6,1234,171167620236,-;NVRM: ..."); None if it is none."""
    found = _KMSG.fullmatch(raw.partition("\n")[0])
    if found is None:
        return None
    message = re.sub(r"\\x([0-9a-f]{2})", lambda code: chr(int(code[1], 16)), found[4])
    return Line(
        message.strip(), max(0.0, now.uptime_s - int(found[3]) / 1e6), int(found[1]) >> 3, tagged=True
    )


def pci_id(text: str) -> str:
    """One spelling of a PCI address: "00000000:B9:00", "b9:00.0" and "PCI:0000:b9:00" are "0000:b9:00.0"."""
    found = re.search(r"(?:([0-9A-Fa-f]+):)?([0-9A-Fa-f]{2}):([0-9A-Fa-f]{2})(?:\.([0-7]))?$", text.strip())
    if not found:
        return ""
    domain = int(found[1] or "0", 16)
    return f"{domain:04x}:{found[2].lower()}:{found[3].lower()}.{found[4] or '0'}"


def _events_of(line: Line) -> Iterator[Event]:
    # A record may hold several lines; the first words decide, so that quoted text is not matched.
    for message in line.message.splitlines():
        message = message.strip()
        if found := _XID.match(message):
            yield Event(Kind.XID, int(found[2]) if found[2] else None, pci_id(found[1] or ""), line)
        if found := _SXID.match(message):
            yield Event(Kind.SXID, int(found[2]) if found[2] else None, pci_id(found[1] or ""), line)
        if _OFF_BUS.match(message) or (message.startswith("NVRM: Xid") and re.search(r"\): 79\b", message)):
            yield Event(Kind.OFF_BUS, None, _pci_in(message), line)
        for kind in dict.fromkeys(kind for kind, pattern in _PLAIN if pattern.match(message)):
            yield Event(kind, None, "", line)


def _pci_in(message: str) -> str:
    found = _GPU_NAMED.match(message)
    return pci_id(found[1]) if found else ""


def _iso_line(found: re.Match[str], now: Now) -> Line | None:
    try:
        moment = datetime.fromisoformat(found[1] + _offset(found[3])).timestamp()
    except (ValueError, OverflowError):
        return _inner(found[4], None, False, now)
    age_s = _age(moment, now.epoch_s)
    if tag := _TAG.match(found[4]):
        return _inner(found[4][tag.end() :], age_s, True, now)
    # dmesg --time-format iso has neither host nor tag, and writes its fraction with a comma.
    return None if _OTHER_TAG.match(found[4]) else _inner(found[4], age_s, found[2] == ",", now)


def _offset(zone: str | None) -> str:
    if not zone:
        return ""
    return "+00:00" if zone == "Z" else zone if ":" in zone else f"{zone[:3]}:{zone[3:]}"


def _inner(text: str, age_s: float | None, tagged: bool, now: Now) -> Line:
    """A line without its outer stamp. dmesg's own, if inside, is less sure than that and used without it."""
    level = _LEVEL.match(text)
    text = text[level.end() :] if level else text
    found = _DMESG.fullmatch(text)
    if not found:
        return Line(text.strip(), age_s, tagged=tagged)
    if age_s is None and found[1] != "...":
        age_s = max(0.0, now.uptime_s - float(found[1]))
    return Line(found[2].strip(), age_s, tagged=tagged or found[1] != "...")


def _age_of_syslog(stamp: str, now: Now) -> float | None:
    # These stamps have no year: the one that brings them nearest to now, but not ahead by more than a day.
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
        return time.mktime(time.strptime(stamp, form))  # these logs write local time
    except (ValueError, OverflowError):
        return None


def _age(moment: float | None, now_s: float) -> float | None:
    return None if moment is None else max(0.0, now_s - moment)
