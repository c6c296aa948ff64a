"""Whose answers to Xids are used: those of NVIDIA's catalogue, or those of a cloud's overlay. Pure. It works for any report,
including old ones.

An overlay has answers for the codes that its rows name, or for all other codes in a row that names none; for codes without an answer
NVIDIA's is used. What could not be read stays unread under every overlay. A FAIL of NVIDIA's catalogue stays a FAIL, because a cloud
that would not repair a machine has not said that it is healthy.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain
from pathlib import Path

from checks.documents.columns import CheckTable
from checks.documents.decode import decode, parse_json
from checks.facts.provenance import Provenance, resolved, table_bytes
from checks.judge.rules.values import RuleContext
from checks.model import Action, Cause, Finding, Level, Observation, Value
from checks.policy import CheckPolicy, Overlay
from checks.probes.kernel.xid_catalogue import (
    ACTIONS,
    GENERATIONS,
    NEEDS,
    Need,
    Since,
    generation_of,
    is_odd,
    mended,
)
from checks.probes.kernel.xid_catalogue import table as catalogue
from checks.probes.kernel.xid_rows import ARRAYS, IncidentRow, incidents_of

CHECK = "kernel.xid"
TABLE = Path(__file__).parents[1] / "facts" / "xid_overlays.json"
MOST_INCIDENTS = 6
MESSAGE = 2000
REMEDIES = {
    Action.NONE: "Nothing has to be done. The evidence has the details.",
    Action.RESTART_APP: "Restart the program that the evidence names. If the Xid returns with another program, suspect the GPU.",
    Action.RESET_GPU: "Drain the GPU and reset it: {resets}. Where NVSwitches join them, reset all GPUs of the node at "
    "once (nvidia-smi --gpu-reset). If the Xid is logged again, restart the node; if it is logged once more, replace the node.",
    Action.REBOOT: "Restart the node when no job runs on it. If a GPU is still missing after that, stop and start the instance, or "
    "replace it where a service owns it. If the Xid is logged again after the restart, replace the node.",
    Action.REPLACE: "Replace the node. On HyperPod: kubectl label node NODE "
    "sagemaker.amazonaws.com/node-health-status=UnschedulablePendingReplacement --overwrite",
    Action.INSPECT: "Check the GPU's seating, power and links, then run dcgmi diag -r 3 before a job uses it.",
    Action.CONTACT: "Report it to the vendor's or cloud's support with the output of nvidia-bug-report.sh. "
    "If the Xid is logged again, do not use this GPU.",
}
# For these metrics the policy's own rule says what to do: no row of an overlay applies to them, or the incident was dealt with.
KEPT_NEEDS = (Need.HANDLED, Need.UNKNOWN, Need.UNREAD)
_PCI = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
Apply = Callable[[Sequence[Observation]], Iterator[Finding]]


@dataclass(frozen=True)
class OverlayRow:
    """An overlay's answer for some codes, or for all that no row names if `codes` is empty. Without an action NVIDIA's is used."""

    overlay: Overlay
    codes: tuple[int, ...]
    level: Level
    says: str
    provenance: Provenance
    action: Action | None = None


@dataclass(frozen=True)
class _Table:
    overlays: tuple[OverlayRow, ...]


@lru_cache(maxsize=1)
def table() -> dict[Overlay, tuple[OverlayRow, ...]]:
    """The shipped rows of each overlay. NVIDIA's has none, because an overlay is applied on top of NVIDIA's catalogue."""
    records = decode(_Table, resolved(parse_json(table_bytes(TABLE), 1 << 20), "overlays")).overlays
    return {overlay: tuple(record for record in records if record.overlay is overlay) for overlay in Overlay}


def row_of(code: int, overlay: Overlay) -> OverlayRow | None:
    """The overlay's row for a code; None if it has none."""
    records = table()[overlay]
    match = next((record for record in records if code in record.codes), None)
    return match or next((record for record in records if not record.codes), None)


