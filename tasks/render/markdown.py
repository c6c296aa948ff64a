"""The verdict as Markdown: a CI summary, a Prefect artifact (pure). Text from a report is inert in it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from checks.judge.cost.cost import Cost
from checks.model import Report, Verdict
from tasks.render.context import NO_CONTEXT, VerdictContext, advice_once, earlier_said
from tasks.render.findings import Group, followed, gathered, independent
from tasks.render.headline import coverage_text, explanation_before, headline, run_lines, sentence
from tasks.render.views.bandwidth import bandwidth_rows, largest, sweeps
from tasks.render.views.cost import cost_notes, cost_rows, is_worth_showing
from tasks.render.views.nodes import State, check_lines, node_lines
from tasks.render.views.suspects import NAMED, is_quiet, matrix_rows, said_of, suspect_rows
from tasks.render.views.timeline import left_out, schedule_text
from tasks.text.inert import clean, one_line

FINDINGS, NODES, EVIDENCE, PAST = 30, 50, 1200, 8
# An underscore within a word begins nothing in CommonMark; links and mentions need no brackets in GitHub's.
_SPECIAL = re.compile(r"[\\`*\[\]<>&|~#@$]|://|www\.|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])", re.IGNORECASE)
# Prefect shows references in tables as they are, to people and through its API: a number has none, because an item of a list needs a
# space. No link or image begins without a bracket, so what follows one may stand.
_BEGINS = re.compile(
    r"[\\`*\[\]<>&~@]|://|www\.|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])|^[#+=-]|"
    + "|".join(rf"(?<=^\d{{{digits}}})[.)](?=\s|$)" for digits in range(1, 10)),
    re.IGNORECASE,
)
_RUNS = re.compile(r"`+")


def markdown(report: Report | None, verdict: Verdict, name: str, context: VerdictContext = NO_CONTEXT) -> str:
    """Headline, findings with evidence and remedy, the nodes, the checks and the digests."""
    groups = gathered(verdict.findings)
    parts = [f"# {escape(context.first_line or headline(verdict, name))}"]
    parts += [f"**{escape(context.own_decision, 1200)}**"] if context.own_decision else []
    parts.append(escape(explanation_before(verdict, context.failed)))
    parts += [f"**{escape(context.training)}**"] if context.training else []
    parts += [f"**{escape(context.measured)}**"] if context.measured else []
    parts.append(f"Observed: {escape(coverage_text(verdict.coverage))}.")
    parts += [escape(line) for line in context.said]
    if groups:
        own, caused = independent(groups)
        parts += ["## Findings", _findings(own, context), *_evidence(own, verdict, context)]
        parts += [f"{escape(followed(caused))}:", *_following(caused)] if caused else []
    if context.cost is not None and is_worth_showing(context.cost):
        parts += ["## Cost of starting the training anyway", _cost(context.cost)]
    parts += _culprit(context)
    if report is not None:
        parts += ["## Nodes", _nodes(report, verdict), "## Checks", _checks(report, verdict)]
        parts += _bandwidth(report, context)
    parts += _past(context)
    if report is not None:
        parts.append(
            escape(f"Gate {report.gate_id}, measured {report.measured_at}, profile {report.profile.value}.")
        )
        parts += [
            escape(f"{line[:1].upper()}{line[1:]}.", 4000) for line in run_lines(report, context.images)
        ]
    d = verdict.digests
    digests = f"report `{d.report:.16}`, policy `{d.policy:.16}`, facts `{d.facts:.16}`"
    digests += f", baseline `{d.baseline:.16}`" if d.baseline else ""
    parts.append(f"Digests: {digests}, Prelaunch {d.engine}.")
    return "\n\n".join(parts) + "\n"


def escape(text: str, most: int = 600) -> str:
    """One line of plain text: no markup, HTML, link, mention or table cell can begin in it."""
    return _SPECIAL.sub(_entity, one_line(text, most))


def inert(text: str, most: int = 1200) -> str:
    """The same for a text that is one line of Markdown by itself: signs that begin nothing there stay as they are."""
    return _BEGINS.sub(_entity, one_line(text, most))


def fenced(text: str) -> str:
    """Raw output in a code block that it cannot close."""
    body = clean(text)
    fence = "`" * max(3, 1 + max((len(run) for run in _RUNS.findall(body)), default=0))
    return f"{fence}text\n{body}\n{fence}"


def _entity(found: re.Match[str]) -> str:
    # Character references are never read as markup, in GitHub's, Prefect's or any other CommonMark reader.
    return "".join(f"&#{ord(c)};" if not c.isalnum() else c for c in found.group())


def _findings(groups: tuple[Group, ...], context: VerdictContext) -> str:
    rows: list[tuple[str, ...]] = [
        (item.word, item.cause.value, item.names, ", ".join(item.checks), item.message)
        for item in groups[:FINDINGS]
    ]
    head: tuple[str, ...] = ("Level", "Cause", "Subject", "Check", "Message")
    earlier = [earlier_said(item, context) for item in groups[:FINDINGS]]
    if any(earlier):
        head = (*head, "Earlier gates")
        rows = [(*row, said) for row, said in zip(rows, earlier, strict=True)]
    text = _table(head, rows)
    return (
        f"{text}\n\n{len(groups) - FINDINGS} more findings are in the report."
        if len(groups) > FINDINGS
        else text
    )


def _following(caused: tuple[Group, ...]) -> list[str]:
    more = len(caused) - FINDINGS
    lines = [f"- {escape(sentence(item, names=True))}" for item in caused[:FINDINGS]]
    return ["\n".join([*lines, *([f"- and {more} more"] if more > 0 else [])])]


def _evidence(groups: tuple[Group, ...], verdict: Verdict, context: VerdictContext) -> list[str]:
    parts = []
    shown = groups[:FINDINGS]
    for item, (remedy, lines) in zip(shown, advice_once(shown, verdict, context.place), strict=True):
        if remedy:
            parts.append(f"**{escape(item.who)}, {escape(item.where)}**: {escape(remedy)}")
        if lines:
            parts.append(fenced("\n".join(lines)))
        if item.source:
            parts.append(f"Source of the threshold: {escape(item.source)}.")
        if item.evidence:
            subject, text = item.evidence[0]
            cut = " (its beginning, the rest is in the report)" if len(text) > EVIDENCE else ""
            parts.append(f"Evidence of {escape(subject)}{cut}:\n\n{fenced(text[:EVIDENCE])}")
    return list(dict.fromkeys(parts))


def _bandwidth(report: Report, context: VerdictContext) -> list[str]:
    """Each collective's largest size, and the size furthest below what is expected of it."""
    rows = bandwidth_rows(sweeps(report), context.expected)
    if not rows:
        return []
    known = [row for row in rows if row.of_expected is not None]
    least = sorted(known, key=lambda row: row.of_expected or 0.0)[:1]
    shown = [*largest(rows), *(row for row in least if row not in largest(rows))]
    cells = [
        (
            row.check,
            row.sample.size,
            f"{row.sample.least:.3g}",
            f"{row.sample.middle:.3g}",
            "not known" if row.expected is None else f"{row.expected.value:.4g}",
            "" if row.of_expected is None else f"{row.of_expected:.2f}",
        )
        for row in shown
    ]
    head = ("Check", "Size", "Slowest rank, GB/s", "Median", "Expected", "Slowest of expected")
    sources = dict.fromkeys(f"Expected of {c.check}: {c.source}" for c in context.expected.curves)
    said = [*context.expected.unknown, *sources]
    return ["## Bandwidth", _table(head, cells), *(escape(line) for line in said)]


