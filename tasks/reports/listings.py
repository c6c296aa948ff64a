"""Text for a terminal: a baseline, what a store keeps, and what may be deleted from it (pure)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from checks.judge.baseline.model import Baseline, Learned, digest_of
from checks.judge.baseline.samples import Side, label_text
from checks.judge.rules.wording import figure
from checks.model import ANSWER_WORDS, Answer
from tasks.store.prune import Pruning
from tasks.store.records import Record
from tasks.text.inert import one_line

NAMED = 20
FILE = ", all of them in the file"
COLUMNS = ("judged at", "gate", "cluster", "nodes", "answer", "decided", "first finding")


def baseline_text(baseline: Baseline) -> str:
    """What the baseline was made from, each band, and what was not used, by name."""
    return "".join(f"{_shown(line)}\n" for line in _lines(baseline))


def _lines(baseline: Baseline) -> Iterator[str]:
    bands = sum(len(learned.bands) for learned in baseline.groups)
    reports = len(baseline.reports)
    named = f"Baseline {digest_of(baseline):.16}" if bands else "No baseline"
    yield (
        f"{named}: {_many(bands, 'band')} in {_many(len(baseline.groups), 'group')}, from "
        f"{_many(reports, 'report')}, the newest of {baseline.measured_at or 'no time'}, by engine {baseline.engine}"
    )
    for learned in baseline.groups:
        yield ""
        yield from _group(learned, FILE if bands else "")
    yield from _listed(
        "Left out of the baseline",
        [
            f"{one.gate_id} {one.subject}{f' {one.check}' if one.check else ''}: {one.why}"
            for one in baseline.left_out
        ],
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
            f"{_many(band.values, 'value')}, {_many(band.nodes, 'node')}, {_many(band.reports, 'report')}"
        )
    yield from _listed(
        "  Outliers left out",
        [
            f"{one.gate_id} {one.subject} {one.check}: {figure(one.value)}, {one.why}"
            for one in learned.outliers
        ],
        where,
    )
    yield from _listed(
        "  No band for",
        [f"{one.check} {label_text(one.metric, one.label)}: {one.why}" for one in learned.not_learned],
        where,
    )


def _listed(title: str, lines: list[str], where: str = FILE) -> Iterator[str]:
    if not lines:
        return
    indent = " " * (len(title) - len(title.lstrip()) + 2)
    yield f"{title}:"
    yield from (f"{indent}{line}" for line in lines[:NAMED])
    if len(lines) > NAMED:
        yield f"{indent}and {len(lines) - NAMED} more{where}"


def _many(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _shown(line: str) -> str:
    """The text made inert, with its indentation."""
    return " " * (len(line) - len(line.lstrip(" "))) + one_line(line, 400)


def listed_text(
    records: Sequence[Record], decided: Mapping[str, str], found: Mapping[str, str] | None = None
) -> str:
    """One line per verdict, and their number. `decided` says by the id of a gate what was decided, and by whom; `found` what is shown
    as its first finding, where that is another one than the verdict's.
    """
    own = found or {}
    rows = [
        COLUMNS,
        *(_row(one, decided.get(one.gate_id, ""), own.get(one.gate_id, one.finding)) for one in records),
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(len(COLUMNS) - 1)]
    lines = [
        "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[-1]]).rstrip()
        for row in rows
    ]
    number = len(records)
    return "\n".join([*(lines if records else ()), f"{number} verdict{'' if number == 1 else 's'}"]) + "\n"


def pruned_text(plan: Pruning, deleted: bool) -> str:
    """What was deleted or would be deleted, and what is old and stays."""
    word = "removed" if deleted else "would go"
    lines = [f"{word}: {one_line(one.gate_id, 100)}, {one.days:.0f} days old" for one in plan.old]
    lines += [f"stays: {one_line(gate_id, 100)}: {one_line(why)}" for gate_id, why in plan.stays]
    number = f"{len(plan.old)} gate{'' if len(plan.old) == 1 else 's'} {word}"
    tail = "" if deleted or not plan.old else "; --delete removes them"
    return "\n".join([*lines, number + tail]) + "\n"


def _row(record: Record, decided: str, finding: str) -> tuple[str, ...]:
    # The level of what could not be told would read as if a machine had failed.
    level = "" if record.answer is Answer.CANNOT_TELL else f" ({record.level.value})"
    answer = f"{ANSWER_WORDS[record.answer]}{level}"
    reused = f"PASS of {record.reused}" if record.reused else ""
    return (
        record.judged_at,
        one_line(record.gate_id, 100),
        one_line(record.cluster, 63) or "-",
        str(record.nodes),
        answer,
        one_line(decided, 80) or "-",
        one_line(finding, 120) or one_line(reused, 120) or "-",
    )