@dataclass(frozen=True)
class XidAnswer:
    """The overlay's own answer to an incident; `speaks` is False if it leaves the answer to NVIDIA's catalogue."""

    level: Level
    action: Action
    speaks: bool
    reason: str
    source: str


def answer(xid: IncidentRow, overlay: Overlay) -> XidAnswer:
    """The overlay's own answer, even if it is milder than the level that is used."""
    record = row_of(xid.code, overlay) if xid.code and xid.need is not Need.UNREAD else None
    if record is None:
        return XidAnswer(xid.need.level, xid.action, overlay is Overlay.NVIDIA, xid.reason, xid.source)
    action = record.action or (xid.action if xid.action is not Action.NONE else Action.CONTACT)
    level = record.level
    if level is Level.FAIL and mended(action, xid.since):
        level = Level.WARN
    source = f"{record.provenance.source}; {record.provenance.conditions}"
    return XidAnswer(level, action, True, record.says, source)


def seen_by(incident: IncidentRow, overlay: Overlay) -> IncidentRow:
    """The incident as the overlay judges it."""
    reply = answer(incident, overlay)
    reason = f"{overlay.value}: {reply.reason}"
    if overlay is Overlay.NVIDIA or not reply.speaks:
        return incident
    if incident.need is Need.ACT and reply.level is not Level.FAIL:
        return replace(incident, reason="; ".join(filter(None, (incident.reason, reason))))
    need = _need(reply, incident)
    return replace(incident, need=need, action=reply.action, reason=reason, source=reply.source)


def judge(
    line: CheckPolicy, records: Sequence[Observation], context: RuleContext, apply: Apply
) -> Iterator[Finding]:
    """The findings of `apply` about the rows under the policy's overlay, with codes, actions and sources added."""
    generation = generation_of(context.instance.gpu) if context.instance else ""
    held = records
    if line.overlay is not Overlay.NVIDIA and not _is_silent(records):
        yield from (_blind(record, line) for record in records if whole(record.metrics) is None)
        held = [_recounted(record, line.overlay) for record in records]
    findings = list(apply(held))
    spoke = {record.subject: record for record in records} if findings else {}
    for finding in findings:
        xids = whole(spoke[finding.subject].metrics) if finding.subject in spoke else None
        yield _worded(finding, [seen_by(xid, line.overlay) for xid in xids or ()], generation)


def _is_silent(records: Sequence[Observation]) -> bool:
    """Whether no row has an incident or counts one, so that no overlay can change anything."""
    if not isinstance(records, CheckTable) or any(name in records.columns.metrics for name in ARRAYS):
        return False
    if not _all_zero(records.column("incidents")):
        return False
    gpus = [len(value) if type(value) is tuple else 0 for value in records.column("gpus")]
    for need in NEEDS:
        column = records.column(need.value)
        if set(map(type, column)) != {tuple} or list(map(len, column)) != gpus:  # type: ignore[arg-type]
            return False
        if not _all_zero(list(chain.from_iterable(column))):  # type: ignore[arg-type]
            return False
    return True


def _all_zero(column: Sequence[object]) -> bool:
    return set(map(type, column)) <= {int} and column.count(0) == len(column)


def _need(reply: XidAnswer, xid: IncidentRow) -> Need:
    if reply.level is Level.FAIL:
        return Need.ACT
    if reply.level is Level.PASS:
        return Need.ROUTINE
    if xid.since is not Since.NOTHING and mended(reply.action, xid.since) and reply.action is not Action.NONE:
        return Need.HANDLED
    return Need.APPLICATION if xid.need is Need.APPLICATION else Need.SUPPORT


def _recounted(record: Observation, overlay: Overlay) -> Observation:
    """The row with each GPU's lines counted by the overlay's answers; unchanged if its list of incidents is not complete."""
    xids = whole(record.metrics)
    if not xids:
        return record
    counts = _counts(record.metrics, [seen_by(xid, overlay) for xid in xids])
    return replace(record, metrics={**record.metrics, **counts})


