"""`/prelaunch gate NAME | remedy NAME | status | fleet | why | help`: each command, and the answer to the person who typed it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

from checks.documents.nearest import nearest
from tasks.gate_file.read import GateFileError
from tasks.notifiers.slack.blocks import escape, link
from tasks.reports.fleet.fleet import Fleet
from tasks.slackbot import replies
from tasks.slackbot.config import Config, ListedGate
from tasks.slackbot.dialogs import inline, respond, user
from tasks.slackbot.history import HistoryError, PastVerdict, fleet_of, last, last_refusal, of_id
from tasks.slackbot.prefect_client import FLOW, PrefectError, PrefectRun, PrefectRuns
from tasks.slackbot.replies import Reply, text_reply

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
            "help": lambda: text_reply(replies.HELP),
        }
        if verb.lower() in verbs:
            return verbs[verb.lower()]()
        if not verb:
            return text_reply(replies.HELP)
        near = nearest(verb.lower(), tuple(verbs))
        hint = f" Did you mean {inline(near)}?" if near else ""
        return text_reply(f"{inline(verb, 60)} is not a command.{hint}\n{replies.HELP}")

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
        return replies.status([_state(allowed, going) for allowed in chosen], problem)

    def _fleet(self, name: str) -> Reply:
        chosen = self._chosen(name)
        if isinstance(chosen, str):
            return text_reply(chosen)
        fleets: dict[str, Fleet | str] = {}
        for allowed in chosen:
            cluster, fleet = fleet_of(allowed)
            fleets.setdefault(cluster, fleet)
        return replies.fleet(list(fleets.items()))

    def _refusal(self, name: str) -> Reply:
        try:
            if name and self._config.find_gate(name) is None:
                return replies.refusal(of_id(self._config.gates, name))
            return replies.refusal(self._newest_refusal(name))
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


def _state(allowed: ListedGate, going: tuple[PrefectRun, ...]) -> replies.GateStatus:
    runs = tuple(run for run in going if run.flow == FLOW and run.gate_file == allowed.file)
    try:
        cluster = allowed.gate().cluster.name
    except GateFileError as error:
        return replies.GateStatus(allowed.name, "?", runs, None, str(error))
    try:
        return replies.GateStatus(allowed.name, cluster, runs, last(allowed), "")
    except HistoryError as error:
        return replies.GateStatus(allowed.name, cluster, runs, None, str(error))
