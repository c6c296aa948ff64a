"""The verdict as one HTML file without network access or other files (pure).

Everything can be read without its script, which filters, sorts and unfolds. Everything from a report is made inert by `clean` and
escaped by Jinja, and the script makes nothing but text of it. As a second safeguard a Content-Security-Policy allows only the
page's own style and script, by their hashes.
"""

from __future__ import annotations

import base64
import hashlib
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from checks.judge.rules.expected_questions import LEAST_BYTES
from checks.model import ANSWER_WORDS, Answer, Cause, Level, Report, Verdict
from checks.value_types import byte_size, natural
from tasks.render.context import COMMAND, NO_CONTEXT, Advised, EndMark, VerdictContext, advised
from tasks.render.findings import CONFIGURATION, Group, followed, gathered, independent
from tasks.render.headline import counts_of, explanation_before, headline, run_lines, sensitivity_lines
from tasks.render.views.bandwidth import bandwidth, bandwidth_table
from tasks.render.views.finding_table import MOST_NAMES as SHORT
from tasks.render.views.finding_table import MOST_ROWS, finding_anchor, finding_rows_of, ranged
from tasks.render.views.maps import maps_of
from tasks.render.views.measured import MeasuredNode, measured
from tasks.render.views.node_grid import Grid, grid
from tasks.render.views.nodes import NodeLine, State, check_lines, finding_state, left_out, places
from tasks.render.views.suspects import is_quiet, matrices_table, said_of, suspects_table
from tasks.text.inert import clean, one_line
from tasks.text.tables import counted

if TYPE_CHECKING:
    from jinja2 import Template


HERE = Path(__file__).parent
FINDINGS, EVIDENCE = 100, 4
# All of it together, as it stands in the file: a page is opened on a phone; the report has the rest.
EVIDENCE_BYTES = 700_000
NAMES = 20_000
# Rows of nodes with the same states share one if they are more; so many healthy nodes have rows of their own.
ALIKE, FEW = 3, 12
# So many rows has the table of nodes, and so many nodes are shown with all that was measured on them.
GRID_ROWS, MEASURED = 200, 60
_TONES = {Answer.GO: "pass", Answer.NO_GO: "fail", Answer.CANNOT_TELL: "unknown", Answer.ASK: "warn"}
_SIGNS = {Answer.GO: "✓", Answer.NO_GO: "✕", Answer.CANNOT_TELL: "?", Answer.ASK: "!"}
_END_SIGNS = {"fail": "✕", "skipped": "–"}
_CLASSES = {
    State.SKIPPED: "skipped",
    State.PASS: "pass",
    State.WARN: "warn",
    State.UNKNOWN: "unknown",
    State.FAIL: "fail",
}


@dataclass(frozen=True)
class FindingCard:
    """A group of findings, the evidence and the names of it that have room: (subject, text); many names are folded."""

    advice: Advised
    evidence: tuple[tuple[str, str], ...]
    names: tuple[str, ...]


@dataclass(frozen=True)
class GridRow:
    """The nodes `names`, whose cells are equal; `name` is short. A link is the anchor of a finding or of what was measured, "" if
    neither, of the row and of each cell.
    """

    name: str
    names: tuple[str, ...]
    line: NodeLine
    link: str
    cells: tuple[tuple[State, str], ...]


def html(report: Report | None, verdict: Verdict, name: str, context: VerdictContext = NO_CONTEXT) -> str:
    """The whole page. `report` is None for one that could not be read."""
    style, script = ((HERE / f"report.{suffix}").read_text(encoding="utf-8") for suffix in ("css", "js"))
    values = _values(report, verdict, name, context)
    return _template().render(style=style, script=script, policy=security(style, script), **values)


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
        typed=lambda command: one_line(command, COMMAND),
        tone=lambda state: _CLASSES[state],
        state=finding_state,
        anchor=finding_anchor,
        ranged=ranged,
        plural=counted,
        past_tone=lambda gate: _TONES[gate.answer] if gate.end is None else _end_tone(gate.end),
        past_sign=lambda gate: _SIGNS[gate.answer] if gate.end is None else _END_SIGNS[_end_tone(gate.end)],
    )


def _values(report: Report | None, verdict: Verdict, name: str, context: VerdictContext) -> dict[str, object]:
    groups, caused = independent(gathered(verdict.findings))
    finding_rows = finding_rows_of(groups)
    text, ended = headline(verdict, name), one_line(context.first_line, 900)
    is_more = bool(ended) and ended != text
    return {
        "name": one_line(name, 80),
        "said": text if is_more else text.removeprefix(f"{ANSWER_WORDS[verdict.answer]} "),
        "ended": ended if is_more else "",
        "word": ANSWER_WORDS[verdict.answer],
        "tone": _tone(verdict, context),
        "explanation": explanation_before(verdict, context.failed),
        "run_lines": run_lines(report, context.images) if report is not None else (),
        "counts": counts_of(verdict.coverage),
        "sensitivity": tuple(sensitivity_lines(verdict)),
        "cards": _cards(groups, verdict, context),
        "followed": followed(caused),
        "following": _cards(caused, verdict, context),
        "more_following": max(0, len(caused) - FINDINGS),
        "rows": finding_rows[:MOST_ROWS],
        "more_rows": max(0, len(finding_rows) - MOST_ROWS),
        "measured": (),
        "more_findings": max(0, len(groups) - FINDINGS),
        "configuration": CONFIGURATION if any(map(_leaves_doubt, groups)) else "",
        "past": context.past,
        "context": context,
        "culprit": _culprit(context),
        "digests": verdict.digests,
        "report": report,
        **({} if report is None else _of_report(report, verdict, context)),
    }


