"""`/prelaunch gate NAME | remedy NAME | status | fleet | why | help`: each command, and the answer to the person who typed it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from checks.documents.nearest import nearest
from checks.facts.own_machine import short_text
from checks.judge.clocks import seconds_of
from checks.model import ANSWER_WORDS, Answer
from tasks.gate_file.read import GateFileError
from tasks.notifiers.slack.blocks import Block, escape, fit, link, marked, plain, small_marked
from tasks.notifiers.slack.messages import finding_blocks
from tasks.paging.content import items_of
from tasks.render.context import VerdictContext
from tasks.render.headline import coverage_text, explanation, headline, measured_before
from tasks.render.remedy_commands import RemedyContext, engine_of
from tasks.reports.fleet.fleet import Fleet, NodeState
from tasks.reports.fleet.text import advice_lines, answer_line, moved_line, state_line
from tasks.slackbot.config import Config, ListedGate
from tasks.slackbot.dialogs import inline, respond, user
from tasks.slackbot.history import HistoryError, PastVerdict, fleet_of, last, last_refusal, of_id
from tasks.slackbot.prefect_client import FLOW, PrefectError, PrefectRun, PrefectRuns
from tasks.store.layout import html_key
from tasks.store.records import Record
from tasks.text.inert import browsable

LOG = logging.getLogger("prelaunch.slack")
REASON_CHARACTERS = 300


class Commands:
    """Answers slash commands of one workspace, from any thread."""

    def __init__(self, config: Config, runs: PrefectRuns) -> None:
        self._config, self._runs = config, runs

    def typed(self, payload: Mapping[str, Any], envelope: str) -> None:
        """Carry out the command, and answer where it was typed."""
        reply = self.answer(
            str(payload.get("text") or ""),
            str(payload.get("user_id") or ""),
            # The id is the same for every delivery of one command.
            str(payload.get("trigger_id") or envelope),
        )
        respond(str(payload.get("response_url") or ""), reply.text, reply.blocks)

    def answer(self, text: str, person: str, order: str) -> Reply:
        """The answer to a command. `order` is the same for every delivery of one command."""
        verb, _, rest = " ".join(text.split()).partition(" ")
        verbs: dict[str, Callable[[], Reply]] = {
            "gate": lambda: text_reply(self._start(rest, person, order)),
            "remedy": lambda: text_reply(self._start(rest, person, order, remedy=True)),
            "status": lambda: self._status(rest),
            "fleet": lambda: self._fleet(rest),
            "why": lambda: self._refusal(rest),
            "help": lambda: text_reply(HELP),
        }
        if verb.lower() in verbs:
            return verbs[verb.lower()]()
        if not verb:
            return text_reply(HELP)
        near = nearest(verb.lower(), tuple(verbs))
        hint = f" Did you mean {inline(near)}?" if near else ""
        return text_reply(f"{inline(verb, 60)} is not a command.{hint}\n{HELP}")

    def _start(self, rest: str, person: str, order: str, remedy: bool = False) -> str:
        name, _, reason = rest.partition(" ")
        allowed = self._config.find_gate(name)
        if allowed is None:
            return self._unknown(name)
        table = allowed.table
        if person not in table.users:
            LOG.warning("%s may not start gate %s", person, name)
            whom = ", ".join(map(user, table.users)) or "nobody through Slack"
            return f"You may not start {inline(name)}: {whom} may (users in deployments/slack.toml). Nothing was started."
        deployment = table.remedy if remedy else table.deployment
        if not deployment:
            return f"{inline(name)} has no deployment for repairs (remedy in deployments/slack.toml). Nothing was started."
        note = escape(reason, REASON_CHARACTERS)
        tags = ["prelaunch", "by slack", f"by {person}"]
        try:
            run = self._runs.start(deployment, allowed.file, f"slack-{order}", tags)
        except PrefectError as error:
            LOG.error("gate %s was not started for %s: %s", name, person, error)
            return f"{inline(name)} was not started: {escape(str(error), 500)}"
        LOG.info("gate %s was started for %s: run %s%s", name, person, run.id, f" ({note})" if note else "")
        where = link(run.name, run.url) if run.url else f"run {inline(run.id)}"
        subject = f"the repairs of {inline(name)}" if remedy else inline(name)
        return f"Started {subject}: {where}.{f' Why: {note}' if note else ''}"

    def _status(self, name: str) -> Reply:
        chosen = self._chosen(name)
        if isinstance(chosen, str):
            return text_reply(chosen)
        try:
            going, problem = self._runs.going(), ""
        except PrefectError as error:
            going, problem = (), str(error)
        return status([_gate_status(allowed, going) for allowed in chosen], problem)

    def _fleet(self, name: str) -> Reply:
        chosen = self._chosen(name)
        if isinstance(chosen, str):
            return text_reply(chosen)
        fleets: dict[str, Fleet | str] = {}
        for allowed in chosen:
            cluster, current = fleet_of(allowed)
            fleets.setdefault(cluster, current)
        return fleet(list(fleets.items()))

    def _refusal(self, name: str) -> Reply:
        try:
            if name and self._config.find_gate(name) is None:
                return refusal(of_id(self._config.gates, name))
            return refusal(self._newest_refusal(name))
        except HistoryError as error:
            return text_reply(escape(str(error), 600))

    def _newest_refusal(self, name: str) -> PastVerdict:
        refusals: list[PastVerdict] = []
        failed: list[HistoryError] = []
        for allowed in self._config.gates:
            if name in ("", allowed.name):
                try:
                    refusals.append(last_refusal(allowed))
                except HistoryError as error:
                    failed.append(error)
        if not refusals:
            raise failed[0]
        return max(refusals, key=lambda past: past.record.judged_at)

    def _chosen(self, name: str) -> tuple[ListedGate, ...] | str:
        if not name:
            return self._config.gates
        allowed = self._config.find_gate(name)
        return (allowed,) if allowed else self._unknown(name)

    def _unknown(self, name: str) -> str:
        names = [allowed.name for allowed in self._config.gates]
        near = nearest(name, names) if name else None
        hint = f" Did you mean {inline(near)}?" if near else ""
        text = f"{inline(name, 60)} is not in the list of gates." if name else "Which gate?"
        return f"{text}{hint} There {'is' if len(names) == 1 else 'are'} {', '.join(map(inline, names))}."


def _gate_status(allowed: ListedGate, going: tuple[PrefectRun, ...]) -> GateStatus:
    runs = tuple(run for run in going if run.flow == FLOW and run.gate_file == allowed.file)
    try:
        cluster = allowed.gate().cluster.name
    except GateFileError as error:
        return GateStatus(allowed.name, "?", runs, None, str(error))
    try:
        return GateStatus(allowed.name, cluster, runs, last(allowed), "")
    except HistoryError as error:
        return GateStatus(allowed.name, cluster, runs, None, str(error))


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
