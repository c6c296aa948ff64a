"""The Xids of a kernel log or a report, with what several vendors and clouds say about each. The first vendor named decides.

The answers are shown side by side in a terminal, and as JSON (pure).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from checks.documents.decode import nearest
from checks.explain.reading import Kind, ReadOptions
from checks.judge.xid_overlay import CHECK, Answer, answer, whole
from checks.model import Level, Value
from checks.policy import Overlay, Policy
from checks.probes.kernel.xid_rows import IncidentRow
from tasks.reports.explain import Explanation, explain_input
from tasks.reports.read import InputError
from tasks.text.inert import clean

OPTION = "--as"
Metrics = Mapping[str, Value]
MILDER = "* is milder than NVIDIA's catalogue, whose FAIL applies."
SILENT = "= has no answer to this code: NVIDIA's answer applies."


@dataclass(frozen=True)
class XidRow:
    """One incident: whose ("input" for a log), and each overlay's own words, in the order in which they were named."""

    subject: str
    told: IncidentRow
    answers: tuple[Answer, ...]


@dataclass(frozen=True)
class XidComparison:
    """The verdict under the first overlay, and the rows. `unread` names the subjects whose incidents are not whole."""

    explained: Explanation
    overlays: tuple[Overlay, ...]
    rows: tuple[XidRow, ...]
    unread: tuple[str, ...] = ()


def overlays_of(text: str) -> tuple[Overlay, ...]:
    """The overlays that a command line names ("nvidia,hyperpod"). Raises InputError."""
    names, known = text.split(","), [one.value for one in Overlay]
    for name in names:
        if name not in known:
            near = nearest(name, known)
            said = f"{name!r:.40} has no answers to Xids. Known: {', '.join(known)}."
            raise InputError(OPTION, said, "overlay", near)
    if len(set(names)) < len(names):
        raise InputError(OPTION, "a name is given twice")
    return tuple(Overlay(name) for name in names)


def compare_overlays(
    file: str, kind: Kind | None, policy: Policy | None, asked: ReadOptions, overlays: tuple[Overlay, ...]
) -> XidComparison:
    """Read and judge the input under the first overlay, and set the others beside it. Raises InputError.

    What cannot be read is "cannot tell", as without overlays; what has no Xids by its kind is refused.
    """
    found = explain_input(file, kind, policy, replace(asked, overlay=overlays[0]))
    if found.kind not in (None, Kind.KERNEL_LOG, Kind.REPORT):
        raise InputError(OPTION, f"{file} is {found.kind.value}: only a kernel's log or a report holds Xids")
    rows: list[XidRow] = []
    unread: list[str] = []
    for subject, metrics in _measured(found).items():
        told = whole(metrics)
        if told is None:
            unread.append(subject)
        for one in told or ():
            rows.append(XidRow(subject, one, tuple(answer(one, overlay) for overlay in overlays)))
    return XidComparison(found, overlays, tuple(rows), tuple(unread))


def _measured(found: Explanation) -> dict[str, Metrics]:
    """Subject -> what was measured of its Xids; nothing at all for a node, or an input, that could not be read."""
    if found.report is not None:
        rows = {row.subject: row.metrics for row in found.report.observations if row.check == CHECK}
        return {**{node.name: {} for node in found.report.nodes}, **rows}
    return {"input": next((part.metrics for part in found.parts if part.check == CHECK), {})}


def comparison_text(found: XidComparison) -> str:
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
    unread = [
        f"{clean(subject)}: its list of Xids is not complete, so there is no verdict"
        for subject in found.unread
    ]
    return "\n".join([*lines, *notes, *unread]) + "\n"


def comparison_rows(found: XidComparison) -> list[dict[str, object]]:
    """The comparison as plain values."""
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


def _cell(row: XidRow, answer: Answer) -> str:
    if not answer.speaks:
        mark = " ="
    else:
        milder = row.told.need.level is Level.FAIL and answer.level is not Level.FAIL
        mark = " *" if milder else ""
    return f"{answer.level.value} {answer.action.value}{mark}"
