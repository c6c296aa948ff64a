"""What the log has besides an Xid: other faults of its GPU, how often it came, and what happened since. Pure.

Some lines are no fault of a GPU and still say what became of one: a start, a reset, the driver's version.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

from checks.probes.kernel import sxid
from checks.probes.kernel.log_lines import JITTER_S, SINCE_BOOT_S, Event, Line
from checks.probes.kernel.sxid import SxidSeverity
from checks.probes.kernel.xid_catalogue import Need, Since
from checks.probes.sysfs import pci_id

_DRIVER = re.compile(r"NVRM: loading NVIDIA UNIX .*?Kernel Module\D*(\d{3,4}\.\d{1,4}[.\d]*)")
_UUID = re.compile(r"NVRM: GPU at PCI:([0-9A-Fa-f:.]+): (GPU-[0-9a-fA-F-]{1,64})")
_RESET = re.compile(r"GPU reset executed: (GPU-[0-9a-fA-F-]{1,64}), success: true\b")
_BRANCH = re.compile(r"\b(\d{3,4})\.\d")


class EventMark(str, Enum):
    """The kind of an event that no metric counts."""

    BOOT = "boot"
    RESET = "reset"
    DRIVER = "driver"
    SXID = "sxid"


MARKS = frozenset(mark.value for mark in EventMark)


def marks(line: Line, message: str, gpus: dict[str, str]) -> Iterator[Event]:
    """The mark in a message, if any. `gpus` (name -> PCI address) learns from it."""
    if match := _UUID.match(message):
        gpus[match[2].lower()] = pci_id(match[1])
    elif _DRIVER.match(message):
        yield Event(EventMark.DRIVER.value, line, text=message)
    elif message.startswith("Linux version ") and not line.facility:
        yield Event(EventMark.BOOT.value, line, text=message)
    elif (match := _RESET.match(message)) and (pci := gpus.get(match[1].lower(), "")):
        yield Event(EventMark.RESET.value, line, None, pci, message)
    elif "SXid" in message and any(hit.metric != SxidSeverity.CORRECTED.value for hit in sxid.find([line])):
        yield Event(EventMark.SXID.value, line, text=message)


def branch_of(text: str) -> int | None:
    """The driver's branch (570) in a text such as its own line or /proc/driver/nvidia/version; None if there is none."""
    match = _BRANCH.search(text)
    return int(match[1]) if match else None


# Judgement: one fault's Xids come within seconds; a job that is ended by one takes some minutes at most.
TOGETHER_S = 300.0
# Judgement: a CUDA kernel that faults prints lines for many units at once; a minute later it is another launch.
BURST_S = 60.0
APART_S = 10 * TOGETHER_S
RECOVERY_ACTION = 154
# Xid 13 names a place on the GPU, 31 does not. Only repetition shows whether the program or the GPU is the reason.
PLACED = 13
REPEATING = (PLACED, 31)
# The kinds that are not routine by themselves, and from which another Xid may follow.
NOTABLE = (Need.ACT, Need.SUPPORT, Need.APPLICATION, Need.UNKNOWN, Need.UNREAD)
_CLEARED = re.compile(r"GPU recovery action changed from .* to \S+ \(None\)")
_LOCATION = re.compile(r"\(GPC (\d+), TPC (\d+)")
_LINK = re.compile(r"on (link \d{1,3})\s*\(")


@dataclass(frozen=True)
class OrderedEvent:
    """An event, its index in the log, and its time in seconds (that of its index if lines have no time).

    `host` is only set if the log is of several machines, whose GPUs have the same addresses.
    """

    event: Event
    turn: int
    moment_s: float
    host: str = ""

    @property
    def gpu(self) -> str:
        """The name of the GPU; "" if the line names none."""
        return f"{self.host} {self.event.pci}" if self.host and self.event.pci else self.event.pci


def in_order(events: Iterable[Event]) -> list[OrderedEvent]:
    """The events in the order of time: in the order of a text, or by age if two sources were read."""
    listed = list(events)
    ages = [event.line.age_s for event in listed]
    several = len({event.line.host for event in listed} - {""}) > 1
    if None in ages:
        return [
            OrderedEvent(event, turn, 0.0, event.line.host * several) for turn, event in enumerate(listed)
        ]
    if not all(event.line.number for event in listed):
        listed.sort(key=lambda event: -(event.line.age_s or 0.0))
    return list(_monotonic(listed, several))


def _monotonic(events: Iterable[Event], several: bool) -> Iterator[OrderedEvent]:
    """Times that never go back: if timestamps do, those of another start or another clock begin, and no events belong together."""
    shift_s, last_s = 0.0, -math.inf
    for turn, event in enumerate(events):
        moment_s = shift_s - (event.line.age_s or 0.0)
        if moment_s < last_s - BURST_S:
            shift_s += last_s + APART_S - moment_s
            moment_s = last_s + APART_S
        last_s = max(moment_s, last_s)
        yield OrderedEvent(event, turn, last_s, event.line.host * several)


