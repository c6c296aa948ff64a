"""Text for a terminal: a baseline, what a store keeps, what may be deleted from it, and what a replay found (pure)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from checks.judge.baseline.bands import Baseline, Learned, digest_of
from checks.judge.baseline.samples import Side, label_text
from checks.judge.clocks import seconds_of
from checks.judge.rules.wording import figure
from checks.model import ANSWER_WORDS
from checks.value_types import listed_names
from tasks.render.headline import time_before
from tasks.reports.gate_folder.decision import answer_text
from tasks.reports.replay import Change, ReplayedGate, ReplayResult, VerdictSummary, answer_change
from tasks.store.prune import Pruning
from tasks.store.records import Record
from tasks.text.inert import one_line
from tasks.text.tables import aligned, counted, few

# So many lines of one replayed gate are shown, and so many subjects of findings that are alike.
LINES, SUBJECTS = 10, 3
LISTED = (ReplayResult.CHANGED, ReplayResult.NO_VERDICT, ReplayResult.NOT_COMPARED)
FILE = ", all of them in the file"
NO_OUTCOME = "not known"
COLUMNS = ("judged at", "gate", "cluster", "nodes", "answer", "decided", "first finding")


def baseline_text(baseline: Baseline) -> str:
    """What the baseline was made from, each band, and what was not used, by name."""
    return "".join(f"{_inert(line)}\n" for line in _lines(baseline))


def _lines(baseline: Baseline) -> Iterator[str]:
    bands = sum(len(learned.bands) for learned in baseline.groups)
    reports = len(baseline.reports)
    title = f"Baseline {digest_of(baseline):.16}" if bands else "No baseline"
    yield (
        f"{title}: {counted(bands, 'band')} in {counted(len(baseline.groups), 'group')}, from "
        f"{counted(reports, 'report')}, the newest of {baseline.measured_at or 'no time'}, judged by Prelaunch {baseline.engine}"
    )
    for learned in baseline.groups:
        yield ""
        yield from _group(learned, FILE if bands else "")
    yield from _listed(
        "Left out of the baseline",
        [f"{item.gate_id} {item.subject} {item.check}: {item.why}" for item in baseline.left_out],
        FILE if bands else "",
    )


def _group(learned: Learned, where: str) -> Iterator[str]:
    versions = ", ".join(f"{name} {' and '.join(items)}" for name, items in learned.versions.items())
    yield f"{learned.group}{f' ({versions})' if versions else ''}"
    for band in learned.bands:
        name = f"{band.check} {label_text(band.metric, band.label)}"
        least, most = f"at least {figure(band.low)}", f"at most {figure(band.high)}"
        ends = {Side.LOW: least, Side.HIGH: most, Side.EITHER: f"{least}, {most}"}[band.bad]
        yield (
            f"  {name}: median {figure(band.median)}, {ends}; "
            f"{counted(band.values, 'value')}, {counted(band.nodes, 'node')}, {counted(band.reports, 'report')}"
        )
    yield from _listed(
        "  Outliers left out",
        [
            f"{outlier.gate_id} {outlier.subject} {outlier.check}: {figure(outlier.value)}, {outlier.why}"
            for outlier in learned.outliers
        ],
        where,
    )
    yield from _listed(
        "  No band for",
        [f"{item.check} {label_text(item.metric, item.label)}: {item.why}" for item in learned.not_learned],
        where,
    )


def _listed(title: str, lines: list[str], where: str = FILE) -> Iterator[str]:
    if not lines:
        return
    indent = " " * (len(title) - len(title.lstrip()) + 2)
    yield f"{title}:"
    yield from (f"{indent}{line}" for line in few(lines, where=where))


def _inert(line: str) -> str:
    """The text made inert, with its indentation."""
    return " " * (len(line) - len(line.lstrip(" "))) + one_line(line, 400)


def listed_text(
    records: Sequence[Record], decided: Mapping[str, str], findings: Mapping[str, str] | None = None
) -> str:
    """One line per verdict, and their number. `decided` says by the id of a gate what was decided, by whom; `findings` what to show
    as its first finding, where that is another one than the verdict's.
    """
    own = findings or {}
    table_rows = [
        COLUMNS,
        *(
            _cells(record, decided.get(record.gate_id, ""), own.get(record.gate_id, record.finding))
            for record in records
        ),
    ]
    return "\n".join([*(aligned(table_rows) if records else ()), counted(len(records), "verdict")]) + "\n"


def unjudged_text(ended: Sequence[tuple[str, str, str]]) -> str:
    """The gates that ended without a verdict: when each began, its id, and why it ended; "" if there are none."""
    lines = [f"  {began}  {one_line(name, 100)}  {one_line(reason, 200)}" for began, name, reason in ended]
    return "\n".join([f"{counted(len(ended), 'gate')} ended without a verdict:", *lines, ""]) if ended else ""


def pruned_text(plan: Pruning, deleted: bool) -> str:
    """What was deleted or would be deleted, and what is old and stays."""
    verb = "removed" if deleted else "would go"
    lines = [f"{verb}: {one_line(gate.gate_id, 100)}, {gate.days:.0f} days old" for gate in plan.old]
    lines += [f"stays: {one_line(gate_id, 100)}: {one_line(reason)}" for gate_id, reason in plan.stays]
    number = f"{counted(len(plan.old), 'gate')} {verb}"
    tail = "" if deleted or not plan.old else "; --delete removes them"
    return "\n".join([*lines, number + tail]) + "\n"


def _cells(record: Record, decided: str, finding: str) -> tuple[str, ...]:
    reused = f"PASS of {record.reused}" if record.reused else ""
    return (
        record.judged_at,
        one_line(record.gate_id, 100),
        one_line(record.cluster, 63) or "-",
        str(record.nodes),
        answer_text(record),
        one_line(decided, 120) or NO_OUTCOME,
        (one_line(finding, 120) or one_line(reused, 120) or "-") + _older(record),
    )


def _older(record: Record) -> str:
    """The text says that the report was measured long before its verdict. It is empty where it was not, or where nobody knows."""
    before = time_before(seconds_of(record.judged_at), seconds_of(record.measured_at))
    return f" (measured {before} before, at {one_line(record.measured_at, 40)})" if before else ""


def gate_text(gate: ReplayedGate) -> str:
    """The lines about one gate, "" for one that is only counted."""
    if gate.fate not in LISTED:
        return ""
    return f"{_replay_headline(gate)}\n" + "".join(f"    {line}\n" for line in _replay_lines(gate))


def _replay_headline(gate: ReplayedGate) -> str:
    where = f" on {one_line(gate.cluster, 63)}" if gate.cluster else ""
    when = f", {gate.judged_at}" if gate.judged_at else ""
    outcome = answer_change(gate) if gate.fate is ReplayResult.CHANGED else gate.why
    if gate.fate is ReplayResult.NO_VERDICT and gate.after is not None:
        outcome += f"; it would be {ANSWER_WORDS[gate.after.answer]}"
    return f"{one_line(gate.gate_id, 100)}{where}{when}: {outcome}"


def _replay_lines(gate: ReplayedGate) -> Iterator[str]:
    alike = _alike(gate.changes)
    yield from (_change_line(some) for some in alike[:LINES])
    if hidden := sum(map(len, alike[LINES:])):
        yield f"and {hidden} more findings (--format json lists them)"
    if gate.before is not None and gate.after is not None and gate.before.condemned != gate.after.condemned:
        yield f"condemned: {_condemned(gate.before)} -> {_condemned(gate.after)}"
    elif gate.fate is ReplayResult.CHANGED and not gate.changes:
        yield "the findings are the same, and the policies differ in what a warning does (on_warn)"
    if gate.notes:
        yield f"note: {'; '.join(gate.notes)}"


def _alike(changes: Sequence[Change]) -> list[list[Change]]:
    """Changes that differ only in their subject, in the order of the first."""
    groups: dict[object, list[Change]] = {}
    for change in changes:
        key = change.how, change.before, change.after, change.cause, change.check, change.message
        groups.setdefault(key, []).append(change)
    return list(groups.values())


def _change_line(some: Sequence[Change]) -> str:
    first = some[0]
    levels = " -> ".join(level.value for level in (first.before, first.after) if level is not None)
    whom = listed_names([change.subject for change in some], SUBJECTS)
    return f"{first.how}: {levels} {first.cause.value} {whom}: {first.check}: {first.message}"


def _condemned(summary: VerdictSummary) -> str:
    return listed_names([one_line(name, 100) for name in summary.condemned], LINES) or "none"
