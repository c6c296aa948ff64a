"""kernel.xid: what NVIDIA's driver reported of its GPUs, by what has to be done about it.

The table checks/facts/xid.json says for each code what it needs; 154 and 144 to 150 say it in their own line.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from pathlib import Path

from checks.check import Context, Measurement, Skipped, check
from checks.decode import decode, parse_json
from checks.kernel import source
from checks.kernel.account import account, before_this_boot, lines_of
from checks.kernel.events import Event, messages
from checks.kernel.lines import Line, pci_id
from checks.model import Scope, Value

TABLE = Path(__file__).parents[1] / "facts" / "xid.json"
GPUS = Path("/proc/driver/nvidia/gpus")
RECOVERY_ACTION = 154
UNNAMED = "a GPU that the line does not name"
NO_GPU = "no GPU"

# The driver prints "NVRM: Xid (PCI:...): <code>, ..."; a line with this tag and no readable code still counts.
_XID = re.compile(r"NVRM: Xid\b(?: \((?:PCI:)?([0-9A-Fa-f:.]+)[^)]*\): (\d{1,9})\b(?:,\s*(.*))?)?", re.DOTALL)
_OFF_BUS = re.compile(r"NVRM: .*fallen off the bus")
_GPU_NAMED = re.compile(r"NVRM: .*?([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}(?:\.[0-7])?)")
_NEW_ACTION = re.compile(r"GPU recovery action changed from \S+ \([^)]*\) to \S+ \(([^)]+)\)")
_SEVERITY = re.compile(r"\b(Nonfatal|Non-fatal|(?:Link )?Fatal)\b")


class Need(str, Enum):
    """What an Xid needs; the value is the metric that counts it."""

    ACT = "act"
    SUPPORT = "support"
    APPLICATION = "application"
    ROUTINE = "routine"
    TEXT = "text"
    UNKNOWN = "unknown"
    UNREAD = "unread"


COUNTED = (Need.ACT, Need.SUPPORT, Need.APPLICATION, Need.UNKNOWN, Need.UNREAD)


@dataclass(frozen=True)
class Row:
    """One code: what it needs and who says so. TEXT: the line itself tells."""

    code: int
    name: str
    need: Need
    source: str


@dataclass(frozen=True)
class _Table:
    source: str
    xids: tuple[Row, ...]


@lru_cache(maxsize=1)
def table() -> dict[int, Row]:
    """The shipped table, by code."""
    return {row.code: row for row in decode(_Table, parse_json(TABLE.read_bytes(), 1 << 20)).xids}


def need_of(code: int | None, text: str) -> Need:
    """What an Xid with this code and text needs. A text that should tell and does not is UNREAD."""
    if code is None:
        return Need.UNREAD
    row = table().get(code)
    if row is None:
        return Need.UNKNOWN
    if row.need is not Need.TEXT:
        return row.need
    if code == RECOVERY_ACTION:
        action = _NEW_ACTION.search(text)
        if action is None:
            return Need.UNREAD
        return Need.ROUTINE if action[1].strip() == "None" else Need.ACT
    severity = _SEVERITY.search(text)
    if severity is None:
        return Need.UNREAD
    return Need.SUPPORT if severity[1].startswith("Non") else Need.ACT


def find(lines: Iterable[Line]) -> Iterator[Event]:
    """The Xids among the kernel's lines, and GPUs that fell off the bus without one; `kind` is a Need."""
    named = ""
    for line in lines:
        if line.message.startswith("NVRM: The NVIDIA GPU"):
            named = _pci_in(line.message)  # the driver names the GPU in one line and its fate in a later one
        for message in messages(line):
            if found := _XID.match(message):
                code = int(found[2]) if found[2] else None
                need = need_of(code, found[3] or "")
                yield Event(need.value, line, code, pci_id(found[1] or ""), message)
            elif _OFF_BUS.match(message):
                yield Event(Need.ACT.value, line, None, _pci_in(message) or named, message)


@check(
    "kernel.xid",
    Scope.NODE,
    timeout_s=30,
    metrics=("covers_s", "records_lost", "gpus", "earlier_boot", *(need.value for need in COUNTED)),
    needs=f"{source.KMSG}, journalctl, a kernel log file, or ${source.FILE_VARIABLE}",
    closing=True,
)
def xid(context: Context) -> Measurement | Skipped:
    """Counts the Xids of each GPU in the kernel's log, by what has to be done about them.

    Lines, not incidents, of this boot and the last `window_s` seconds (an option, a day by default): one number a GPU
    of `gpus`, which ends with those that are named in the log and not listed on this node. `act`: reset, restart or
    replace, GPUs that fell off the bus among them. `support`: the maker's catalogue wants it looked at.
    `application`: a program's fault as a rule. `unknown`: codes that are not in the table. `unread`: a form without a
    code, or without the words that decide. `routine` is counted for the record. `earlier_boot`: those that need an act,
    within the window, before this boot.
    """
    log = source.read(context, find)
    return log if isinstance(log, Skipped) else measured(log, listed_gpus(GPUS))


def listed_gpus(folder: Path) -> tuple[str, ...]:
    """PCI addresses of the driver's GPUs, in the order in which NVML numbers them; none without a driver."""
    try:
        return tuple(sorted(pci for path in folder.iterdir() if (pci := pci_id(path.name))))
    except OSError:
        return ()


def measured(log: source.Log, gpus: Sequence[str]) -> Measurement:
    """The log's Xids by GPU."""
    names = {pci: f"GPU {index} ({pci})" for index, pci in enumerate(gpus)}
    for event in log.recent:
        strange = f"{event.pci}, not listed as a GPU of this node" if gpus else f"GPU at {event.pci}"
        names.setdefault(event.pci, strange if event.pci else UNNAMED)
    names = names or {"": NO_GPU}
    tally = Counter((event.kind, event.pci) for event in log.recent)
    metrics: dict[str, Value] = {
        **log.metrics(),
        "gpus": tuple(names.values()),
        "codes": codes(log.recent),
        "earlier_boot": sum(event.kind == Need.ACT.value for event in log.earlier_boot),
        **{need.value: tuple(tally[need.value, pci] for pci in names) for need in (*COUNTED, Need.ROUTINE)},
    }
    told = (account(log.recent, names), before_this_boot(log.earlier_boot))
    evidence = [f"source: {log.source}", *log.notes, *told]
    lines = {
        need.value: text
        for need in COUNTED
        if (text := lines_of(event for event in log.recent if event.kind == need.value))
    }
    return Measurement(metrics, "\n".join(filter(None, evidence)), lines)


def codes(events: Iterable[Event]) -> str:
    """How often each code was seen: "79 (GPU_HAS_FALLEN_OFF_THE_BUS) x2, 31 (...) x1", or "none"."""
    tally = Counter(event.code for event in events)
    said = []
    for code, count in tally.most_common():
        row = table().get(code) if code is not None else None
        said.append(f"{code or 'without code'}{f' ({row.name})' if row else ''} x{count}")
    return ", ".join(said) or "none"


def _pci_in(message: str) -> str:
    found = _GPU_NAMED.match(message)
    return pci_id(found[1]) if found else ""
