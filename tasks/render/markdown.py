"""The verdict as Markdown: a CI summary, a Prefect artifact (pure). Text from a report is inert in it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from checks.model import Report, Verdict
from tasks.render.context import NO_CONTEXT, Advised, VerdictContext, advised
from tasks.render.findings import followed, gathered, independent
from tasks.render.headline import (
    coverage_text,
    explanation_before,
    headline,
    run_lines,
    sensitivity_lines,
    sentence,
)
from tasks.render.views.nodes import State, check_lines, left_out, node_lines
from tasks.render.views.suspects import is_quiet, matrices_table, said_of, suspects_table
from tasks.text.inert import clean, one_line
from tasks.text.tables import Table, counted, table

FINDINGS, NODES, SUSPECTS, EVIDENCE = 30, 50, 6, 1200
HEAD = ("Level", "Cause", "Subject", "Check", "Message")
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
    blocks = [f"# {escape(context.first_line or headline(verdict, name))}"]
    blocks += [f"**{escape(context.own_decision, 1200)}**"] if context.own_decision else []
    blocks.append(escape(explanation_before(verdict, context.failed)))
    blocks += [f"**{escape(line)}**" for line in (context.about_training, context.measured) if line]
    blocks.append(f"Observed: {escape(coverage_text(verdict.coverage))}.")
    blocks += [escape(line) for line in (*sensitivity_lines(verdict), *context.notes)]
    blocks += _findings(verdict, context)
    blocks += [escape(line) for line in context.below]
    blocks += _culprit(context)
    if report is not None:
        blocks += [*_nodes(report, verdict), *_checks(report, verdict)]
    past = context.past
    blocks += [escape(f"Gets worse: {line}", 1200) for line in past.worse] if past is not None else []
    if report is not None:
        run = f"gate {report.gate_id}, measured {report.measured_at}, profile {report.profile.value}"
        lines = (run, *run_lines(report, context.images))
        blocks += [escape(f"{line[:1].upper()}{line[1:]}.", 4000) for line in lines]
    d = verdict.digests
    digests = f"report `{d.report:.16}`, policy `{d.policy:.16}`, facts `{d.facts:.16}`"
    digests += f", baseline `{d.baseline:.16}`" if d.baseline else ""
    blocks.append(f"Digests: {digests}, Prelaunch {d.engine}.")
    return "\n\n".join(blocks) + "\n"


def escape(text: str, most: int = 600) -> str:
    """One line of plain text: no markup, HTML, link, mention or table cell can begin in it."""
    return _SPECIAL.sub(_entity, one_line(text, most))


def inert(text: str, most: int = 1200) -> str:
    """The result is a text as from `escape` that is one line of Markdown by itself. Signs that begin nothing there stay."""
    return _BEGINS.sub(_entity, one_line(text, most))


def fenced(text: str) -> str:
    """Raw output in a code block that it cannot close."""
    body = clean(text)
    fence = "`" * max(3, 1 + max((len(run) for run in _RUNS.findall(body)), default=0))
    return f"{fence}text\n{body}\n{fence}"


def _entity(match: re.Match[str]) -> str:
    # Character references are never read as markup, in GitHub's, Prefect's or any other CommonMark reader.
    return "".join(f"&#{ord(c)};" if not c.isalnum() else c for c in match.group())


def _findings(verdict: Verdict, context: VerdictContext) -> list[str]:
    groups = gathered(verdict.findings)
    own, caused = independent(groups)
    if not groups:
        return []
    all_advice = advised(own[:FINDINGS], verdict, context)
    items = [advice.item for advice in all_advice]
    body = [(g.label, g.cause.value, g.names, ", ".join(g.checks), g.message) for g in items]
    blocks = ["## Findings", *_table(table(HEAD, body))]
    blocks += [f"{len(own) - FINDINGS} more findings are in the report."] if len(own) > FINDINGS else []
    blocks += dict.fromkeys(block for advice in all_advice for block in _detail(advice))
    if caused:
        lines = [f"- {escape(sentence(item, names=True))}" for item in caused[:FINDINGS]]
        lines += [f"- and {len(caused) - FINDINGS} more"] if len(caused) > FINDINGS else []
        blocks += [f"{escape(followed(caused))}:", "\n".join(lines)]
    return blocks


def _detail(advice: Advised) -> Iterator[str]:
    item = advice.item
    if advice.remedy:
        yield f"**{escape(item.subject_text)}, {escape(item.where)}**: {escape(advice.remedy)}"
    if advice.commands:
        yield fenced("\n".join(advice.commands))
    if item.source:
        yield f"Source of the threshold: {escape(item.source)}."
    if item.evidence:
        subject, text = item.evidence[0]
        cut = " (its beginning, the rest is in the report)" if len(text) > EVIDENCE else ""
        yield f"Evidence of {escape(subject)}{cut}:\n\n{fenced(text[:EVIDENCE])}"


def _culprit(context: VerdictContext) -> list[str]:
    """The suspects and the result of each matrix; one line if no part is worse in any of them."""
    if not context.matrices:
        return []
    if is_quiet(context.matrices):
        return [f"Pair tests: {escape(said_of(context.matrices)).lower()}."]
    suspects = suspects_table(context.matrices, SUSPECTS)
    blocks = ["## Suspects", f"{escape(said_of(context.matrices))}.", *_table(suspects)]
    blocks += [f"{suspects.hidden} more suspects are in the report."] if suspects.hidden else []
    return [*blocks, *_table(matrices_table(context.matrices))]


def _nodes(report: Report, verdict: Verdict) -> list[str]:
    lines = node_lines(report, verdict)
    node_rows = [
        (f"{line.state.sign} {line.state.label}", line.name, str(line.rank if line.rank is not None else ""), str(line.findings))
        for line in lines if line.state is not State.PASS or line.is_cluster
    ]  # fmt: skip
    nodes = table(("Verdict", "Node", "Node index", "Findings"), node_rows, NODES)
    more = [f"{nodes.hidden} more nodes, none worse, are in the report."] if nodes.hidden else []
    passed = counted(len(lines) - len(node_rows), "node")
    return ["## Nodes", *_table(nodes), *more, f"Passed: {passed}."]


def _checks(report: Report, verdict: Verdict) -> list[str]:
    lines = check_lines(report, verdict)
    check_rows = [
        (f"{line.state.sign} {line.state.label}", line.planned.check, line.planned.scope.value, line.coverage)
        for line in lines
        if line.state is not State.PASS and (line.planned.skip is None or line.state is not State.SKIPPED)
    ]
    head = ("Verdict", "Check", "Measured on each", "Observed")
    families = Counter(line.planned.check.partition(".")[0] for line in lines if line.state is State.PASS)
    passed = ", ".join(f"{escape(family)} {count}" for family, count in families.items())
    return ["## Checks", *_table(table(head, check_rows)), f"Passed checks: {passed or 'none'}."] + [
        f"Not run, {escape(reason)}: {', '.join(escape(name) for name in names)}."
        for reason, names in left_out(lines)
    ]


def _table(cells: Table) -> list[str]:
    """The table as a block; none where it has no line."""
    lines = [cells.head, tuple("---" for _ in cells.head), *(tuple(map(escape, line)) for line in cells.body)]
    return ["\n".join("| " + " | ".join(line) + " |" for line in lines)] if cells.body else []