def _leaves_doubt(item: Group) -> bool:
    return item.cause is Cause.CONFIGURATION and item.level is not Level.PASS


def _end_tone(end: EndMark) -> str:
    """Nothing is said against a machine by a gate that was cancelled or got no machines."""
    return "fail" if end is EndMark.TRAINING_FAILED else "skipped"


def _tone(verdict: Verdict, context: VerdictContext) -> str:
    """Whatever failed is not green, whatever the verdict was; what says nothing against a machine is not red either."""
    if context.end is not None:
        return _end_tone(context.end)
    return "fail" if context.failed else _TONES[verdict.answer]


def _culprit(context: VerdictContext) -> dict[str, object] | None:
    """The suspects among the parts that were tested in pairs, or that there is none."""
    if not context.matrices:
        return None
    return {
        "said": said_of(context.matrices),
        "quiet": is_quiet(context.matrices),
        "suspects": suspects_table(context.matrices),
        "matrices": matrices_table(context.matrices),
        "maps": maps_of(context.matrices),
    }


def _of_report(report: Report, verdict: Verdict, context: VerdictContext) -> dict[str, object]:
    checks, node_grid, rates = (
        check_lines(report, verdict),
        grid(report, verdict),
        bandwidth(report, context.facts),
    )
    values = measured(report, [line.name for line in node_grid.lines if not line.is_cluster][:MEASURED])
    grid_rows = _grid_rows(node_grid, verdict, values)
    return {
        "grid": node_grid,
        "lines": grid_rows[:GRID_ROWS],
        "more_nodes": sum(len(grid_row.names) for grid_row in grid_rows[GRID_ROWS:]),
        "measured": values,
        "measured_hidden": len(report.nodes) - len(values),
        "checks": [line for line in checks if line.planned.skip is None or line.state is not State.SKIPPED],
        "left_out": left_out(checks),
        "bandwidth": bandwidth_table(rates.rates),
        "expected": rates,
        "held_from": byte_size(LEAST_BYTES),
    }


def _grid_rows(node_grid: Grid, verdict: Verdict, values: Sequence[MeasuredNode]) -> list[GridRow]:
    """Lines with the same states are one row, if they are many; each cell leads to its finding, or to what was measured."""
    anchors: dict[tuple[str, str], str] = {}
    for item in gathered(verdict.findings)[:FINDINGS]:
        for node in {node for subject in item.subjects for node in places(subject)}:
            for check in (*item.checks, ""):
                anchors.setdefault((node, check), finding_anchor(item))
    where = {node.name: f"m{at}" for at, node in enumerate(values)}
    where_of = {
        (node.name, line.check): f"m{at}-{index}"
        for at, node in enumerate(values)
        for index, line in enumerate(node.lines)
    }
    # The last column is of several checks.
    checks = [*(column.planned.check for column in node_grid.columns), ""]

    def link(node: str, check: str, state: State) -> str:
        of_check = anchors.get((node, check), "") if check else ""
        of_node = anchors.get((node, ""), "") if state > State.PASS else ""
        return of_check or of_node or where_of.get((node, check)) or where.get(node, "")

    alike: dict[object, list[NodeLine]] = defaultdict(list)
    for position, line in enumerate(node_grid.lines):
        few = line.is_cluster or (line.state <= State.PASS and position < FEW)
        alike[line.name if few else (line.state, line.cells)].append(line)
    grid_rows = []
    for lines in alike.values():
        for group in [lines] if len(lines) > ALIKE else [[line] for line in lines]:
            first, names = group[0], tuple(one_line(line.name, 120) for line in group)
            cells = tuple(
                (state, link(first.name, check, state))
                for check, state in zip(checks, first.cells, strict=False)
            )
            to = anchors.get((first.name, ""), "") or where.get(first.name, "")
            grid_rows.append(GridRow(ranged(names), names, first, to, cells))
    return sorted(grid_rows, key=lambda grid_row: (not grid_row.line.is_cluster, -grid_row.line.state))


def _cards(groups: Sequence[Group], verdict: Verdict, context: VerdictContext) -> list[FindingCard]:
    cards, room, letters = [], EVIDENCE_BYTES, NAMES
    for advice in advised(groups[:FINDINGS], verdict, context):
        evidence = advice.item.evidence[: EVIDENCE if room > 0 else 0]
        fits = tuple((one_line(subject, 120), clean(text)) for subject, text in evidence)
        room -= sum(len(escape(text).encode()) for _, text in fits)
        names = tuple(one_line(subject, 120) for subject in sorted(advice.item.subjects, key=natural))
        if len(names) <= SHORT or sum(map(len, names)) > letters:
            names = ()
        letters -= sum(map(len, names))
        cards.append(FindingCard(advice, fits, names))
    return cards


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
