"""What Xids call for: each line by its code and text, then by the lines near it, its repetitions, and what happened since. Pure."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace

from checks.model import Action, Value
from checks.probes.kernel import xid_nvlink
from checks.probes.kernel.log import is_old
from checks.probes.kernel.log_lines import Event
from checks.probes.kernel.xid_catalogue import Need, Since, XidRow, mended, table
from checks.probes.kernel.xid_context import (
    MARKS,
    RECOVERY_ACTION,
    REPEATING,
    EventMark,
    OrderedEvent,
    XidContext,
    branch_of,
    in_order,
)
from checks.probes.kernel.xid_rows import ACTION_TEXT, XidDecision, XidIncident, graver

OFF_BUS = 79
DOUBLE_BIT = 48
REMAPPED = (63, 64)
# The driver says so beside Xid 63, which the catalogue ignores; 64 calls for more by itself.
_TO_ACTIVATE = "reset gpu to activate"
# The driver's words where its firmware does not answer again and again.
RESET_WANTED = "GPU likely needs to be reset"
GSP = "NVIDIA open-gpu-kernel-modules, src/nvidia/src/kernel/vgpu/rpc.c: printed when calls to the GPU's firmware time out"
CONTAINED = 94
# Programs that the driver ends after another fault (catalogue: "not solo: follow the other Xid").
FOLLOWERS = (43, 45)
_NEW_ACTION = re.compile(r"GPU recovery action changed from \S+ \([^)]*\) to \S+ \(([^)]+)\)")
_SEVERITY = re.compile(r"\b(Nonfatal|Non-fatal|(?:Link )?Fatal)\b")
_TEXT = re.compile(r"NVRM: Xid\b(?: \([^)]*\): \d{1,9}\b(?:,\s*(.*))?)?", re.DOTALL)
# nvml.h, nvmlDeviceGpuRecoveryAction: what each word of 154 asks for. Driver 610 prints "OS Reboot" for the restart of the
# node, and "PF FLR" for the reset of the GPU (a function level reset, PCIe Base Specification 6.6.2).
RECOVERY = {
    "None": (Need.ROUTINE, Action.NONE),
    "GPU Reset Required": (Need.ACT, Action.RESET_GPU),
    "Node Reboot Required": (Need.ACT, Action.REBOOT),
    "OS Reboot": (Need.ACT, Action.REBOOT),
    "PF FLR": (Need.ACT, Action.RESET_GPU),
    "Drain P2P": (Need.ACT, Action.RESTART_APP),
    "Drain and Reset": (Need.ACT, Action.RESET_GPU),
}
# The sheet's first answers to 144 to 150, and what they call for.
IMMEDIATE = {
    "RESET_GPU": (Need.ACT, Action.RESET_GPU),
    "XID_154_EVAL": (Need.APPLICATION, Action.RESTART_APP),
}


def incidents(
    events: Iterable[Event], driver: int | None = None, window_s: float = math.inf
) -> tuple[XidIncident, ...]:
    """The Xids among the events, decided and grouped, the most serious first.

    `driver` is the branch (570) if the log does not name it. Events older than `window_s` are left out, unless they still call for
    an action.
    """
    ordered = in_order(events)
    company, fallen = XidContext(ordered), {e.event.pci for e in ordered if e.event.code == OFF_BUS}
    events_of: dict[tuple[XidDecision, Since], list[Event]] = defaultdict(list)
    for current in ordered:
        event = current.event
        if event.metric in MARKS:
            driver = branch_of(event.text) if event.metric == EventMark.DRIVER.value else driver
            continue
        decision = _in_context(decide_line(event.code, text_of(event), event.pci, driver), current, company)
        if event.code is None and decision.code == OFF_BUS and event.pci in fallen:
            decision = replace(decision, reason="")  # the same event as that of its Xid
        since = company.since(current) if decision.need is Need.ACT else Since.NOTHING
        if mended(decision.action, since):
            decision = replace(decision, need=Need.HANDLED)
        else:
            since = Since.NOTHING
        if decision.stays_open or not is_old(event, window_s):
            events_of[decision, since].append(event)
    grouped = (XidIncident(decision, tuple(lines), since) for (decision, since), lines in events_of.items())
    return tuple(sorted(grouped, key=lambda incident: incident.decision.rank, reverse=True))


def text_of(event: Event) -> str:
    """The text of the line after its code."""
    match = _TEXT.match(event.text)
    return (match[1] or "") if match else event.text


def decide_line(code: int | None, text: str, pci: str = "", driver: int | None = None) -> XidDecision:
    """What a line calls for by itself. A line whose text should say so and does not is UNREAD."""
    if code is None and "fallen off the bus" in text:
        return _decision(table()[OFF_BUS], pci, reason="the GPU fell off the bus, without an Xid")
    if code is None and RESET_WANTED in text:
        return XidDecision(
            None, pci, Need.ACT, Action.RESET_GPU, "the driver says that the GPU needs a reset", GSP
        )
    if code is None:
        return XidDecision(None, pci, Need.UNREAD, Action.INSPECT, "the line has no Xid code", "")
    entry = table().get(code)
    if entry is None:
        reason = "the catalogue of 2025-10 does not have this code"
        return XidDecision(code, pci, Need.UNKNOWN, Action.CONTACT, reason, "")
    if code == RECOVERY_ACTION:
        match = _NEW_ACTION.search(text)
        if match is None:
            return _decision(entry, pci, Need.UNREAD, Action.INSPECT, "the line does not name the action")
        demand = match[1].strip()
        need, action = RECOVERY.get(demand, (Need.ACT, Action.CONTACT))
        return _decision(entry, pci, need, action, f"the driver asks for {demand}")
    if code in xid_nvlink.CODES:
        return _nvlink5(entry, text, pci, driver)
    if entry.need is Need.ROUTINE and _TO_ACTIVATE in text:
        return _decision(
            entry, pci, Need.SUPPORT, Action.RESET_GPU, "the new row is used only after a reset of the GPU"
        )
    return _decision(entry, pci, reason="the catalogue gives no action" if not entry.immediate else "")


def _decision(
    entry: XidRow,
    pci: str,
    need: Need | None = None,
    action: Action | None = None,
    reason: str = "",
    source: str = "",
) -> XidDecision:
    return XidDecision(
        entry.code, pci, need or entry.need, action or entry.action, reason, source or entry.source
    )


def _nvlink5(entry: XidRow, text: str, pci: str, driver: int | None) -> XidDecision:
    line = xid_nvlink.parse_line(text)
    rules = xid_nvlink.decoded(entry.code, line, driver) if line else ()
    doubt = ""
    if driver is None and len(rules) > 1:
        doubt = f", the more severe of {len(rules)} rows (driver version unknown)"
    if line and not rules and driver is not None:
        rules = xid_nvlink.decoded(entry.code, line, None)
        doubt = ", from the table of the other driver version"
    if not line or not rules:
        severity = _SEVERITY.search(text)
        if severity is None:
            return _decision(
                entry, pci, Need.UNREAD, Action.INSPECT, "neither registers nor severity can be read"
            )
        need = Need.SUPPORT if severity[1].startswith("Non") else Need.ACT
        reason = f"the catalogue has no row for its registers; the line's severity is {severity[1]}"
        return _decision(entry, pci, need, Action.CONTACT, reason)
    return graver(_by_rule(entry, rule, line, pci, doubt) for rule in rules)


def _by_rule(
    entry: XidRow, rule: xid_nvlink.NvlinkRule, line: xid_nvlink.NvlinkLine, pci: str, doubt: str
) -> XidDecision:
    if rule.immediate == "IGNORE" and rule.investigatory == "IGNORE":
        need, action = Need.ROUTINE, Action.NONE
    elif rule.immediate == "IGNORE":
        contact = rule.investigatory == "CONTACT_SUPPORT"
        need, action = Need.SUPPORT, Action.CONTACT if contact else Action.INSPECT
    else:
        need, action = IMMEDIATE.get(rule.immediate, (Need.ACT, Action.CONTACT))
    answer = f"{rule.immediate}; then {rule.investigatory}"
    text = f"{line.unit} link {line.link}, status 0x{line.status:x}: {answer}{doubt}"
    return _decision(
        entry, pci, need, action, text, f"NVIDIA Xid catalogue, Xid 144-150 Decode row {rule.row}: {answer}"
    )


def _in_context(decision: XidDecision, current: OrderedEvent, company: XidContext) -> XidDecision:
    """The decision, corrected by what else the log says about this GPU."""
    code, entry = decision.code, table().get(decision.code or 0)
    if entry is None or decision.need is Need.UNREAD:
        return decision
    if code in FOLLOWERS:
        return _follower(decision, company.other(current, FOLLOWERS))
    if code == CONTAINED and (leader := company.other(current, (CONTAINED, *FOLLOWERS), (Need.ACT,))):
        return replace(decision, need=Need.ROUTINE, action=Action.NONE, reason=f"follows from Xid {leader}")
    if code == DOUBLE_BIT:
        company_text = company.codes_near(current, REMAPPED)
        return replace(
            decision,
            reason=f"Xid {company_text} was seen too: drain the GPU and reset it"
            if company_text
            else "no row remapping was seen: reset the GPU",
        )
    if code == xid_nvlink.CODE:
        link = xid_nvlink.link_of(text_of(current.event))
        times = company.times(current, f"link {link.number}") if link else 0
        other = company.other(current, (code,), (Need.ACT,))
        sxid_text = "an SXid, see kernel.sxid" if company.sxid(current) else ""
        company_text = f"Xid {other}" if other else sxid_text
        need, action, reason = xid_nvlink.answer(link, times, company_text)
        return replace(decision, need=need, action=action, reason=reason)
    if code in REPEATING:
        return _repeated(decision, current, company)
    if "seen >1 per day" in decision.source and company.again(current):
        return replace(
            decision,
            reason=f"{decision.reason}; this is not the first one in this log, so report it to NVIDIA",
        )
    if "XID_154_EVAL" in decision.source and (
        demand := company.codes_near(current, (RECOVERY_ACTION,), (Need.ACT,))
    ):
        reason = f"{decision.reason}; Xid {demand} demands it"
        return replace(decision, need=Need.ACT, action=Action.RESET_GPU, reason=reason)
    return decision


def _follower(decision: XidDecision, leader: int | None) -> XidDecision:
    if leader is not None:
        return replace(decision, need=Need.ROUTINE, action=Action.NONE, reason=f"follows from Xid {leader}")
    if decision.code == FOLLOWERS[1]:
        return replace(
            decision, reason="no other fault was seen: restart the fabric manager, then the program"
        )
    return decision


def _repeated(decision: XidDecision, current: OrderedEvent, company: XidContext) -> XidDecision:
    """Xid 13 again and again at one place, or 31 on one GPU alone, may be the GPU's fault (WORKFLOW_XID_13, _31)."""
    bursts, elsewhere = company.bursts(current)
    if bursts > 1 and not elsewhere:
        reason = (
            f"it occurred {bursts} times at the same place and on no other GPU, so the hardware may be faulty"
        )
        return replace(decision, need=Need.SUPPORT, action=Action.INSPECT, reason=reason)
    return decision


