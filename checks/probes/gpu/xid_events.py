"""gpu.xid_events: the Xids that NVML reported while the gate ran, for engines that withhold the kernel log.

A process registers for the events at the start of the run and lives until the ranks have ended: NVML records none from
before the registration (nvml.h, nvmlDeviceRegisterEvents). It does not report every Xid: see checks/facts/withheld_kernel_log.py.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from checks.check import CheckError, Context, Measurement
from checks.model import Value
from checks.model_details import Contents
from checks.probes.gpu import nvml
from checks.probes.gpu.inventory_child import LOST
from checks.probes.gpu.record import Gpu
from checks.probes.kernel import xid_decision

TIMEOUT, WAIT_MS = 10, 500
NODE = "a GPU that NVML does not name"
XID_EVENTS = 0x8  # nvml.h, nvmlEventTypeXidCriticalError


def watch(context: Context) -> Iterator[Mapping[str, object] | None]:
    """Register for every GPU's Xids, say for which that could be done, and then each Xid as it comes. Raises NvmlError."""
    with nvml.session() as module:
        events = module.nvmlEventSetCreate()
        gpus = nvml.gpu_records(module, ("uuid",))
        yield {"gpus": [_registered(module, gpu, events) for gpu in gpus]}
        numbers = {gpu.text("uuid"): gpu.index for gpu in gpus if gpu.text("uuid")}
        while True:
            try:
                event = module.nvmlEventSetWait_v2(events, WAIT_MS)
            except module.NVMLError as error:
                if nvml.code_of(error) == TIMEOUT:
                    yield None
                    continue
                if not nvml.message_of(error).endswith(LOST):
                    raise
                # Every further question gets the same answer: what it says is recorded, and the watch goes on in name.
                yield {"lost": nvml.message_of(error)}
                while True:
                    time.sleep(WAIT_MS / 1000)
                    yield None
            else:
                yield {"gpu": _number(module, event.device, numbers), "xid": int(event.eventData)}


def _registered(module: Any, gpu: Gpu, events: Any) -> dict[str, object]:
    entry: dict[str, object] = {"label": gpu.label, "uuid": gpu.text("uuid"), "why_not": ""}
    try:
        handle = module.nvmlDeviceGetHandleByIndex(gpu.index)
        module.nvmlDeviceRegisterEvents(handle, XID_EVENTS, events)
    except module.NVMLError as error:
        entry["why_not"] = nvml.message_of(error)
    return entry


def _number(module: Any, handle: Any, numbers: Mapping[str, int]) -> int:
    """Which GPU an event is of; -1 where NVML does not say."""
    try:
        uuid = module.nvmlDeviceGetUUID(handle)
    except module.NVMLError:
        return -1
    return numbers.get(uuid.decode() if isinstance(uuid, bytes) else str(uuid), -1)


@nvml.nvml_check(
    "gpu.xid_events",
    ("registered", *(need.value for need in xid_decision.COUNTED), "lost"),
    watch=watch,
    events=(*(need.value for need in xid_decision.COUNTED), "lost"),
    holds=lambda basis: (Contents("gpus", basis.declared.gpus_per_node, (NODE,)),),
)
def xid_events(context: Context) -> Measurement:
    """Counts the Xids that NVML reported while the gate ran, by what has to be done about them.

    One number for each of `gpus`, which ends with those of a GPU that NVML does not name. `registered` is 1 where NVML
    took the registration, None where it refused. `lost`: it said that a GPU was lost. The kinds are those of kernel.xid;
    a code that only its line in the kernel's log explains is `unread`.
    """
    if not context.watched:
        raise CheckError("the watch for NVML's events did not run from start to end")
    first, *later = context.watched
    return measured(first, later, context.declared.gpus_per_node)


def measured(
    first: Mapping[str, object], later: Sequence[Mapping[str, object]], declared: int
) -> Measurement:
    """The measurement from what the watch recorded (pure). Raises CheckError."""
    entries = first.get("gpus")
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise CheckError(f"the watch did not report which events it registered for: {first!r:.200}")
    labels = [str(entry.get("label", "")) for entry in entries]
    labels += [f"GPU {index}" for index in range(len(labels), declared)]
    codes: list[list[int]] = [[] for _ in (*labels, NODE)]
    for record in later:
        code, number = record.get("xid"), record.get("gpu")
        if type(code) is int and type(number) is int:
            codes[number if 0 <= number < len(labels) else -1].append(code)
    lost = [str(record["lost"]) for record in later if "lost" in record]
    refused = [str(entry.get("why_not", "")) for entry in entries]
    registered = [None if reason else 1 for reason in refused] + [None] * (len(labels) - len(entries))
    metrics: dict[str, Value] = {
        "registered": (*registered, 1),
        **xid_decision.counts(codes),
        "lost": len(lost),
        "gpus": (*labels, NODE),
    }
    refusals = [
        f"{label}: not registered: {reason}" for label, reason in zip(labels, refused, strict=False) if reason
    ]
    account = xid_decision.account(codes, (*labels, NODE)) or "no Xid was reported"
    return Measurement(metrics, "\n".join([*refusals, *lost, account]))
