"""The verdict in a terminal: the answer first, then why, then what it is based on (pure; laid out by rich)."""

from __future__ import annotations

import io
from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from checks.model import Answer, Cause, Level, Report, Verdict
from tasks.render.context import COMMAND, NO_CONTEXT, Advised, EndMark, VerdictContext, advised
from tasks.render.findings import Group, followed, gathered, independent
from tasks.render.headline import (
    coverage_text,
    explanation_before,
    headline,
    run_lines,
    sensitivity_lines,
    sentence,
)
from tasks.render.views.nodes import CheckLine, State, check_lines, finding_state, left_out
from tasks.text.inert import clean, one_line
from tasks.text.tables import counted, few

FINDINGS, EVIDENCE_LINES = 40, 8
# So many causes of missing evidence are shown like other findings, and so many of the others have a line.
MOST_WHOLE, MOST_LINES = 3, 12
_COLOURS = {
    State.SKIPPED: "dim",
    State.PASS: "green",
    State.WARN: "yellow",
    State.UNKNOWN: "magenta",
    State.FAIL: "red",
}
_ANSWERS = {
    Answer.GO: "bold green",
    Answer.NO_GO: "bold red",
    Answer.CANNOT_TELL: "bold magenta",
    Answer.ASK: "bold yellow",
}


def terminal(
    report: Report | None,
    verdict: Verdict,
    name: str,
    width: int = 100,
    colour: bool = False,
    context: VerdictContext = NO_CONTEXT,
) -> str:
    """Text for a terminal `width` columns wide. The first line is the headline, whole, however long it is."""
    out = io.StringIO()
    console = text_console(out, width, colour)
    console.print(
        Text(one_line(context.first_line, 900) or headline(verdict, name), style=_style(verdict, context)),
        soft_wrap=True,
    )
    if context.own_decision:
        console.print(Text(one_line(context.own_decision, 1200)), soft_wrap=True)
    console.print(Text(explanation_before(verdict, context.failed)))
    if verdict.answer is not Answer.GO:
        console.print(Text(f"Observed: {coverage_text(verdict.coverage)}."))
    for line in filter(None, (context.about_training, context.measured, *context.notes)):
        console.print(Text(one_line(line, 600)))
    groups = gathered(verdict.findings)
    if groups:
        _show_findings(console, groups, verdict, context)
    if context.retry:  # not wrapped: it is a command
        console.print(
            Text(f"To try without the failed nodes: {one_line(context.retry, 600)}"), soft_wrap=True
        )
    for line in sensitivity_lines(verdict):
        console.print(Text(one_line(line, 600)))
    if report is not None:
        console.print()
        checks = check_lines(report, verdict)
        # A refusal must not scroll away above what passed.
        lines = [line for line in checks if verdict.answer is Answer.GO or line.state is not State.PASS]
        console.print(_checks(lines))
        if len(lines) < len(checks):
            console.print(f"{counted(len(checks) - len(lines), 'other check')} passed.")
        for reason, names in left_out(checks):
            console.print(Text(one_line(f"not run, {reason}: {', '.join(names)}", 4000), style="dim"))
        gate_text = f"gate {report.gate_id}, {report.declared.instance_type}, profile {report.profile.value}"
        for line in (f"{gate_text}, measured {report.measured_at}", *run_lines(report, context.images)):
            console.print(Text(one_line(line, 4000), style="dim"))
    d = verdict.digests
    base = f"baseline {d.baseline:.12}  " if d.baseline else ""
    console.print(
        Text(f"report {d.report:.12}  policy {d.policy:.12}  {base}Prelaunch {d.engine}", style="dim")
    )
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"


def _style(verdict: Verdict, context: VerdictContext) -> str:
    if context.end not in (None, EndMark.TRAINING_FAILED):
        return "bold"
    return _ANSWERS[Answer.NO_GO if context.failed else verdict.answer]


