"""kernel.sxid: what NVSwitches reported. Each incident counts once, although the driver prints several lines for it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import lru_cache, partial
from pathlib import Path

from checks.check import Context, Measurement, Skipped
from checks.facts.provenance import Provenance, shipped_rows
from checks.probes.kernel import log_source
from checks.probes.kernel.log import Log, log_check, measurement
from checks.probes.kernel.log_lines import Event, Find, Line, messages
from checks.probes.sysfs import pci_id

TABLE = Path(__file__).parents[2] / "facts" / "sxid.json"

_SXID = re.compile(
    r"nvidia-nvswitch\d+: SXid\b(?: \((?:PCI:)?([0-9A-Fa-f:.]+)[^)]*\): (\d{1,9})\b(.*))?", re.DOTALL
)
_SEVERITY = re.compile(r",\s*(Fatal|Non-fatal)\b")
# The second and third line of an incident show neither its severity nor its link.
_DETAIL = re.compile(r",\s*(?:Severity \d|Data\b)")


class SxidSeverity(str, Enum):
    """How serious an SXid is. The value is the metric that counts it."""

    FATAL = "fatal"
    NON_FATAL = "non_fatal"
    CORRECTED = "corrected"
    UNREAD = "unread"


COUNTED = (SxidSeverity.FATAL, SxidSeverity.NON_FATAL, SxidSeverity.UNREAD)
# Time alone does not settle these, but a restart of the machine does.
STAYS_OPEN = (SxidSeverity.FATAL.value, SxidSeverity.UNREAD.value)


@dataclass(frozen=True)
class SxidRow:
    """Codes of equal severity, for lines in which the driver does not print it."""

    severity: SxidSeverity
    codes: tuple[int, ...]
    provenance: Provenance


@lru_cache(maxsize=1)
def table() -> dict[int, SxidSeverity]:
    """The severity of each listed code."""
    return {code: entry.severity for entry in shipped_rows(TABLE, "sxids", SxidRow) for code in entry.codes}


def severity_of(code: int | None, rest: str) -> SxidSeverity:
    """The severity that the driver prints; else that of the table; UNREAD if neither says so."""
    if code is None:
        return SxidSeverity.UNREAD
    printed, listed = _SEVERITY.match(rest), table().get(code)
    if printed is not None and printed[1] == "Fatal":
        return SxidSeverity.FATAL
    if printed is not None:
        return SxidSeverity.CORRECTED if listed is SxidSeverity.CORRECTED else SxidSeverity.NON_FATAL
    return listed or SxidSeverity.UNREAD


@partial(Find, r"nvidia-nvswitch\d+: SXid\b")
def find(lines: Iterable[Line]) -> Iterator[Event]:
    """Every SXid line; `kind` is a Severity."""
    for line in lines:
        for message in messages(line):
            if match := _SXID.match(message):
                code = int(match[2]) if match[2] else None
                severity = severity_of(code, match[3] or "")
                yield Event(severity.value, line, code, pci_id(match[1] or ""), message)


def incidents(events: Sequence[Event]) -> tuple[Event, ...]:
    """The events without the lines that only add details to an incident."""
    complete = {(event.pci, event.code) for event in events if not _is_detail(event)}
    return tuple(event for event in events if not (_is_detail(event) and (event.pci, event.code) in complete))


def _is_detail(event: Event) -> bool:
    match = _SXID.match(event.text)
    return bool(match and match[3] and _DETAIL.match(match[3]))


@log_check("kernel.sxid", [severity.value for severity in COUNTED])
def sxid(context: Context) -> Measurement | Skipped:
    """Counts what NVSwitches report in the kernel's log: fatal, not fatal, and what cannot be read.

    Of this boot and the last `window_s` seconds; fatal ones and those that cannot be read of this boot, however old, since only
    a restart answers them. The driver's own word decides (Fatal, Non-fatal), and only where a line has none the table
    checks/facts/sxid.json. `corrected`, single-bit errors, is for the record. `unread`: neither tells.
    `earlier_boot`: fatal ones within the window before this boot.
    """
    log = log_source.read(context, find)
    return log if isinstance(log, Skipped) else measured(log)


def measured(log: Log) -> Measurement:
    """The log's SXids by severity."""
    log = replace(log, this_boot=incidents(log.this_boot))
    counted = log.counted(STAYS_OPEN)
    lines = {
        severity.value: [event for event in counted if event.metric == severity.value]
        for severity in SxidSeverity
    }
    before = [event for event in incidents(log.earlier_boot) if event.metric == SxidSeverity.FATAL.value]
    return measurement(log, counted, {metric: len(events) for metric, events in lines.items()}, lines, before)
