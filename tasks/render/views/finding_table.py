"""Findings as a table of few rows, however many nodes a fleet has, and the anchor of each finding on its page (pure).

Findings that differ only in their values share a row, and many names are written as the first and the last one in natural order.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from checks.judge.rules.wording import subject_type
from checks.model import Answer, Verdict
from checks.value_types import natural
from tasks.render.findings import Group
from tasks.render.headline import deciding
from tasks.render.views.nodes import State, finding_state
from tasks.text.inert import browsable, one_line

MOST_ROWS = 60
# So many names are written out; of more the first and the last.
MOST_NAMES = 3
# So many findings of one kind have a row each; more share one.
ALIKE = 3
RANK = "/rank-"


@dataclass(frozen=True)
class FindingRow:
    """One row: `who` is short, `anchor` is that of the first finding."""

    state: State
    label: str
    subject: str
    message: str
    check: str
    anchor: str


def finding_anchor(item: Group) -> str:
    """The id of a finding's card on the page, the same in every page of a verdict: "finding-network-pairs-1f0c9a3e"."""
    about = (
        item.level.value, item.cause.value, *item.checks, item.message, item.remedy, item.source, item.action.value,
        *item.elements, *item.subjects,
    )  # fmt: skip
    digest = hashlib.sha256("\0".join(about).encode("utf-8", "backslashreplace")).hexdigest()
    letters = "".join(c if c.isascii() and c.isalnum() else " " for c in item.check.lower()[:40])
    return "-".join(("finding", *letters.split(), digest[:8]))


def first_anchor(verdict: Verdict) -> str:
    """The anchor of the finding that decides the verdict, for the address of its page; "" for a GO, which none decides."""
    groups = deciding(verdict) if verdict.answer is not Answer.GO else ()
    return finding_anchor(groups[0]) if groups else ""


def with_anchor(page: str, verdict: Verdict) -> str:
    """The address of the page, at the finding that decides. The console of a bucket opens no page, so it gets no anchor."""
    anchor = first_anchor(verdict)
    plain = bool(page) and browsable(page) == page
    return f"{page}#{anchor}" if plain and anchor else browsable(page)


def finding_rows_of(groups: Sequence[Group]) -> tuple[FindingRow, ...]:
    """The rows in the order of the findings, the worst first."""
    kinds: dict[tuple[object, ...], list[Group]] = {}
    for item in groups:
        kinds.setdefault(_sort_key(item), []).append(item)
    lines: list[FindingRow] = []
    for item in groups:
        alike = kinds[_sort_key(item)]
        if len(alike) <= ALIKE:
            lines.append(_line(item, item.subjects, item.message))
        elif item is alike[0]:
            subjects = tuple(dict.fromkeys(subject for group in alike for subject in group.subjects))
            lines.append(_line(item, subjects, f"{item.message} (the first of {len(alike)} such findings)"))
    return tuple(lines)


def ranged(subjects: Sequence[str]) -> str:
    """Short, in natural order: "node-1", "node-1, node-2", "37 nodes: node-12 ... node-980", "node-1, 8 ranks: 8 ... 15"."""
    ordered = sorted(set(subjects), key=natural)
    if len(ordered) <= MOST_NAMES:
        return ", ".join(one_line(subject, 120) for subject in ordered)
    nodes = {subject.partition(RANK)[0] for subject in ordered}
    if len(nodes) == 1 and all(RANK in subject for subject in ordered):
        first, last = (one_line(ordered[end].partition(RANK)[2], 40) for end in (0, -1))
        return f"{one_line(nodes.pop(), 120)}, {len(ordered)} ranks: {first} ... {last}"
    return f"{len(ordered)} {subject_type(ordered)}: {one_line(ordered[0], 120)} ... {one_line(ordered[-1], 120)}"


def _line(item: Group, subjects: Sequence[str], message: str) -> FindingRow:
    names, message_line = ranged(subjects), one_line(message, 400)
    return FindingRow(finding_state(item), item.label, names, message_line, item.where, finding_anchor(item))


def _sort_key(item: Group) -> tuple[object, ...]:
    return (item.level, item.cause, item.checks, item.remedy, item.action)
