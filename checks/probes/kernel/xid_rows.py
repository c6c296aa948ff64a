"""The incidents of Xids: a decision for each line, equal decisions about one GPU as an incident, and incidents as arrays of an
observation. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Annotated, Any

from checks.documents.decode import decode
from checks.documents.report import plain
from checks.model import Action, Value
from checks.probes.kernel.log_lines import Event
from checks.probes.kernel.xid_catalogue import ACTIONS, IN_WORDS, NEEDS, Need, Since, table
from checks.value_types import DecodeError, Range, age_text


@dataclass(frozen=True)
class XidDecision:
    """What one line calls for, why, and the row of the catalogue that says so."""

    code: int | None
    pci: str
    need: Need
    action: Action
    reason: str
    source: str

    @property
    def stays_open(self) -> bool:
        """Whether time alone does not settle it: it calls for an action, or it is unknown whether it does.

        What a program did yesterday, what was handled, and what the catalogue answers with IGNORE or not at all, calls for nothing
        today.
        """
        if self.need is Need.SUPPORT:
            entry = table().get(self.code or 0)
            is_demanded = (
                entry is not None and entry.need is Need.SUPPORT and entry.immediate not in ("", "IGNORE")
            )
            return is_demanded and self.action is not Action.RESTART_APP
        return self.need in (Need.ACT, Need.UNREAD, Need.UNKNOWN)

    @property
    def rank(self) -> tuple[int, int]:
        """How serious it is compared with others."""
        return NEEDS.index(self.need), ACTIONS.index(self.action)


@dataclass(frozen=True)
class XidIncident:
    """Lines of one GPU that call for the same action. `decision.need` is HANDLED if `since` settled it."""

    decision: XidDecision
    events: tuple[Event, ...]
    since: Since = Since.NOTHING

    @property
    def count(self) -> int:
        """The number of lines."""
        return len(self.events)

    @property
    def age_s(self) -> float | None:
        """The seconds since its last line; None if no line has a time."""
        return min((age for event in self.events if (age := event.line.age_s) is not None), default=None)


def graver(decisions: Iterable[XidDecision]) -> XidDecision:
    """The most serious decision; the first of equal ones. Raises ValueError if there are none."""
    return max(decisions, key=lambda decision: decision.rank)


# If there are more incidents, the others are counted, and not listed one by one.
LISTED = 64
TEXT = 200
ARRAYS = (
    "event_gpus",
    "event_codes",
    "event_counts",
    "event_needs",
    "event_actions",
    "event_since",
    "event_reasons",
    "event_sources",
    "event_lines",
)
# A text that `explain` reads has no ages.
AGES = "event_ages_s"
NO_AGE = -1.0


@dataclass(frozen=True)
class IncidentRow:
    """One incident of a report. `code` is 0 if the line had none; `need` is HANDLED if `since` settled it; `age_s` is how long
    before the report its last line was written, NO_AGE if that is unknown.
    """

    gpu: str
    code: Annotated[int, Range(0, 1 << 62)]
    count: Annotated[int, Range(1, 1 << 62)]
    need: Need
    action: Action
    since: Since
    reason: str
    source: str
    line: str
    age_s: float = NO_AGE

    @property
    def name(self) -> str:
        """ "Xid 79 (GPU_HAS_FALLEN_OFF_THE_BUS)"."""
        entry = table().get(self.code)
        return f"Xid {self.code} ({entry.name})" if entry else f"Xid {self.code or 'without a code'}"

    def __str__(self) -> str:
        """The incident and what it calls for, in one line."""
        return f"{self.gpu}: {self.clause}"

    @property
    def clause(self) -> str:
        """What it calls for, without the GPU: "Xid 79 (GPU_HAS_FALLEN_OFF_THE_BUS) calls for a restart of the node"."""
        times = f", seen {self.count} times," if self.count > 1 else ""
        reason = f" ({self.reason})" if self.reason else ""
        since = f"; {IN_WORDS[self.since]}" if self.since is not Since.NOTHING else ""
        called = "called" if self.need is Need.HANDLED else "calls"
        age = f"; last seen {age_text(self.age_s)} before the check" if self.age_s >= 0 else ""
        return f"{self.name}{times} {called} for {ACTION_TEXT[self.action]}{reason}{since}{age}"


ACTION_TEXT = {
    Action.NONE: "no action",
    Action.RESTART_APP: "a restart of the application",
    Action.RESET_GPU: "a reset of the GPU",
    Action.REBOOT: "a restart of the node",
    Action.REPLACE: "another node",
    Action.INSPECT: "an inspection",
    Action.CONTACT: "NVIDIA's support",
}


def rows_of(
    incidents: Sequence[XidIncident], names: Mapping[str, str], timed: bool
) -> tuple[IncidentRow, ...]:
    """The most serious incidents; `names` are the GPUs' by address. `timed`: the lines have ages that count from now."""
    return tuple(
        IncidentRow(
            names[incident.decision.pci],
            incident.decision.code or 0,
            incident.count,
            incident.decision.need,
            incident.decision.action,
            incident.since,
            incident.decision.reason[:TEXT],
            incident.decision.source[:TEXT],
            incident.events[-1].line.message[:TEXT],
            NO_AGE if incident.age_s is None or not timed else round(incident.age_s, 1),
        )
        for incident in incidents[:LISTED]
    )


def arrays(incidents: Sequence[IncidentRow], timed: bool) -> dict[str, Value]:
    """The incidents as arrays; empty if there are none, because a list in a report is never empty."""
    values = [
        [plain(getattr(incident, column.name)) for incident in incidents] for column in fields(IncidentRow)
    ]
    columns: Any = {
        name: tuple(column) for name, column in zip((*ARRAYS, AGES), values, strict=True) if column
    }
    if not timed:
        columns.pop(AGES, None)
    return dict(columns)


def incidents_of(metrics: Mapping[str, Value]) -> tuple[IncidentRow, ...] | None:
    """The incidents of an observation; None if they are not complete: missing, cut, or in unknown words."""
    count = metrics.get("incidents")
    if type(count) is not int or count < 0:
        return None
    if count == 0:
        return () if not any(name in metrics for name in ARRAYS) else None
    columns = [metrics.get(name) for name in ARRAYS]
    ages = metrics.get(AGES, (NO_AGE,) * count)
    if any(not isinstance(column, tuple) or len(column) != count for column in (*columns, ages)):
        return None
    names = [column.name for column in fields(IncidentRow)]
    records = zip(*columns, ages, strict=True)  # type: ignore[arg-type]
    try:
        return tuple(decode(IncidentRow, dict(zip(names, record, strict=True))) for record in records)
    except DecodeError:
        return None
