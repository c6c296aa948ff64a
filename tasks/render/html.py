"""The verdict as one HTML file without scripts, network access or other files (pure).

Everything from a report is made inert by `clean` and escaped by Jinja. As a second safeguard a Content-Security-Policy allows
only the page's own style.
"""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass
from functools import cache
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from checks.judge.cost.cost import Cost
from checks.model import ANSWER_WORDS, Answer, Report, Verdict
from tasks.render.context import COMMAND, NO_CONTEXT, VerdictContext, advice
from tasks.render.findings import Group, gathered
from tasks.render.headline import answer_word, coverage_text, explanation, headline
from tasks.render.views.bandwidth import bandwidth_rows, panels, size_text, sweeps
from tasks.render.views.cost import cost_notes, cost_rows, is_worth_showing
from tasks.render.views.expectations import floors_said, held_from
from tasks.render.views.node_grid import grid
from tasks.render.views.node_tables import by_node, machines
from tasks.render.views.nodes import State, check_lines
from tasks.render.views.pairs import pair_map
from tasks.render.views.rails import views
from tasks.render.views.suspects import NAMED, is_quiet, matrix_rows, said_of, suspect_rows
from tasks.render.views.timeline import left_out, timeline
from tasks.text.inert import clean, one_line

if TYPE_CHECKING:
    from jinja2 import Template

HERE = Path(__file__).parent
FINDINGS, EVIDENCE = 100, 4
# All of it together, as it stands in the file: a page is opened on a phone; the report has the rest.
EVIDENCE_BYTES = 1_500_000
_TONES = {Answer.GO: "pass", Answer.NO_GO: "fail", Answer.CANNOT_TELL: "unknown", Answer.ASK: "warn"}
_SIGNS = {Answer.GO: "✓", Answer.NO_GO: "✕", Answer.CANNOT_TELL: "?", Answer.ASK: "!"}
_CLASSES = {
    State.SKIPPED: "skipped",
    State.PASS: "pass",
    State.WARN: "warn",
    State.UNKNOWN: "unknown",
    State.FAIL: "fail",
}


@dataclass(frozen=True)
class FindingCard:
    """One group of findings as the page shows it; evidence is (subject, text)."""

    tone: str
    word: str
    cause: str
    names: str
    check: str
    message: str
    remedy: str
    evidence: tuple[tuple[str, str], ...]
    typed: tuple[str, ...]
    source: str
    more_evidence: int


def html(report: Report | None, verdict: Verdict, name: str, context: VerdictContext = NO_CONTEXT) -> str:
    """The whole page. `report` is None for one that could not be read."""
    style = (HERE / "report.css").read_text(encoding="utf-8")
    return _template().render(style=style, policy=security(style), **_values(report, verdict, name, context))


@cache
def _template() -> Template:
    """Compiled once: that takes longer than to fill it in, and a refused gate's page is written twice."""
    import jinja2

    # jinja2.Template objects come from our own file; the report is only ever a value in it.
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters.update(
        line=one_line,
        clean=clean,
        tone=lambda state: _CLASSES[state],
        answer=lambda answer: _TONES[answer],
        word=lambda answer: ANSWER_WORDS[answer],
        sign=lambda answer: _SIGNS[answer],
    )
    return environment.from_string((HERE / "report.html").read_text(encoding="utf-8"))


def _values(report: Report | None, verdict: Verdict, name: str, context: VerdictContext) -> dict[str, object]:
    groups = gathered(verdict.findings)
    nodes, more_nodes = by_node(verdict)
    return {
        "name": one_line(name, 80),
        "said": headline(verdict, name).removeprefix(f"{answer_word(verdict)} "),
        "word": answer_word(verdict),
        "tone": _TONES[verdict.answer],
        "explanation": explanation(verdict),
        "training": context.training,
        "coverage": coverage_text(verdict.coverage),
        "counts": _counts(verdict),
        "cards": _cards(verdict, context),
        "beside": [one_line(line, 600) for line in context.said],
        "ledger": [entry for entry in context.ledger if not entry.skip],
        "costs": _costs(context.cost),
        "more_findings": max(0, len(groups) - FINDINGS),
        "nodes": nodes,
        "more_nodes": more_nodes,
        "past": context.past,
        "culprit": _culprit(context),
        "digests": verdict.digests,
        "report": report,
        **({} if report is None else _of_report(report, verdict, context)),
    }


def _culprit(context: VerdictContext) -> dict[str, object] | None:
    """The suspects among the parts that were tested in pairs, or that there is none."""
    if not context.shown:
        return None
    suspects = suspect_rows(context.shown)
    return {
        "said": said_of(context.shown),
        "quiet": is_quiet(context.shown),
        "suspects": suspects[:NAMED],
        "hidden": max(0, len(suspects) - NAMED),
        "matrices": matrix_rows(context.shown),
        "views": views(context.shown),
    }


def _costs(made: Cost | None) -> dict[str, object] | None:
    if made is None or not is_worth_showing(made):
        return None
    return {"rows": cost_rows(made), "notes": cost_notes(made)}


def _of_report(report: Report, verdict: Verdict, context: VerdictContext) -> dict[str, object]:
    checks = check_lines(report, verdict)
    measured = sweeps(report)
    shown = grid(report, verdict)
    order = [line.name for line in shown.lines if not line.is_cluster]
    order += [tile.name for tile in (*shown.unwell, *shown.well)]
    return {
        "grid": shown,
        "checks": [line for line in checks if line.planned.skip is None or line.state is not State.SKIPPED],
        "left_out": left_out(checks),
        "timeline": timeline(report),
        "machines": machines(report, order),
        "panels": panels(measured, context.expected),
        "bandwidth": bandwidth_rows(measured, context.expected),
        "expected": context.expected,
        "floors": floors_said(context.expected),
        "held_from": size_text(held_from()),
        "pairs": pair_map(report, verdict),
    }


def _cards(verdict: Verdict, context: VerdictContext) -> list[FindingCard]:
    made, room = [], EVIDENCE_BYTES
    for item in gathered(verdict.findings)[:FINDINGS]:
        fits = tuple(
            (one_line(subject, 120), clean(text))
            for subject, text in item.evidence[: EVIDENCE if room > 0 else 0]
        )
        room -= sum(len(escape(text).encode()) for _, text in fits)
        made.append(_card(item, verdict, context, fits))
    return made


def _card(
    item: Group, verdict: Verdict, context: VerdictContext, evidence: tuple[tuple[str, str], ...]
) -> FindingCard:
    remedy, commands = advice(item, verdict, context.place)
    tones = {"NOTE": "pass", "WARN": "warn", "FAIL": "fail"}
    return FindingCard(
        tone=tones.get(item.word, "unknown"),
        word=item.word,
        cause=item.cause.value,
        names=item.names,
        check=one_line(", ".join(item.checks), 1200),
        message=one_line(item.message, 600),
        remedy=one_line(remedy, 600),
        evidence=evidence,
        typed=tuple(one_line(line, COMMAND) for line in commands),
        source=one_line(item.source, 600),
        more_evidence=len(item.evidence) - len(evidence),
    )


def _counts(verdict: Verdict) -> list[tuple[str, int, int]]:
    c = verdict.coverage
    rows = [("nodes", c.nodes), ("GPUs", c.gpus), ("ranks", c.ranks), ("observations", c.checks)]
    return [
        (what, count.observed, count.required) for what, count in rows if count.required or what != "GPUs"
    ]


def security(style: str) -> str:
    """Allows this one style sheet, by its hash, and nothing else."""
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    return (
        f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:; base-uri 'none'; form-action 'none'"
    )
