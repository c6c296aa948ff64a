"""The verdict as one HTML file: no script, no network, nothing outside it (pure).

Everything of a report is made inert by `clean` and escaped by Jinja; a Content-Security-Policy that allows
the page's own style alone is the second line.
"""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass
from pathlib import Path

from checks.cost import Cost
from checks.model import CLUSTER, Answer, Node, Report, Scope, Verdict
from tasks.render.beside import COMMAND, NOTHING_BESIDE, Beside, typed
from tasks.render.clean import clean, one_line
from tasks.render.cost import cost_notes, cost_rows, is_worth_showing
from tasks.render.curve import chart
from tasks.render.grouping import gathered, remedy_of
from tasks.render.headline import answer_word, coverage_text, explanation, headline
from tasks.render.matrix import CheckLine, State, check_lines, node_lines
from tasks.render.pairtable import pair_table
from tasks.render.timeline import left_out, timeline

HERE = Path(__file__).parent
NODES, FINDINGS = 200, 200
_TONES = {Answer.GO: "pass", Answer.NO_GO: "fail", Answer.CANNOT_TELL: "unknown", Answer.ASK: "warn"}
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


def html(report: Report | None, verdict: Verdict, name: str, beside: Beside = NOTHING_BESIDE) -> str:
    """The whole page. `report` is None for one that could not be read."""
    import jinja2

    style = (HERE / "report.css").read_text(encoding="utf-8")
    # jinja2.Template objects come from our own file; the report is only ever a value in it.
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters.update(line=one_line, clean=clean, tone=lambda state: _CLASSES[state])
    template = environment.from_string((HERE / "report.html").read_text(encoding="utf-8"))
    return template.render(style=style, policy=security(style), **_values(report, verdict, name, beside))


def _values(report: Report | None, verdict: Verdict, name: str, beside: Beside) -> dict[str, object]:
    groups = gathered(verdict.findings)
    return {
        "name": one_line(name, 80),
        "said": headline(verdict, name).removeprefix(f"{answer_word(verdict)} "),
        "word": answer_word(verdict),
        "tone": _TONES[verdict.answer],
        "explanation": explanation(verdict),
        "coverage": coverage_text(verdict.coverage),
        "counts": _counts(verdict),
        "cards": _cards(verdict, beside),
        "beside": [one_line(line, 600) for line in beside.said],
        "ledger": [entry for entry in beside.ledger if not entry.skip],
        "costs": _costs(beside.cost),
        "more_findings": max(0, len(groups) - FINDINGS),
        "digests": verdict.digests,
        "report": report,
        **({} if report is None else _of_report(report, verdict)),
    }


def _costs(made: Cost | None) -> dict[str, object] | None:
    if made is None or not is_worth_showing(made):
        return None
    return {"rows": cost_rows(made), "notes": cost_notes(made)}


def _of_report(report: Report, verdict: Verdict) -> dict[str, object]:
    lines, checks = node_lines(report, verdict), check_lines(report, verdict)
    columns = _worst_first(checks)
    shown = [line for line in lines if line.name != CLUSTER or line.rank is not None][:NODES]
    nodes = {node.name: node for node in report.nodes}
    cluster = [line for line in lines if line.name == CLUSTER and line.rank is None]
    return {
        "lines": [*cluster, *shown],
        "hidden_nodes": len(lines) - len(cluster) - len(shown),
        "columns": [checks[place] for place in columns],
        "cells": {line.name: [line.cells[place] for place in columns] for line in lines},
        "checks": [line for line in checks if line.planned.skip is None or line.state is not State.SKIPPED],
        "left_out": left_out(checks),
        "timeline": timeline(report),
        "identities": [(line.name, _identity(nodes.get(line.name))) for line in shown],
        "chart": chart(report),
        "pairs": pair_table(report, verdict),
    }


def _of_nodes(line: CheckLine) -> bool:
    """Whether a node has a cell of this check."""
    return line.planned.skip is None and line.planned.scope is not Scope.CLUSTER


def _worst_first(checks: tuple[CheckLine, ...]) -> list[int]:
    """The places of the checks that have a column: of sixty, those that failed are not to be scrolled for."""
    places = [place for place, check in enumerate(checks) if _of_nodes(check)]
    return sorted(places, key=lambda place: -checks[place].state)


def _cards(verdict: Verdict, beside: Beside) -> list[FindingCard]:
    tones = {"PASS": "pass", "WARN": "warn", "FAIL": "fail"}
    return [
        FindingCard(
            tone=tones.get(item.word, "unknown"),
            word=item.word,
            cause=item.cause.value,
            names=item.names,
            check=one_line(", ".join(item.checks), 1200),
            message=one_line(item.message, 600),
            remedy=one_line(remedy_of(item, verdict), 600),
            evidence=tuple((one_line(subject, 120), clean(text)) for subject, text in item.evidence[:4]),
            typed=tuple(one_line(line, COMMAND) for line in typed(item, verdict, beside.place)),
            source=one_line(item.source, 600),
        )
        for item in gathered(verdict.findings)[:FINDINGS]
    ]


def _counts(verdict: Verdict) -> list[tuple[str, int, int]]:
    c = verdict.coverage
    rows = [("nodes", c.nodes), ("GPUs", c.gpus), ("ranks", c.ranks), ("observations", c.checks)]
    return [
        (what, count.observed, count.required) for what, count in rows if count.required or what != "GPUs"
    ]


def _identity(node: Node | None) -> list[tuple[str, str]]:
    if node is None:
        return []
    return [
        (one_line(key, 60), one_line(value, 400)) for key, value in sorted(node.identity.items()) if value
    ]


def security(style: str) -> str:
    """Allows this one style sheet, by its hash, and nothing else."""
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    return (
        f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:; base-uri 'none'; form-action 'none'"
    )
