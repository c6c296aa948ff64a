"""dcgm.xid_events: the Xids that DCGM recorded while the gate ran (field 230), for engines that withhold the kernel log.

`dcgmi dmon` prints each GPU's last Xid, which stays until another one comes: "sticky", as a maintainer of DCGM says (NVIDIA/DCGM
issue 162). Therefore it runs from the start of the run to its end, and only changes count; a second Xid with the same code does not
show (gpu.xid_events counts it). The first value of each GPU is from before the run, and is reported separately.
"""

from __future__ import annotations

import os
import re
import select
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence

from checks.check import CheckError, Context, Measurement, lists_gpus
from checks.model import Value
from checks.probes.dcgm import dcgmi
from checks.probes.kernel import xid_decision
from checks.process import tool
from checks.process.isolate import end_child
from checks.process.tool import ToolResult
from checks.process.tree import with_pdeathsig

FIELD = "230"  # dcgm_fields.h, DCGM_FI_DEV_XID_ERRORS
EVERY_MS = 1000
# dmon prints one row per second for each GPU; if it is silent for this long, it hangs, or its host engine does.
SILENT_S = 15.0
# The form of a row: dcgmi/DeviceMonitor.cpp, "{} {}" of entity and number, then the value or "N/A".
_VALUE_LINE = re.compile(r"GPU (\d{1,4})\s+(N/A|\d{1,19})\s*")
_HEAD = ("#Entity", "ID")
NONE = ("N/A", "0")


class UnreadableOutput(CheckError):
    """dmon printed something that is not a row of its table, or nothing at all."""


def watch(context: Context) -> Iterator[Mapping[str, object] | None]:
    """Each GPU's last Xid, once every GPU has been printed, and then each change. Raises CheckError, ToolMissing."""
    argv = (tool.find("dcgmi"), "dmon", "-e", FIELD, "-d", str(EVERY_MS))
    child = subprocess.Popen(
        with_pdeathsig(argv), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    try:
        yield from changes(_lines(child, argv), context.declared.gpus_per_node)
    finally:
        if child.stdout is not None:
            child.stdout.close()
        end_child(child, 1.0)


def _lines(child: subprocess.Popen[bytes], argv: Sequence[str]) -> Iterator[str]:
    """The output line by line; "" if nothing was printed for a moment. Raises UnreadableOutput if dmon ended or is silent."""
    pipe, rest, heard = child.stdout, b"", time.monotonic()
    if pipe is None:
        raise UnreadableOutput(f"{argv[0]} has no output")
    while True:
        if not select.select([pipe], [], [], 0.5)[0]:
            if time.monotonic() - heard > SILENT_S:
                raise UnreadableOutput(f"dcgmi dmon printed nothing for {SILENT_S:g} s")
            yield ""
            continue
        data = os.read(pipe.fileno(), 1 << 16)
        if not data:
            dcgmi.refuse(ToolResult(tuple(argv), 0, rest.decode("utf-8", "replace"), "", 0.0, False))
            raise UnreadableOutput(f"dcgmi dmon ended: {rest.decode('utf-8', 'replace').strip()[-300:]}")
        heard = time.monotonic()
        *whole, rest = (rest + data).split(b"\n")
        dcgmi.refuse(ToolResult(tuple(argv), 0, data.decode("utf-8", "replace"), "", 0.0, False))
        for line in whole:
            yield line.decode("utf-8", "replace")


def changes(lines: Iterator[str], gpus: int) -> Iterator[Mapping[str, object] | None]:
    """The first value of each GPU, all in one record, and every later value that differs."""
    last: dict[int, int] = {}
    for line in lines:
        pair = parse_row(line)
        if pair is None:
            yield None
            continue
        gpu, code = pair
        begun, before = len(last) >= gpus, last.get(gpu)
        last[gpu] = code
        if not begun:
            yield (
                {"gpus": {str(number): xid for number, xid in last.items()}} if len(last) >= gpus else None
            )
        else:
            yield {"gpu": gpu, "xid": code} if code not in (before, 0) else None


def parse_row(line: str) -> tuple[int, int] | None:
    """The GPU and its last Xid, 0 for none; None for a line without a value. Raises UnreadableOutput for any other text."""
    if not line.strip() or line.startswith(_HEAD):
        return None
    match = _VALUE_LINE.fullmatch(line)
    if match is None:
        raise UnreadableOutput(f"dcgmi dmon printed no row of its table: {line[:200]!r}")
    return int(match[1]), 0 if match[2] in NONE else int(match[2])


@dcgmi.dcgm_check(
    "dcgm.xid_events",
    (*(need.value for need in xid_decision.COUNTED), "earlier", "gpus"),
    timeout_s=20,
    watch=watch,
    events=tuple(need.value for need in xid_decision.COUNTED),
    holds=lists_gpus,
)
def xid_events(context: Context) -> Measurement:
    """Counts the Xids that DCGM recorded while the gate ran, by what has to be done about them.

    One number for each of `gpus`; the kinds are those of kernel.xid. `earlier` is the last Xid from before the run in
    words, "" for none: nothing says how old it is. DCGM prints N/A or 0 for a GPU without one.
    """
    tool.find("dcgmi")
    if not context.watched:
        raise CheckError("the watch for DCGM's Xids did not run from start to end")
    first, *later = context.watched
    return measured(first, later)


def measured(first: Mapping[str, object], later: Sequence[Mapping[str, object]]) -> Measurement:
    """The measurement from what the watch recorded. Pure. Raises CheckError."""
    before_run = first.get("gpus")
    if (
        not isinstance(before_run, dict)
        or not before_run
        or not all(type(value) is int for value in before_run.values())
    ):
        raise CheckError(f"the watch did not report its first values: {first!r:.200}")
    numbers = sorted(map(int, before_run))
    labels = [f"GPU {number}" for number in numbers]
    codes: list[list[int]] = [[] for _ in numbers]
    for record in later:
        gpu, code = record.get("gpu"), record.get("xid")
        if type(gpu) is not int or type(code) is not int or gpu not in numbers:
            raise CheckError(f"the watch recorded a value that is not an Xid of a GPU: {record!r:.200}")
        codes[numbers.index(gpu)].append(code)
    before = [before_run[str(number)] for number in numbers]
    metrics: dict[str, Value] = {
        **xid_decision.counts(codes),
        "earlier": tuple(xid_decision.name_of(code) if code else "" for code in before),
        "gpus": tuple(labels),
    }
    return Measurement(metrics, xid_decision.account(codes, labels) or "no Xid was recorded")
