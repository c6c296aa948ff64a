"""The verdict as one HTML file without network access or other files (pure).

Everything can be read without its script, which filters, sorts and unfolds. Everything from a report is made inert by `clean` and
escaped by Jinja, and the script makes nothing but text of it. As a second safeguard a Content-Security-Policy allows only the
page's own style and script, by their hashes.
"""

from __future__ import annotations

import base64
import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from checks.judge.cost.cost import Cost
from checks.model import ANSWER_WORDS, Answer, Cause, Level, Report, Verdict
from checks.value_types import natural
from tasks.render.context import COMMAND, NO_CONTEXT, EndMark, VerdictContext, advice_once, earlier_said
from tasks.render.findings import CONFIGURATION, Group, followed, gathered, independent
from tasks.render.headline import answer_word, coverage_text, explanation_before, headline, run_lines
from tasks.render.views.bandwidth import bandwidth_rows, panels, size_text, sweeps
from tasks.render.views.cost import cost_notes, cost_rows, is_worth_showing
from tasks.render.views.expectations import floors_said, held_from
from tasks.render.views.finding_table import NAMED as SHORT
from tasks.render.views.finding_table import ROWS, finding_anchor, finding_rows_of, ranged
from tasks.render.views.measured import MeasuredNode
from tasks.render.views.measured import measured as measured_on
from tasks.render.views.node_grid import Grid, GridLine, grid
from tasks.render.views.node_tables import by_node, machines
from tasks.render.views.nodes import State, check_lines, places
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
EVIDENCE_BYTES = 700_000
NAMES = 20_000
# Rows of nodes with the same states share one if they are more.
ALIKE = 3
# Where the link to the next gate goes, once there is one. Nothing from a report can contain it, because "<" is escaped.
NEXT_GATE = "<!-- next gate -->"
_TONES = {Answer.GO: "pass", Answer.NO_GO: "fail", Answer.CANNOT_TELL: "unknown", Answer.ASK: "warn"}
_SIGNS = {Answer.GO: "✓", Answer.NO_GO: "✕", Answer.CANNOT_TELL: "?", Answer.ASK: "!"}
# Nothing is said against a machine by a gate that was cancelled or got no machines.
_END_TONES = {
    EndMark.TRAINING_FAILED: "fail",
    EndMark.NOT_LAUNCHED: "skipped",
    EndMark.NO_CAPACITY: "skipped",
    EndMark.CANCELLED: "skipped",
    EndMark.REJECTED: "skipped",
}
_END_SIGNS = {mark: "✕" if tone == "fail" else "–" for mark, tone in _END_TONES.items()}
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
    anchor: str
    all: tuple[str, ...]
    earlier: str


@dataclass(frozen=True)
class GridCell:
    """One cell of the table of nodes and checks; `link` is the anchor of its finding or of what was measured, "" if neither."""

    state: State
    link: str


@dataclass(frozen=True)
class GridRow:
    """The nodes `names`, whose cells are equal; `name` is short."""

    name: str
    names: tuple[str, ...]
    state: State
    link: str
    cells: tuple[GridCell, ...]
    is_cluster: bool


def html(report: Report | None, verdict: Verdict, name: str, context: VerdictContext = NO_CONTEXT) -> str:
    """The whole page. `report` is None for one that could not be read."""
    style, script = ((HERE / f"report.{kind}").read_text(encoding="utf-8") for kind in ("css", "js"))
    values = _values(report, verdict, name, context)
    return _template().render(
        style=style, script=script, policy=security(style, script), next_gate=NEXT_GATE, **values
    )


def with_next_gate(page: bytes, gate_id: str, link: str, answer: Answer, end: str = "") -> bytes:
    """The page with a link to the gate that came after it; the same bytes if it has one already, or has no place for it. `end`: the
    link says that in place of the answer, because the gate has ended.
    """
    href = _href(link)
    where = f'<a href="{escape(href)}">Next gate</a>: ' if href else "Next gate: "
    said = f"<li>{where}{escape(one_line(gate_id, 120))}, "
    words = (ANSWER_WORDS[answer], escape(end))
    first, last = (f"{said}{word}</li>".encode("utf-8", "backslashreplace") for word in words)
    return page.replace(first, last, 1) if end else page.replace(NEXT_GATE.encode(), first, 1)