def text_console(out: io.StringIO, width: int, colour: bool) -> Console:
    """A console that writes text as it is: no markup, links or emoji begin in it."""
    return Console(
        file=out, width=width, force_terminal=colour, color_system="standard" if colour else None,
        highlight=False, markup=False, emoji=False, legacy_windows=False,
    )  # fmt: skip


def _show_findings(
    console: Console, groups: tuple[Group, ...], verdict: Verdict, context: VerdictContext
) -> None:
    console.print()
    whole, missing = parted(groups)
    first = whole[:FINDINGS]
    for advice in advised(first, verdict, context):
        item = advice.item
        checks = one_line(", ".join(item.checks), 1200)
        console.print(Text(f"{item.heading}  {item.names}  {checks}", style=_COLOURS[finding_state(item)]))
        console.print(Padding(Text(one_line(item.message, 600)), (0, 0, 0, 2)))
        _show_detail(console, advice)
    for line in missing_lines(missing) if missing else ():
        console.print(Text(line))
    if len(whole) > len(first):
        console.print(Text(f"{len(whole) - len(first)} more findings: see --format json or --html."))


def _show_detail(console: Console, advice: Advised) -> None:
    lines = clean(advice.item.evidence[0][1]).splitlines() if advice.item.evidence else []
    if advice.remedy:
        console.print(Padding(Text(f"Do: {one_line(advice.remedy, COMMAND)}"), (0, 0, 0, 2)))
    for line in advice.commands:  # not wrapped: a command that is copied from two lines is two commands
        console.print(Text(f"  $ {one_line(line, COMMAND)}"), soft_wrap=True)
    texts = [Text(f"| {one_line(line)}", style="dim") for line in lines[:EVIDENCE_LINES]]
    more = len(lines) - EVIDENCE_LINES
    texts += [Text(f"| ({counted(more, 'more line')} in the report)", style="dim")] if more > 0 else []
    for text in texts:
        console.print(Padding(text, (0, 0, 0, 2)))


def _checks(lines: Sequence[CheckLine]) -> Table:
    table = Table(box=box.SIMPLE, pad_edge=False, show_edge=False)
    for title in ("check", "verdict", "observed", "longest"):
        table.add_column(title, overflow="fold")
    for line in lines:
        if line.planned.skip is not None and line.state is State.SKIPPED:
            continue
        state = Text(f"{line.state.sign} {line.state.label}", style=_COLOURS[line.state])
        took = f"{line.seconds:.1f} s" if line.seconds is not None else ""
        table.add_row(Text(one_line(line.planned.check, 60)), state, Text(line.coverage), Text(took))
    return table


def parted(groups: Sequence[Group]) -> tuple[tuple[Group, ...], tuple[Group, ...]]:
    """The groups to show whole, and those of missing evidence that have one line each, because a list of all of them hides the others.

    The first group is always whole: it is what the headline says. What follows from a silent node never is.
    """
    missing = [item for item in groups[1:] if item.cause is Cause.EVIDENCE and item.level is not Level.PASS]
    own, caused = independent(missing)
    brief = (*own[MOST_WHOLE:], *caused)
    return tuple(item for item in groups if item not in brief), brief


def missing_lines(groups: Sequence[Group]) -> list[str]:
    """A line per cause; then what follows from silent nodes, whose remedy is theirs; and where the complete list is."""
    own, caused = independent(groups)
    lines = (
        [f"Evidence is also missing for {counted(len(own), 'other reason')}:", *_brief(own)] if own else []
    )
    lines += [f"{followed(caused)}; no other remedy is needed:", *_brief(caused)] if caused else []
    return [*lines, "  The complete list, with remedies and evidence: --html FILE, or --format json."]


def _brief(groups: Sequence[Group]) -> list[str]:
    lines = few([sentence(item, names=True) for item in groups], MOST_LINES)
    return [f"  {one_line(line, 240)}" for line in lines]