# Codes without their lines, as NVML and DCGM report them.
COUNTED = (Need.ACT, Need.SUPPORT, Need.APPLICATION, Need.UNKNOWN, Need.UNREAD)


def counts(codes: Sequence[Sequence[int]]) -> dict[str, Value]:
    """How many codes of each GPU call for what, with one metric for each of COUNTED.

    A code that only its line in the log explains (154, 144 to 150) counts as `unread`.
    """
    needs = [[decide_line(code, "").need for code in of_gpu] for of_gpu in codes]
    return {need.value: tuple(gpu_needs.count(need) for gpu_needs in needs) for need in COUNTED}


def account(codes: Sequence[Sequence[int]], labels: Sequence[str]) -> str:
    """One line for each code: "GPU 5: Xid 79 (GPU_HAS_FALLEN_OFF_THE_BUS) calls for a restart of the node"."""
    return "\n".join(
        f"{label}: {name_of(code)} calls for {ACTION_TEXT[decide_line(code, '').action]}"
        for label, of_gpu in zip(labels, codes, strict=True)
        for code in of_gpu
    )


def name_of(code: int) -> str:
    """Such as "Xid 79 (GPU_HAS_FALLEN_OFF_THE_BUS)"."""
    entry = table().get(code)
    return f"Xid {code} ({entry.name})" if entry else f"Xid {code}"
