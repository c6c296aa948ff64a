"""What buttons and modals do: compare with the store, record the answer, show it, and have it handed to the run.

The question is read from an allowed gate's own store, never taken from the click. The first answer counts.

NotAnswerable       the click changes nothing; the message is for whoever clicked
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from checks.documents.decode import decode, parse_json
from checks.model import SCHEMA_VERSION
from checks.value_types import DecodeError
from tasks.gate.question import (
    LEAST_REASON,
    AnswerChannel,
    ApprovalAction,
    ApprovalAnswer,
    Question,
    keep_answer,
    may_answer,
    read_answer,
    read_question,
)
from tasks.gate_file.model import Gate
from tasks.gate_file.read import GateFileError
from tasks.notifiers.base import NotifierAccess, NotifyError
from tasks.notifiers.slack.blocks import escape, when
from tasks.notifiers.slack.client import SlackWeb
from tasks.notifiers.slack.messages import APPROVE, RECHECK, REFUSE
from tasks.notifiers.slack.notifier import SlackNotifier
from tasks.slackbot.config import ListedGate
from tasks.slackbot.dialogs import answer_text, modal, reason_of, respond, user
from tasks.slackbot.handover import AnswerDelivery
from tasks.slackbot.prefect_client import FLOW, REMEDY, PrefectRuns, PrefectUnreachable
from tasks.store.base import Store, StoreError

LOG = logging.getLogger("prelaunch.slack")
BUTTONS = {APPROVE: ApprovalAction.LAUNCH, REFUSE: ApprovalAction.BLOCK, RECHECK: ApprovalAction.RECHECK}
VALUE_CHARACTERS = 2000
UNREAD = "The gate's store cannot be read now, so nothing was recorded. Click again."


class NotAnswerable(Exception):
    """The click changes nothing. The message says why, and the remedy, in mrkdwn."""


@dataclass(frozen=True)
class NamedQuestion:
    """What a button or a modal names. It is not trusted until it was compared with the store."""

    flow_run_id: str
    gate_id: str
    key: str


@dataclass(frozen=True)
class OpenAnswer:
    """A question that waits, where its answer goes, and the gate file as it is now."""

    question: Question
    allowed: ListedGate
    gate: Gate
    store: Store


class ApprovalHandler:
    """Takes clicks and submissions of one workspace, from any thread. `web` has the app's bot token."""

    def __init__(
        self,
        gates: Sequence[ListedGate],
        runs: PrefectRuns,
        web: SlackWeb,
        token: str,
        handing: AnswerDelivery,
    ) -> None:
        self._gates, self._runs, self._web, self._token = gates, runs, web, token
        self._handing = handing

    def clicked(self, payload: Mapping[str, Any]) -> None:
        """Handle a button: refusing and checking again count at once, launching asks for a reason first."""
        clicks = [click for click in payload.get("actions", []) if click.get("action_id") in BUTTONS]
        if not clicks:
            return  # a link's button needs no answer
        person, action = str(payload["user"]["id"]), BUTTONS[clicks[0]["action_id"]]
        try:
            value = str(clicks[0].get("value", ""))
            if action is ApprovalAction.LAUNCH:
                pending = self._find(value, person, ApprovalAction.LAUNCH)
                try:
                    self._web.call(
                        "views.open",
                        trigger_id=str(payload.get("trigger_id", "")),
                        view=modal(pending.question, value),
                    )
                except NotifyError as error:
                    LOG.warning("no modal could be opened: %s", error)
                    raise NotAnswerable(f"The reason could not be asked for. Click again. {error}") from error
                return
            text = f"Recorded: {answer_text(self._give(value, person, action, ''))}."
        except NotAnswerable as error:
            text = str(error)
        respond(str(payload.get("response_url") or ""), text)

    def submitted(self, payload: Mapping[str, Any]) -> str:
        """Handle a modal with a reason; returns why it is not accepted, "" if it is."""
        person, view = str(payload["user"]["id"]), payload["view"]
        reason = reason_of(view)
        if len(reason) < LEAST_REASON:
            return f"Give a reason of at least {LEAST_REASON} characters: it is recorded."
        try:
            self._give(str(view.get("private_metadata", "")), person, ApprovalAction.LAUNCH, reason)
        except NotAnswerable as error:
            return str(error)
        return ""

    def _give(self, value: str, person: str, action: ApprovalAction, reason: str) -> ApprovalAnswer:
        """Record the answer and begin to hand it over. Raises NotAnswerable: then nothing was changed."""
        pending = self._find(value, person, action)
        gate_id, key = pending.question.gate_id, pending.question.key
        answer = ApprovalAnswer(
            SCHEMA_VERSION, gate_id, key, action, person, AnswerChannel.SLACK, True, reason, time.time()
        )
        try:
            is_first = keep_answer(pending.store, answer)
        except StoreError as error:
            LOG.error("gate %s: the answer cannot be stored: %s", gate_id, error)
            raise NotAnswerable(
                "The answer could not be recorded, so it does not count. Click again, or answer in Prefect."
            ) from error
        if not is_first:
            _require_open(pending)
            raise NotAnswerable(UNREAD)
        LOG.info("gate %s: %s answered %s", gate_id, person, action.value)
        # Slack waits 3 s for the acknowledgement of a modal, and may itself take longer; the run need not wait for it.
        self._handing.wake()
        threading.Thread(target=self._show, args=(pending, answer), name="slack-show", daemon=True).start()
        return answer

    def _find(self, value: str, person: str, action: ApprovalAction) -> OpenAnswer:
        """The question, which this user may answer now. Raises NotAnswerable."""
        pending = find_question(self._gates, value)
        _require_open(pending)
        _require_allowed(pending, person, action)
        _require_waiting(pending, self._runs)
        return pending

    def _show(self, pending: OpenAnswer, answer: ApprovalAnswer) -> None:
        """Remove the buttons. A failure is logged: the answer counts all the same, and the run updates its message at its end."""
        table = pending.gate.notify.slack
        if table is None:
            return
        try:
            notifier = SlackNotifier(table, NotifierAccess(pending.store, lambda reference: self._token))
            notifier.show_answer(answer.gate_id, answer.summary)
        except (NotifyError, StoreError) as error:
            LOG.warning("gate %s: its message is not up to date: %s", answer.gate_id, error)


