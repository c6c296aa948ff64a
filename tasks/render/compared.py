"""Answers to Xids side by side, for a terminal and as JSON (pure)."""

from __future__ import annotations

from checks.kernel.overlay import Answer
from checks.model import Level
from tasks.comparing import Compared, Row
from tasks.render.clean import clean

MILDER = "* says less than NVIDIA's catalogue, whose FAIL stands."
SILENT = "= does not speak of this code: NVIDIA's answer stands."


def compared_text(found: Compared) -> str:
    """A table with a row an incident, the gravest first, and what the marks in it mean."""
    head = ["Xid", "whose", "lines", *(overlay.value for overlay in found.overlays)]
    rows = [
        [
            clean(row.told.name.removeprefix("Xid ")),
            clean(row.told.gpu if row.subject == "input" else f"{row.subject} {row.told.gpu}"),
            str(row.told.count),
            *(_cell(row, answer) for answer in row.answers),
        ]
        for row in found.rows
    ]
    widths = [max(len(line[column]) for line in [head, *rows]) for column in range(len(head))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in [head, *rows]
    ]
    if not rows:
        lines = [] if found.unread else ["no Xid to compare"]
    notes = [note for note in (MILDER, SILENT) if any(f" {note[0]}" in line for line in lines[1:])]
    unread = [f"{clean(subject)}: no whole list of its Xids, so nobody can tell" for subject in found.unread]
    return "\n".join([*lines, *notes, *unread]) + "\n"


def compared_rows(found: Compared) -> list[dict[str, object]]:
    """The same as plain values."""
    return [
        {
            "subject": row.subject,
            "gpu": row.told.gpu,
            "code": row.told.code or None,
            "name": row.told.name,
            "lines": row.told.count,
            "last_line": row.told.line,
            "since": row.told.since.value or None,
            "answers": {
                overlay.value: {
                    "level": answer.level.value,
                    "action": answer.action.value,
                    "why": answer.why,
                    "source": answer.source,
                    "speaks": answer.speaks,
                }
                for overlay, answer in zip(found.overlays, row.answers, strict=True)
            },
        }
        for row in found.rows
    ]


def _cell(row: Row, answer: Answer) -> str:
    if not answer.speaks:
        mark = " ="
    else:
        milder = row.told.need.level is Level.FAIL and answer.level is not Level.FAIL
        mark = " *" if milder else ""
    return f"{answer.level.value} {answer.action.value}{mark}"