class XidContext:
    """Finds events near an event. The time for this hardly grows with the log."""

    def __init__(self, ordered: Sequence[OrderedEvent]) -> None:
        self._moments: dict[tuple[str, int | None, str], list[float]] = defaultdict(list)
        self._links: dict[tuple[str, str], int] = defaultdict(int)
        self._marks: dict[tuple[Since, str, bool], list[tuple[int, float]]] = defaultdict(list)
        self._bursts: dict[tuple[str, int, str], tuple[int, float]] = {}
        for entry in ordered:
            self._note(entry)
        for moments in self._marks.values():
            for at in range(len(moments) - 2, -1, -1):  # for each event: the smallest age from here on
                moments[at] = (moments[at][0], min(moments[at][1], moments[at + 1][1]))
        self._codes: dict[str, dict[int, list[str]]] = defaultdict(lambda: defaultdict(list))
        for gpu, code, need in self._moments:
            if code is not None:
                self._codes[gpu][code].append(need)

    def _note(self, entry: OrderedEvent) -> None:
        event = entry.event
        if event.metric == EventMark.BOOT.value:
            self._mark(Since.REBOOTED, entry.host, entry)
        elif event.metric == EventMark.RESET.value:
            self._mark(Since.RESET, entry.gpu, entry)
        elif event.metric != EventMark.DRIVER.value:
            sxid = event.metric == EventMark.SXID.value
            self._moments[entry.host if sxid else entry.gpu, event.code, event.metric].append(entry.moment_s)
            if event.code == RECOVERY_ACTION and _CLEARED.search(event.text):
                self._mark(Since.CLEARED, entry.gpu, entry)
            if match := _LINK.search(event.text):
                self._links[entry.gpu, match[1]] += 1
            if event.code in REPEATING:
                self._count(event.code, _location_of(event), entry)

    def _count(self, code: int, location: str, entry: OrderedEvent) -> None:
        key = (entry.gpu, code, location)
        times, last_s = self._bursts.get(key, (0, -1e300))
        self._bursts[key] = (times + (entry.moment_s - last_s > BURST_S), entry.moment_s)

    def _mark(self, since: Since, whose: str, entry: OrderedEvent) -> None:
        since_boot = _is_since_boot(entry.event.line.age_s)
        self._marks[since, whose, since_boot].append((entry.turn, _age(entry, since)))

    def since(self, entry: OrderedEvent) -> Since:
        """What settles most of what happened before it: it is later in the log, and has a later timestamp of the same clock.

        A line that is later in a text and has an earlier time was inserted: `cat messages*`, or two clocks.
        """
        gpu, since_boot = entry.gpu, _is_since_boot(entry.event.line.age_s)
        if entry.event.line.age_s is None:
            return Since.NOTHING
        for since, whose in ((Since.REBOOTED, entry.host), (Since.CLEARED, gpu), (Since.RESET, gpu)):
            later = self._marks.get((since, whose, since_boot), []) if gpu or since is Since.REBOOTED else []
            first = bisect_left(later, (entry.turn, -math.inf))
            slack_s = 0.0 if since is Since.REBOOTED else JITTER_S
            if first < len(later) and later[first][1] - slack_s < _age(entry, since):
                return since
        return Since.NOTHING

    def other(
        self, entry: OrderedEvent, but: tuple[int, ...], kinds: tuple[Need, ...] = NOTABLE
    ) -> int | None:
        """The code of another fault of the same GPU at the same time, of these kinds; None if there is none."""
        codes = self._codes.get(entry.gpu, {})
        return next((code for code in codes if code not in but and self._near(entry, code, kinds)), None)

    def codes_near(
        self, entry: OrderedEvent, among: tuple[int, ...], kinds: tuple[Need, ...] = tuple(Need)
    ) -> str:
        """ "63 and 64": which of these codes the same GPU reports at the same time; "" if none."""
        return " and ".join(str(code) for code in among if self._near(entry, code, kinds))

    def sxid(self, entry: OrderedEvent) -> bool:
        """Whether an NVSwitch reports something at the same time."""
        return _is_near(self._moments.get((entry.host, None, EventMark.SXID.value), ()), entry.moment_s)

    def times(self, entry: OrderedEvent, link: str) -> int:
        """How often the GPU reports this link."""
        return self._links[entry.gpu, link]

    def again(self, entry: OrderedEvent) -> bool:
        """Whether the GPU reports the code more than once."""
        return len(self._moments[entry.gpu, entry.event.code, entry.event.metric]) > 1

    def bursts(self, entry: OrderedEvent) -> tuple[int, bool]:
        """At how many times, a minute apart, its place on the GPU faulted; and whether another GPU reported the same code."""
        gpu, code, location = entry.gpu, entry.event.code, _location_of(entry.event)
        elsewhere = any(code in codes for other, codes in self._codes.items() if other != gpu)
        times = self._bursts.get((gpu, code or 0, location), (1, 0.0))[0]
        return (1 if code == PLACED and not location else times), elsewhere

    def _near(self, entry: OrderedEvent, code: int, kinds: tuple[Need, ...]) -> bool:
        gpu = entry.gpu
        return any(_is_near(self._moments.get((gpu, code, need.value), ()), entry.moment_s) for need in kinds)


def _is_since_boot(age_s: float | None) -> bool:
    return age_s is not None and age_s > SINCE_BOOT_S


def _age(entry: OrderedEvent, since: Since) -> float:
    """A number from a line's age that is smaller for what came later; infinite without a timestamp.

    A start of the kernel begins new timestamps: those after it are smaller, although the lines are later.
    """
    age_s = entry.event.line.age_s
    if age_s is None:
        return math.inf
    return -age_s if since is Since.REBOOTED and age_s > SINCE_BOOT_S else age_s


def _is_near(moments: Sequence[float], moment_s: float) -> bool:
    first = bisect_left(moments, moment_s - TOGETHER_S)
    return first < len(moments) and moments[first] <= moment_s + TOGETHER_S


def _location_of(event: Event) -> str:
    match = _LOCATION.search(event.text) if event.code == PLACED else None
    return match[0] if match else ""