def find_question(gates: Sequence[ListedGate], value: str) -> OpenAnswer:
    """The question that a button's value, or a modal's metadata, names, from the store of an allowed gate. Raises NotAnswerable."""
    try:
        wanted = decode(NamedQuestion, parse_json(value, VALUE_CHARACTERS))
    except DecodeError as error:
        raise NotAnswerable("This button does not belong to Prelaunch. Answer in Prefect.") from error
    failed = False
    for allowed in gates:
        try:
            gate, store = allowed.gate(), allowed.store()
            question = read_question(store, wanted.gate_id, wanted.key)
        except (GateFileError, StoreError, DecodeError) as error:
            LOG.error("the store of gate %s cannot be asked: %s", allowed.name, error)
            failed = True
            continue
        if question is not None and question.gate == gate.name:
            if wanted != NamedQuestion(question.flow_run_id, question.gate_id, question.key):
                raise NotAnswerable("The store has a different question. Answer in Prefect.")
            return OpenAnswer(question, allowed, gate, store)
    if failed:
        raise NotAnswerable(UNREAD)
    message = "No gate that this app serves has asked this question. See deployments/slack.toml, or answer in Prefect."
    raise NotAnswerable(message)


def _require_open(pending: OpenAnswer) -> None:
    """Require that nobody has answered, and that there is time left."""
    question = pending.question
    try:
        before = read_answer(pending.store, question.gate_id, question.key)
    except (StoreError, DecodeError) as error:
        LOG.error("the answer to %s cannot be read: %s", question.gate_id, error)
        raise NotAnswerable(UNREAD) from error
    if before is not None:
        raise NotAnswerable(f"It is answered already: {answer_text(before)}. Nothing was changed.")
    if time.time() >= question.deadline:
        message = f"The time to answer was over {when(question.deadline)}: it is refused. Run the gate again."
        raise NotAnswerable(message)


def _require_allowed(pending: OpenAnswer, person: str, action: ApprovalAction) -> None:
    """Require that the user may answer by the question as it was asked and by the gate file as it is now."""
    question, approval = pending.question, pending.gate.approval
    now = replace(question, approvers=approval.approvers, overriders=approval.overriders)
    names = sorted({*question.approvers, *question.overriders})
    may = [name for name in names if may_answer(question, name, action) and may_answer(now, name, action)]
    if person in may:
        return
    LOG.warning("%s may not answer %s (%s)", person, action.value, question.gate_id)
    whom = ", ".join(map(user, may)) or "nobody through Slack"
    raise NotAnswerable(
        f"You may not give this answer: {whom} may. The gate file says so ([approval]). Nothing was changed."
    )


def _require_waiting(pending: OpenAnswer, runs: PrefectRuns) -> None:
    """Require that the run is of the allowed gate file, and waits: only a question about a repair is taken up by the next run.
    A server that does not answer is believed to have the run.
    """
    question = pending.question
    try:
        run = runs.run(question.flow_run_id)
    except PrefectUnreachable as error:
        LOG.warning("gate %s: %s The answer is stored and will be delivered later.", question.gate_id, error)
        return
    if run is None:
        message = "Prefect's server has no such run. Check that it is the server that runs the gate."
        raise NotAnswerable(message)
    if run.flow != (REMEDY if question.repair else FLOW) or run.gate_file != pending.allowed.file:
        message = "The run is of another gate file than this app serves. Answer in Prefect, and see deployments/slack.toml."
        raise NotAnswerable(message)
    if run.over and not question.repair:
        raise NotAnswerable(f"The run has ended ({escape(run.state, 60)}): nobody waits for an answer.")
