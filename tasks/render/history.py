"""What a store keeps and what may go, as text."""

from __future__ import annotations

from collections.abc import Sequence

from tasks.pruning import Pruning
from tasks.render.clean import one_line
from tasks.render.replayed import WORDS
from tasks.store.record import Record

COLUMNS = ("judged at", "gate", "cluster", "nodes", "answer", "first finding")


def listed_text(records: Sequence[Record]) -> str:
    """One line a verdict, and their number."""
    rows = [COLUMNS, *(_row(record) for record in records)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(COLUMNS) - 1)]
    lines = [
        "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[-1]]).rstrip()
        for row in rows
    ]
    number = len(records)
    return "\n".join([*(lines if records else ()), f"{number} verdict{'' if number == 1 else 's'}"]) + "\n"


def pruned_text(plan: Pruning, deleted: bool) -> str:
    """What went, or would go, and what is old and stays."""
    word = "removed" if deleted else "would go"
    lines = [f"{word}: {one_line(one.gate_id, 100)}, {one.days:.0f} days old" for one in plan.old]
    lines += [f"stays: {one_line(gate_id, 100)}: {one_line(why)}" for gate_id, why in plan.stays]
    number = f"{len(plan.old)} gate{'' if len(plan.old) == 1 else 's'} {word}"
    tail = "" if deleted or not plan.old else "; --delete removes them"
    return "\n".join([*lines, number + tail]) + "\n"


def _row(record: Record) -> tuple[str, ...]:
    answer = f"{WORDS[record.answer]} ({record.level.value})"
    reused = f"PASS of {record.reused}" if record.reused else ""
    return (
        record.judged_at,
        one_line(record.gate_id, 100),
        one_line(record.cluster, 63) or "-",
        str(record.nodes),
        answer,
        one_line(record.finding, 120) or one_line(reused, 120) or "-",
    )