def _href(link: str) -> str:
    """A link to a page beside this one or in a console of the cloud; "" for whatever else a store may hold."""
    plain = link.isascii() and link.isprintable() and " " not in link and len(link) <= 1000
    return link if plain and link.startswith(("../", "https://")) else ""


@cache
def _template() -> Template:
    """Compiled once: that takes longer than to fill it in, and a refused gate's page is written twice."""
    return page_template(
        HERE / "report.html",
        line=one_line,
        href=_href,
        clean=clean,
        tone=lambda state: _CLASSES[state],
        past_tone=lambda gate: _TONES[gate.answer] if gate.end is None else _END_TONES[gate.end],
        past_sign=lambda gate: _SIGNS[gate.answer] if gate.end is None else _END_SIGNS[gate.end],
    )


def _values(report: Report | None, verdict: Verdict, name: str, context: VerdictContext) -> dict[str, object]:
    groups, caused = independent(gathered(verdict.findings))
    nodes, more_nodes = by_node(verdict)
    rows = finding_rows_of(groups)
    said, ended = headline(verdict, name), one_line(context.first_line, 900)
    is_more = bool(ended) and ended != said
    return {
        "name": one_line(name, 80),
        "said": said if is_more else said.removeprefix(f"{answer_word(verdict)} "),
        "ended": ended if is_more else "",
        "own_decision": one_line(context.own_decision, 1200),
        "word": answer_word(verdict),
        "tone": _tone(verdict, context),
        "explanation": explanation_before(verdict, context.failed),
        "run_lines": run_lines(report, context.images) if report is not None else (),
        "training": context.training,
        "age": context.measured,
        "coverage": coverage_text(verdict.coverage),
        "counts": _counts(verdict),
        "cards": _cards(groups, verdict, context),
        "followed": followed(caused),
        "following": _cards(caused, verdict, context),
        "more_following": max(0, len(caused) - FINDINGS),
        "rows": rows[:ROWS],
        "more_rows": max(0, len(rows) - ROWS),
        "changes": context.past.changes if context.past else None,
        "previous": context.past.previous if context.past else None,
        "measured": (),
        "beside": [one_line(line, 600) for line in context.said],
        "ledger": [entry for entry in context.ledger if not entry.skip],
        "costs": _costs(context.cost),
        "more_findings": max(0, len(groups) - FINDINGS),
        "configuration": CONFIGURATION if any(map(_leaves_doubt, groups)) else "",
        "nodes": nodes,
        "more_nodes": more_nodes,
        "past": context.past,
        "culprit": _culprit(context),
        "digests": verdict.digests,
        "report": report,
        **({} if report is None else _of_report(report, verdict, context)),
    }


def _leaves_doubt(item: Group) -> bool:
    return item.cause is Cause.CONFIGURATION and item.level is not Level.PASS


