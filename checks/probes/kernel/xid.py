"""kernel.xid: what NVIDIA's driver reported about its GPUs, by what has to be done about it.

checks/probes/kernel/xid_decision.py decides; this module finds the lines and puts the answers into metrics, one per GPU and one per
incident, so that the answers of another maker or cloud (checks/judge/xid_overlay.py) can be applied to an old report, too.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from checks.check import Context, Measurement, Skipped, lists_gpus
from checks.model import Value
from checks.model_details import Contents
from checks.probes.kernel import log_source, sxid
from checks.probes.kernel.log import Log, log_check, measurement
from checks.probes.kernel.log_lines import Event, Find, Line, messages
from checks.probes.kernel.xid_catalogue import Need, table
from checks.probes.kernel.xid_context import MARKS, branch_of, marks
from checks.probes.kernel.xid_decision import decide_line, incidents
from checks.probes.kernel.xid_rows import AGES, ARRAYS, LISTED, arrays, rows_of
from checks.probes.sysfs import pci_id, text_of

GPUS = Path("/proc/driver/nvidia/gpus")
VERSION = Path("/proc/driver/nvidia/version")
UNNAMED = "an unnamed GPU"
NO_GPU = "no GPU"

# The driver prints "NVRM: Xid (PCI:...): <code>, ..."; a line with this tag and no readable code still counts.
_XID = re.compile(r"NVRM: Xid\b(?: \((?:PCI:)?([0-9A-Fa-f:.]+)[^)]*\): (\d{1,9})\b(?:,\s*(.*))?)?", re.DOTALL)
# What the driver says of a GPU without an Xid.
_WITHOUT_CODE = re.compile(r"NVRM: .*(?:fallen off the bus|GPU likely needs to be reset)")
_GPU_NAMED = re.compile(r"NVRM: .*?([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}(?:\.[0-7])?)")

COUNTED = (Need.ACT, Need.SUPPORT, Need.APPLICATION, Need.HANDLED, Need.UNKNOWN, Need.UNREAD)


@partial(Find, f"NVRM: |Linux version |GPU reset executed: |{sxid.find.form}")
def find(lines: Iterable[Line]) -> Iterator[Event]:
    """The Xids among the kernel's lines, and GPUs that fell off the bus without one; `kind` is what each calls for by itself.

    Marks (checks.probes.kernel.xid_context) are among them: lines about a start, a reset, the driver's version.
    """
    gpu_address, gpus = "", dict[str, str]()
    for line in lines:
        if line.message.startswith("NVRM: The NVIDIA GPU"):
            # The driver names the GPU in one line and says in a later one what happened to it.
            gpu_address = _pci_in(line.message)
        for message in messages(line):
            if match := _XID.match(message):
                code = int(match[2]) if match[2] else None
                need = decide_line(code, match[3] or "").need
                yield Event(need.value, line, code, pci_id(match[1] or ""), message)
            elif _WITHOUT_CODE.match(message):
                yield Event(Need.ACT.value, line, None, _pci_in(message) or gpu_address, message)
            else:
                yield from marks(line, message, gpus)


@log_check(
    "kernel.xid",
    ("gpus", "incidents", *(need.value for need in COUNTED)),
    holds=lambda basis: (*lists_gpus(basis), Contents("event_gpus", along=(*ARRAYS, AGES))),
)
def xid(context: Context) -> Measurement | Skipped:
    """Counts the Xids of each GPU in the kernel's log, by what has to be done about them.

    Lines, not incidents, of this boot and the last `window_s` seconds (an option, a day by default), and older ones of this
    boot that call for an action which nothing in the log answers: one number a GPU of `gpus`, which ends with those that
    are named in the log and not listed on this node. `act`: reset, restart or
    replace, GPUs that fell off the bus among them. `handled`: the same, and the log shows the GPU reset, its driver's
    demand withdrawn or the machine restarted since. `support`: the maker's catalogue wants it looked at.
    `application`: a program's fault as a rule. `unknown`: codes that are not in the table. `unread`: a form without a
    code, or without the words that decide. `routine` is counted for the record, with what only follows from another.
    `earlier_boot`: those that need an act, within the window, before this boot.

    `incidents` counts groups of lines that call for the same; the arrays `event_*` have a value for each, the gravest
    first, and are absent where there is none: GPU, code (0 for none), lines, what it needs, action, why, source, what
    happened since, its last line, and how many seconds ago that was (-1 without a time).
    """
    log = log_source.read(context, find)
    return log if isinstance(log, Skipped) else measured(log, listed_gpus(GPUS), branch_of(text_of(VERSION)))


def listed_gpus(folder: Path) -> tuple[str, ...]:
    """The PCI addresses of the driver's GPUs, in the order in which NVML numbers them; none without a driver."""
    try:
        return tuple(sorted(pci for path in folder.iterdir() if (pci := pci_id(path.name))))
    except OSError:
        return ()


def measured(log: Log, gpus: Sequence[str], driver: int | None = None) -> Measurement:
    """The Xids of the log by GPU and by incident."""
    grouped = incidents(log.this_boot, driver, log.window_s)
    counted = {id(event) for incident in grouped for event in incident.events}
    events = [event for event in log.this_boot if id(event) in counted]
    names = _names(events, gpus)
    tally: Counter[tuple[str, str]] = Counter()
    for incident in grouped:
        tally[incident.decision.need.value, incident.decision.pci] += incident.count
    acts = (Need.ACT, Need.HANDLED)
    before = [
        event
        for item in incidents(log.earlier_boot, driver)
        if item.decision.need in acts
        for event in item.events
    ]
    timed = math.isfinite(log.window_s)
    listed = rows_of(grouped, names, timed)
    metrics: dict[str, Value] = {
        "gpus": tuple(names.values()),
        "codes": codes(events),
        "incidents": len(grouped),
        **{need.value: tuple(tally[need.value, pci] for pci in names) for need in (*COUNTED, Need.ROUTINE)},
        **arrays(listed, timed),
    }
    more = (
        f"[{len(grouped) - LISTED} more incidents are counted but not listed]"
        if len(grouped) > LISTED
        else ""
    )
    lines = {
        need.value: [event for item in grouped if item.decision.need is need for event in item.events]
        for need in COUNTED
    }
    log = replace(log, earlier_boot=tuple(event for event in log.earlier_boot if event.metric not in MARKS))
    texts = [f"{entry} [{entry.source}]" if entry.source else str(entry) for entry in listed]
    return measurement(log, events, metrics, lines, before, (*texts, more), names)


def codes(events: Iterable[Event]) -> str:
    """How often each code was seen: "79 (GPU_HAS_FALLEN_OFF_THE_BUS) x2, 31 (...) x1", or "none"."""
    tally = Counter(event.code for event in events)
    counts = []
    for code, count in tally.most_common():
        entry = table().get(code) if code is not None else None
        counts.append(f"{code or 'without code'}{f' ({entry.name})' if entry else ''} x{count}")
    return ", ".join(counts) or "none"


def _names(events: Iterable[Event], gpus: Sequence[str]) -> dict[str, str]:
    names = {pci: f"GPU {index} ({pci})" for index, pci in enumerate(gpus)}
    for event in events:
        strange = f"{event.pci}, not listed as a GPU of this node" if gpus else f"GPU at {event.pci}"
        names.setdefault(event.pci, strange if event.pci else UNNAMED)
    return names or {"": NO_GPU}


def _pci_in(message: str) -> str:
    match = _GPU_NAMED.match(message)
    return pci_id(match[1]) if match else ""