def _culprit(context: VerdictContext) -> list[str]:
    """The suspects and the result of each matrix; one line if no part is worse in any of them."""
    if not context.shown:
        return []
    if is_quiet(context.shown):
        return [f"Pair tests: {escape(said_of(context.shown)).lower()}."]
    parts, suspects = ["## Suspects", f"{escape(said_of(context.shown))}."], suspect_rows(context.shown)
    if suspects:
        head = ("Suspect", "Probability", "Bad tests", "Of the usual", "In", "Next likeliest")
        cells = [
            (
                f"{s.kind} {s.subject}",
                s.probability,
                f"{s.bad} {s.way}",
                s.of_usual,
                s.matrix,
                s.next_likeliest,
            )
            for s in suspects[:NAMED]
        ]
        parts.append(_table(head, cells))
    if len(suspects) > NAMED:
        parts.append(f"{len(suspects) - NAMED} more suspects are in the report.")
    columns = (
        "Check",
        "Matrix",
        "Answer",
        "Bad tests",
        "Typical value",
        "Bad tests are",
        "Sensitivity",
        "Disturbances",
    )
    rows = [
        (m.check, m.matrix, m.answer, m.bad, m.usual, m.line, m.sensitivity, m.hiccup)
        for m in matrix_rows(context.shown)
    ]
    return [*parts, _table(columns, rows)]


def _past(context: VerdictContext) -> list[str]:
    if context.past is None:
        return []
    past = context.past
    strip = ", ".join(f"{gate.when} {gate.word}" for gate in past.gates[-PAST:])
    worse = [f"Gets worse: {one.title}: {one.said} {one.spark}" for one in past.numbers if one.worse]
    said = [f"{past.said}: {strip}." if strip else "No earlier gate of this cluster is in the store."]
    return ["## Trend of this cluster", *(escape(line, 1200) for line in (*said, *worse, *past.problems))]


def _cost(made: Cost) -> str:
    head = ("Finding", "What it does", "Places", "Lost", "USD")
    rows = [(row.what, row.fault, row.places, row.lost, row.usd) for row in cost_rows(made)]
    return "\n\n".join([_table(head, rows), *(escape(note) for note in cost_notes(made))])


def _nodes(report: Report, verdict: Verdict) -> str:
    lines = node_lines(report, verdict)
    rows = [
        (
            f"{line.state.sign} {line.state.word}",
            line.name,
            "" if line.rank is None else str(line.rank),
            str(line.findings),
        )
        for line in lines[:NODES]
    ]
    text = _table(("Verdict", "Node", "Node index", "Findings"), rows)
    return (
        f"{text}\n\n{len(lines) - NODES} more nodes, none worse, are in the report."
        if len(lines) > NODES
        else text
    )


def _checks(report: Report, verdict: Verdict) -> str:
    rows = []
    lines = check_lines(report, verdict)
    for line in lines:
        if line.planned.skip is not None and line.state is State.SKIPPED:
            continue
        rows.append(
            (f"{line.state.sign} {line.state.word}", line.planned.check, line.planned.scope.value, line.seen)
        )
    parts = [_table(("Verdict", "Check", "Measured on each", "Observed"), rows)]
    parts += [
        f"Not run, {escape(reason)}: {', '.join(escape(name) for name in names)}."
        for reason, names in left_out(lines)
    ]
    took = schedule_text(report)
    return "\n\n".join([*parts, *([f"{escape(took)}."] if took else [])])


def _table(header: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = ["| " + " | ".join(header) + " |", "| " + " | ".join("---" for _ in header) + " |"]
    return "\n".join([*lines, *("| " + " | ".join(escape(cell) for cell in row) + " |" for row in rows)])