def _tone(verdict: Verdict, context: VerdictContext) -> str:
    """Whatever failed is not green, whatever the verdict was; what says nothing against a machine is not red either."""
    if context.end is not None:
        return _END_TONES[context.end]
    return "fail" if context.failed else _TONES[verdict.answer]


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
    lined = [line.name for line in shown.lines if not line.is_cluster]
    order = lined + [tile.name for tile in (*shown.unwell, *shown.well)]
    reported = {node.name for node in report.nodes}
    values = measured_on(report, [name for name in lined if name in reported])
    return {
        "grid": shown,
        "lines": _grid_rows(shown, verdict, values),
        "measured": values,
        "measured_hidden": len(reported & set(lined)) - len(values),
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


def _grid_rows(shown: Grid, verdict: Verdict, values: Sequence[MeasuredNode]) -> list[GridRow]:
    """Lines with the same states are one row, if they are many; each cell leads to its finding, or to what was measured."""
    found: dict[tuple[str, str], str] = {}
    for item in gathered(verdict.findings)[:FINDINGS]:
        anchor = finding_anchor(item)
        for node in {node for subject in item.subjects for node in places(subject)}:
            for check in (*item.checks, ""):
                found.setdefault((node, check), anchor)
    where = {node.name: f"m{at}" for at, node in enumerate(values)}
    lines = {node.name: {line.check: at for at, line in enumerate(node.lines)} for node in values}
    checks = [column.planned.check for column in shown.columns]

    def cell(line: GridLine, at: int, state: State) -> GridCell:
        check = checks[at] if at < len(checks) else ""
        link = found.get((line.name, check), "") if check else ""
        if not link and state > State.PASS:  # what is said of the node as a whole
            link = found.get((line.name, ""), "")
        if not link and line.name in where:
            row = lines[line.name].get(check)
            link = where[line.name] if row is None else f"{where[line.name]}-{row}"
        return GridCell(state, link)

    alike: dict[object, list[GridLine]] = defaultdict(list)
    for line in shown.lines:
        few = line.is_cluster or line.state <= State.PASS
        alike[line.name if few else (line.state, line.cells)].append(line)
    rows = []
    for group in _split(alike.values()):
        first, names = group[0], tuple(one_line(line.name, 120) for line in group)
        cells = tuple(cell(first, at, state) for at, state in enumerate(first.cells))
        link = found.get((first.name, ""), "") or where.get(first.name, "")
        rows.append(GridRow(ranged(names), names, first.state, link, cells, first.is_cluster))
    return sorted(rows, key=lambda row: (not row.is_cluster, -row.state))


def _split(alike: Iterable[list[GridLine]]) -> Iterator[list[GridLine]]:
    """Many stay together, a few are rows of their own."""
    for group in alike:
        yield from [group] if len(group) > ALIKE else ([line] for line in group)


def _cards(groups: Sequence[Group], verdict: Verdict, context: VerdictContext) -> list[FindingCard]:
    made, room, names = [], EVIDENCE_BYTES, NAMES
    shown = groups[:FINDINGS]
    for item, done in zip(shown, advice_once(shown, verdict, context.place), strict=True):
        fits = tuple(
            (one_line(subject, 120), clean(text))
            for subject, text in item.evidence[: EVIDENCE if room > 0 else 0]
        )
        room -= sum(len(escape(text).encode()) for _, text in fits)
        card = _card(item, done, context, fits, names)
        names -= sum(map(len, card.all))
        made.append(card)
    return made


def _card(
    item: Group,
    done: tuple[str, tuple[str, ...]],
    context: VerdictContext,
    evidence: tuple[tuple[str, str], ...],
    room: int,
) -> FindingCard:
    remedy, commands = done
    tones = {"NOTE": "pass", "WARN": "warn", "FAIL": "fail"}
    subjects = tuple(one_line(subject, 120) for subject in sorted(item.subjects, key=natural))
    return FindingCard(
        tone=tones.get(item.word, "unknown"),
        word=item.word,
        cause=item.cause.value,
        names=ranged(item.subjects),
        check=one_line(", ".join(item.checks), 1200),
        message=one_line(item.message, 600),
        remedy=one_line(remedy, 600),
        evidence=evidence,
        typed=tuple(one_line(line, COMMAND) for line in commands),
        source=one_line(item.source, 600),
        more_evidence=len(item.evidence) - len(evidence),
        anchor=finding_anchor(item),
        all=subjects if len(subjects) > SHORT and sum(map(len, subjects)) <= room else (),
        earlier=earlier_said(item, context),
    )


def _counts(verdict: Verdict) -> list[tuple[str, int, int]]:
    c = verdict.coverage
    rows = [("nodes", c.nodes), ("GPUs", c.gpus), ("ranks", c.ranks), ("observations", c.checks)]
    return [
        (what, count.observed, count.required) for what, count in rows if count.required or what != "GPUs"
    ]


def security(style: str, script: str = "") -> str:
    """Allows this one style sheet and this one script, by their hashes, and nothing else."""
    scripts = f"script-src '{_digest(script)}'; require-trusted-types-for 'script'; " if script else ""
    return f"default-src 'none'; {scripts}style-src '{_digest(style)}'; img-src data:; base-uri 'none'; form-action 'none'"


def _digest(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def page_template(path: Path, **filters: Callable[..., Any]) -> Template:
    """The template of a page, which may use these filters and begins with head.html: a report is only ever a value in it."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(HERE),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(filters)
    return environment.from_string(path.read_text(encoding="utf-8"))
