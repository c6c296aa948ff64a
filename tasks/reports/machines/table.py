"""The table of machines, and one machine with its acts, for a terminal and as JSON. Pure.

Names and words of an engine are data: whatever is shown on a terminal was made inert (tasks.text.inert).
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from checks.documents.report import plain_table
from checks.value_types import age_text
from tasks.machines.base import Holder, Machine
from tasks.remediation.model import Act
from tasks.reports.machines.rows import MachineRow
from tasks.text.inert import one_line
from tasks.text.tables import aligned, counted

COLUMNS = (
    "node", "by the engine", "by us", "disagreement", "last proof", "health", "type", "held by", "since", "acts", "jobs", "shell",
)  # fmt: skip
NONE = "-"
# What the first line about an act has, and what a person cannot read.
IN_HEAD = ("node", "rung", "number", "state", "intended_at", "changed_at", "measured_at")


def machines_text(rows: Sequence[MachineRow], now: float, reached: bool) -> str:
    """The table, and one line with the numbers. `now` is in Unix seconds; `reached`: whether the engine answered."""
    if not rows:
        return "No machine is known.\n"
    cells = [COLUMNS, *(_cells(row, now, reached) for row in rows)]
    lines = aligned(cells)
    differ = sum(row.disagreement is not None for row in rows)
    line = f"{differ} of them differ between the engine and our records" if differ else "no disagreement"
    lines.append(f"{counted(len(rows), 'machine')}; {line if reached else 'the engine did not answer'}")
    return "\n".join(lines) + "\n"


def node_text(row: MachineRow, now: float, reached: bool) -> str:
    """One machine with all acts, oldest first."""
    lines = [f"{name}: {cell}" for name, cell in zip(COLUMNS, _cells(row, now, reached), strict=True)]
    if row.machine is not None and row.machine.status:
        lines.append(f"the engine's words: {one_line(row.machine.status, 500)}")
    for act in row.acts:
        lines += ["", *_act_lines(act)]
    return "\n".join(lines) + "\n"


def row_table(row: MachineRow, now: float, reached: bool) -> dict[str, object]:
    """The row as JSON has it: texts as the engine wrote them, times in Unix seconds, null for what is not known."""
    machine, proof = row.machine, row.proof
    return {
        "node": row.node,
        "engine": None if machine is None else {
            "service": machine.service.value, "words": machine.status, "holder": machine.holder.value, "who": machine.owner,
            "mark": str(machine.mark) if machine.mark else None, "since": machine.since, "jobs": list(machine.jobs),
            "instance_type": machine.instance_type or None, "instance_id": machine.instance_id or None,
            "booted_at": machine.booted_at, "boot_id": machine.boot_id or None, "health": machine.engine_health or None,
        },
        "known_to_engine": machine is not None if reached else None,
        "ours": row.ours.name.lower(),
        "disagreement": row.disagreement.name.lower() if row.disagreement else None,
        "last_act": _act_name(row.placed_by),
        "last_proof": None if proof is None or proof.proof is None else {
            "result": proof.proof.value, "gate": proof.gate, "age_s": round(max(0.0, now - _measured(proof)), 1),
        },
        "acts": len(row.acts),
        "shell": row.shell or None,
    }  # fmt: skip


def _cells(row: MachineRow, now: float, reached: bool) -> tuple[str, ...]:
    machine, proof = row.machine, row.proof
    engine = "not known" if not reached else "no such node" if machine is None else machine.service.value
    last = row.placed_by
    ours = row.ours.value if last is None else f"{row.ours.value} ({_act_name(last)} {last.state.value})"
    proven = NONE
    if proof is not None and proof.proof is not None:
        proven = f"{proof.proof.value.replace('_', ' ')} {age_text(now - _measured(proof))} ago"
    return (
        one_line(row.node, 80),
        engine,
        ours,
        row.disagreement.value if row.disagreement else NONE,
        proven,
        one_line(machine.engine_health, 60) if machine and machine.engine_health else NONE,
        one_line(machine.instance_type, 40) if machine and machine.instance_type else NONE,
        _holder(machine),
        time_text(machine.since) if machine and machine.since is not None else NONE,
        str(len(row.acts)),
        one_line(", ".join(machine.jobs), 60) if machine and machine.jobs else NONE,
        one_line(row.shell, 300) or NONE,
    )


def _holder(machine: Machine | None) -> str:
    if machine is None or machine.holder is Holder.NOBODY:
        return NONE
    if machine.holder is Holder.OTHER:
        return one_line(machine.owner, 60) or "somebody else"
    return one_line(str(machine.mark), 100) if machine.mark else "prelaunch"


def _act_lines(act: Act) -> list[str]:
    """What a record has, in one line each; what is empty is left out."""
    head = f"{time_text(act.intended_at)} {_act_name(act)}: {act.state.value} at {time_text(act.changed_at)}"
    record = plain_table(act)
    record |= {f"found {name}": value for name, value in plain_table(record.pop("found")).items()}
    shown = [(name, value) for name, value in record.items() if value and name not in IN_HEAD]
    return [head, *(f"  {name}: {one_line(str(value), 500)}" for name, value in shown)]


def _act_name(act: Act | None) -> str | None:
    return None if act is None else f"{act.rung.value} {act.number}"


def _measured(act: Act) -> float:
    return act.measured_at or act.changed_at


def time_text(seconds: float) -> str:
    """A time in Unix seconds, in UTC."""
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
    except (ValueError, OverflowError, OSError):
        return "unknown time"