def _counts(metrics: Mapping[str, Value], incidents: Sequence[IncidentRow]) -> dict[str, Value]:
    tally = Counter[tuple[str, Need]]()
    for incident in incidents:
        tally[incident.gpu, incident.need] += incident.count
    return {need.value: tuple(tally[str(gpu), need] for gpu in _gpus(metrics)) for need in NEEDS}


def whole(metrics: Mapping[str, Value]) -> tuple[IncidentRow, ...] | None:
    """The incidents, if they account for every line that was counted; a missing one could not be judged."""
    xids = incidents_of(metrics)
    if xids is None or not {xid.gpu for xid in xids} <= set(map(str, _gpus(metrics))):
        return None
    return xids if _counts(metrics, xids).items() <= metrics.items() else None


def _gpus(metrics: Mapping[str, Value]) -> tuple[object, ...]:
    gpus = metrics.get("gpus")
    return gpus if isinstance(gpus, tuple) else ()


def _blind(record: Observation, line: CheckPolicy) -> Finding:
    message = f"its list of Xid incidents is incomplete, so overlay {line.overlay.value} cannot judge them"
    remedy = 'Run the gate again with this version, or judge by overlay = "nvidia".'
    level = Level.FAIL if line.required else Level.WARN
    return Finding(level, Cause.EVIDENCE, CHECK, record.subject, message, record.evidence, remedy)


def _worded(finding: Finding, incidents: Sequence[IncidentRow], generation: str) -> Finding:
    """The message of a finding about a count: the GPUs, what is called for, and the rows that say so."""
    meant = [incident for incident in incidents if incident.need.value == finding.metric]
    if not meant:
        return finding
    meant.sort(key=lambda incident: ACTIONS.index(incident.action), reverse=True)
    clauses: dict[str, list[str]] = {}
    for incident in meant[:MOST_INCIDENTS]:
        clauses.setdefault(incident.gpu, []).append(f"{incident.clause}{_odd(incident, generation)}")
    texts = [f"{gpu}: {', and '.join(of_gpu)}" for gpu, of_gpu in clauses.items()]
    more = [f"and {len(meant) - MOST_INCIDENTS} more"] if len(meant) > MOST_INCIDENTS else []
    sources = dict.fromkeys(incident.source for incident in meant[:MOST_INCIDENTS] if incident.source)
    message, source = "; ".join([*texts, *more])[:MESSAGE], "; ".join(sources) or finding.source
    worded = replace(finding, message=message, source=source)
    if meant[0].need in KEPT_NEEDS:
        return worded
    action = meant[0].action
    gpus = dict.fromkeys(incident.gpu for incident in meant if incident.action is action)
    return replace(worded, remedy=_remedy(meant), action=action, elements=tuple(gpus))


def _odd(incident: IncidentRow, generation: str) -> str:
    record = catalogue().get(incident.code)
    if record is None or not is_odd(incident.code, generation):
        return ""
    if not record.generations:
        return f" [odd: the catalogue lists it for none of {', '.join(GENERATIONS).upper()}]"
    return (
        f" [odd: the catalogue does not list it for {generation.upper()}; check the declared instance type]"
    )


def _remedy(meant: Sequence[IncidentRow]) -> str:
    """What to do for each action that is called for, the most serious first."""
    texts = []
    for action in dict.fromkeys(incident.action for incident in meant):
        matches = (_PCI.search(incident.gpu) for incident in meant if incident.action is action)
        resets = dict.fromkeys(f"nvidia-smi --gpu-reset -i {match[0]}" for match in matches if match)
        typed = ", ".join(list(resets)[:8]) or "nvidia-smi --gpu-reset -i GPU"
        texts.append(REMEDIES[action].replace("{resets}", typed))
    return " ".join(texts)
