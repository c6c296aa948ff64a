"""The answers to `/prelaunch status` and `/prelaunch why`, as blocks that fit one message (pure)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from checks.facts.own_machine import short_text
from checks.judge.clocks import seconds_of
from checks.model import ANSWER_WORDS, Answer
from tasks.notifiers.slack.blocks import Block, escape, fit, link, marked, plain, small_marked
from tasks.notifiers.slack.messages import finding_blocks
from tasks.paging.content import items_of
from tasks.render.context import VerdictContext
from tasks.render.headline import coverage_text, explanation, headline, measured_before
from tasks.render.remedy_commands import RemedyContext, engine_of
from tasks.reports.fleet.fleet import Fleet, NodeState
from tasks.reports.fleet.text import advice_lines, answer_line, moved_line, state_line
from tasks.slackbot.dialogs import inline
from tasks.slackbot.history import PastVerdict
from tasks.slackbot.prefect_client import PrefectRun
from tasks.store.layout import html_key
from tasks.store.records import Record
from tasks.text.inert import browsable

FINDINGS = 8
NODES = 8
RUNS = 5
HELP = "\n".join(
    (
        "`/prelaunch gate NAME [why]`  start this gate: checks, then the training if the machines are fit",
        "`/prelaunch remedy NAME [why]`  repair what this gate condemned, as its gate file allows",
        "`/prelaunch status [NAME]`  what runs or waits, and the last verdict",
        "`/prelaunch fleet [NAME]`  which nodes are proven, and the worst of them",
        "`/prelaunch why [NAME or GATE ID]`  the last refusal: what was found, and what to do",
        "`/prelaunch help`  this",
    )
)


@dataclass(frozen=True)
class Reply:
    """A reply to one person: `text` is for notifications, and is the whole reply if there are no blocks."""

    text: str
    blocks: tuple[Block, ...] = ()


@dataclass(frozen=True)
class GateStatus:
    """One gate of the list: its runs, and its last verdict or why there is none to show."""

    name: str
    cluster: str
    runs: tuple[PrefectRun, ...]
    last: Record | None
    problem: str


def text_reply(text: str) -> Reply:
    """Lines of markup of our own."""
    return Reply(text, (marked(text),))


def status(states: Sequence[GateStatus], prefect: str) -> Reply:
    """A block a gate; `prefect` says why no runs are shown, "" if they are."""
    blocks = [marked(f"Runs are not shown: {escape(prefect)}")] if prefect else []
    blocks += [_state(state, not prefect) for state in states]
    text = "; ".join(f"{state.name}: {_last(state)}" for state in states)
    rest = "More gates than one message holds: /prelaunch status NAME shows one."
    return Reply(text[:300], tuple(fit(blocks, rest)))


def fleet(clusters: Sequence[tuple[str, Fleet | str]]) -> Reply:
    """A block per cluster: the answer and its worst nodes, or why there is none."""
    blocks: list[Block] = []
    for cluster, result in clusters:
        if isinstance(result, str):
            blocks.append(marked(f"*{escape(cluster, 80)}*: {escape(result, 600)}"))
            continue
        lines = [f"*{escape(cluster, 80)}*: {escape(answer_line(result), 1000)}"]
        lines += [escape(moved, 600)] if (moved := moved_line(result)) else []
        bad = [node for node in result.nodes if node.state is not NodeState.PROVEN or node.trend.worse]
        lines += [f"{inline(node.name, 80)} {escape(state_line(node), 400)}" for node in bad[:NODES]]
        lines += [f"and {len(bad) - NODES} more"] if len(bad) > NODES else []
        lines += [escape(line, 1000) for line in advice_lines(result.nodes)]
        blocks.append(marked("\n".join(lines)))
    text = "; ".join(result if isinstance(result, str) else answer_line(result) for _, result in clusters)
    rest = "More clusters than one message holds: /prelaunch fleet NAME shows one."
    return Reply(text[:300], tuple(fit(blocks, rest)))


def refusal(past: PastVerdict) -> Reply:
    """The headline, what it means, findings with remedy and commands, and where the report is."""
    record, verdict, store = past.record, past.verdict, past.store
    notes = [
        f"Gate {inline(record.gate_id)}, judged {escape(record.judged_at)}",
        link("the whole report", browsable(store.location(html_key(record.gate_id)))),
    ]
    age = measured_before(seconds_of(record.judged_at), seconds_of(record.measured_at))
    line = headline(verdict, past.gate.name)
    notes.insert(0, f"Observed {escape(coverage_text(verdict.coverage))}")
    cluster = past.gate.cluster
    # The names that Kubernetes has for the machines are in the report alone.
    engine = "" if cluster.launcher == "kubernetes" else engine_of(cluster.launcher, cluster.options)
    setup = RemedyContext(engine, cluster.declared.instance_type, machine=short_text(past.gate.declared(())))
    items = items_of(verdict, VerdictContext(site=setup))
    blocks = [plain(line), plain(" ".join(filter(None, (explanation(verdict), age))))]
    blocks += [block for item in items[:FINDINGS] for block in finding_blocks(item)]
    more = len(items) - FINDINGS
    blocks += [plain(f"and {more} more findings in the report")] if more > 0 else []
    blocks.append(small_marked(" | ".join(notes)))
    return Reply(line, tuple(fit(blocks, "More is in the report.", keep=1)))


def _state(state: GateStatus, runs_known: bool) -> Block:
    lines = [f"*{escape(state.name)}* on cluster {escape(state.cluster)}"]
    lines += [_run(run) for run in state.runs[:RUNS]]
    more = len(state.runs) - RUNS
    lines += [f"and {more} more runs"] if more > 0 else []
    lines += ["nothing runs or waits"] if runs_known and not state.runs else []
    return marked("\n".join([*lines, f"last verdict: {_last(state)}"]))


def _run(run: PrefectRun) -> str:
    name = link(run.name, run.url) if run.url else escape(run.name)
    return f"{name}: {'waits for an answer' if run.paused else escape(run.state.lower(), 60)}"


def _last(state: GateStatus) -> str:
    if state.problem:
        return escape(state.problem)
    if state.last is None:
        return "none is stored"
    record = state.last
    finding = f": {escape(record.finding)}" if record.finding and record.answer is not Answer.GO else ""
    return f"{ANSWER_WORDS[record.answer]} {escape(record.judged_at)}{finding} ({inline(record.gate_id)})"
