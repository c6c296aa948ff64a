"""A kernel's log in a text -> what kernel.xid, kernel.sxid and kernel.hardware make of it: a dump of /dev/kmsg, dmesg with any
stamp, the journal, /var/log/messages.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from checks.check import Check, Measurement
from checks.explain.reading import Asked, Broken, Kind, NotRecognised, Part, Reading
from checks.kernel import hardware, source, sxid, xid
from checks.kernel.events import Find
from checks.kernel.lines import Line, Now, read_line
from checks.model import Value

LOOKED_AT = 5000
# The text says when, not how long ago: nothing in it is too old, and stamps since boot must not lie ahead.
UPTIME_S = 1e10
_DRIVER = re.compile(r"NVRM: \w|nvidia-nvswitch\d+: ")
# Facts that only a log that is read now has: see kernel.xid.
TIMELESS = ("covers_s", "earlier_boot", "window_s", "older_events", "source")


@dataclass(frozen=True)
class _Family:
    check: Check
    find: Find
    measured: Callable[[source.Log], Measurement]


FAMILIES = (
    _Family(xid.xid, xid.find, lambda log: xid.measured(log, ())),
    _Family(sxid.sxid, sxid.find, sxid.measured),
    _Family(hardware.hardware, hardware.find, hardware.measured),
)


def detect(text: str) -> bool:
    """Whether the text is a kernel's log: some line's own form says that the kernel wrote it."""
    now = Now(UPTIME_S, time.time())
    raw = text.splitlines()
    return any(_speaks(line) for part in raw[:LOOKED_AT] if (line := read_line(part, now)) is not None)


def read(text: str, asked: Asked) -> Reading:
    """What the text tells. Raises NotRecognised, and Broken where the kernel says nothing."""
    now = Now(UPTIME_S, time.time())
    lines = [
        replace(line, number=number)
        for number, raw in enumerate(text.splitlines(), 1)
        if (line := read_line(raw, now)) is not None
    ]
    if not lines:
        raise NotRecognised("the text holds no line that a kernel's log could have")
    said = [line for line in lines if _speaks(line)]
    if not said:
        raise Broken(
            "no line shows that the kernel wrote it: a log in which it says nothing is no healthy one"
        )
    ages = [line.age_s for line in said if line.age_s is not None]
    parts = tuple(_part(family, lines, ages, now) for family in FAMILIES)
    title = f"kernel log, {len(said)} lines of the kernel's" + (
        f" over {max(ages) - min(ages):.0f} s" if ages else ""
    )
    return Reading(Kind.KERNEL_LOG, title, parts, tuple(_doubts(text, lines, ages)))


def _part(family: _Family, lines: list[Line], ages: list[float], now: Now) -> Part:
    reader = source.Reader(family.find, now, math.inf)
    reader.take(lines)
    log = reader.log("text")
    measured = family.measured(log)
    metrics: dict[str, Value] = {
        name: value for name, value in measured.metrics.items() if name not in TIMELESS
    }
    if not any(line.record is not None for line in lines):
        del metrics["records_lost"]  # only /dev/kmsg numbers its records
    if ages:
        metrics["covers_s"] = max(ages) - min(ages)
    return Part(family.check.name, metrics, measured.lines, measured.evidence)


def _doubts(text: str, lines: list[Line], ages: list[float]) -> list[str]:
    doubts = []
    if not text.endswith("\n"):
        doubts.append(f"the text ends within line {len(text.splitlines())}: it may be cut")
    if not ages:
        doubts.append("no line has a time: nobody can tell how much of the log this is")
    numbered = [line for line in lines if line.record is not None]
    if numbered and (first := numbered[0].record):
        doubts.append(f"the text begins at record {first}: what came before is missing")
    return doubts


def _speaks(line: Line) -> bool:
    return line.tagged or bool(_DRIVER.match(line.message))
