"""What buttons and modals do: verify, record the answer, show it, and hand it to the run. The first answer counts."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

from checks.model import SCHEMA_VERSION
from tasks.gate.question import LEAST_REASON, AnswerChannel, ApprovalAction, ApprovalAnswer, keep_answer
from tasks.notifiers.base import AnswerLine, NotifyError
from tasks.notifiers.deliver import means_on
from tasks.notifiers.slack.client import SlackWeb
from tasks.notifiers.slack.messages import APPROVE, RECHECK, REFUSE
from tasks.notifiers.slack.notifier import SlackNotifier
from tasks.slackbot.answer_check import Named, NotAnswerable, Open, answer_of, find, named_in, require_open
from tasks.slackbot.config import Allowed
from tasks.slackbot.dialogs import modal, reason_of, respond
from tasks.slackbot.handover import AnswerDelivery, note
from tasks.slackbot.prefect_client import Runs
from tasks.slackbot.wording import answered, without_markup
from tasks.store.base import StoreError

LOG = logging.getLogger("prelaunch.slack")
BUTTONS = {APPROVE: ApprovalAction.LAUNCH, REFUSE: ApprovalAction.BLOCK, RECHECK: ApprovalAction.RECHECK}


class ApprovalHandler:
    """Takes clicks and submissions of one workspace, from any thread. `web` has the app's bot token."""

    def __init__(
        self, gates: Sequence[Allowed], runs: Runs, web: SlackWeb, token: str, handing: AnswerDelivery
    ) -> None:
        self._gates, self._runs, self._web, self._token = gates, runs, web, token
        self._handing = handing

    def clicked(self, payload: Mapping[str, Any]) -> None:
        """Handle a button: refusing and checking again count at once, launching asks for a reason first."""
        clicks = [one for one in payload.get("actions", []) if one.get("action_id") in BUTTONS]
        if not clicks:
            return  # a link's button needs no answer
        who, action = str(payload["user"]["id"]), BUTTONS[clicks[0]["action_id"]]
        try:
            named = named_in(str(clicks[0].get("value", "")))
            if action is ApprovalAction.LAUNCH:
                self._ask_why(named, who, str(payload.get("trigger_id", "")))
                return
            said = f"Recorded: {answered(self.give(named, who, action, ''))}."
        except NotAnswerable as error:
            said = str(error)
        respond(str(payload.get("response_url") or ""), said)

    def submitted(self, payload: Mapping[str, Any]) -> str:
        """Handle a modal with a reason; returns why it is not accepted, "" if it is."""
        who, view = str(payload["user"]["id"]), payload["view"]
        reason = reason_of(view)
        if len(reason) < LEAST_REASON:
            return f"Give a reason of at least {LEAST_REASON} characters: it is recorded."
        try:
            self.give(named_in(str(view.get("private_metadata", ""))), who, ApprovalAction.LAUNCH, reason)
        except NotAnswerable as error:
            return str(error)
        return ""

    def give(self, named: Named, who: str, action: ApprovalAction, reason: str) -> ApprovalAnswer:
        """Record the answer and begin to hand it over. Raises NotAnswerable: then nothing was changed."""
        found = find(self._gates, named)
        require_open(found, self._runs, who, action)
        question = found.question
        answer = ApprovalAnswer(
            SCHEMA_VERSION,
            question.gate_id,
            question.key,
            action,
            who,
            AnswerChannel.SLACK,
            True,
            reason,
            time.time(),
        )
        _record(found, answer)
        LOG.info("gate %s: %s answered %s", question.gate_id, who, action.value)
        # Slack waits 3 s for the acknowledgement of a modal, and may itself take longer; the run need not wait for it.
        self._handing.add(found, answer)
        threading.Thread(target=self._show, args=(found, answer), name="slack-show", daemon=True).start()
        return answer

    def _ask_why(self, named: Named, who: str, trigger: str) -> None:
        found = find(self._gates, named)
        require_open(found, self._runs, who, ApprovalAction.LAUNCH)
        try:
            self._web.call(
                "views.open", trigger_id=trigger, view=modal(found.question, ApprovalAction.LAUNCH)
            )
        except NotifyError as error:
            LOG.warning("no modal could be opened: %s", error)
            raise NotAnswerable(f"The reason could not be asked for. Click again. {error}") from error

    def _show(self, found: Open, answer: ApprovalAnswer) -> None:
        """Remove the buttons. A failure is logged: the answer counts all the same, and the run updates its message at its end."""
        table = found.gate.notify.slack
        if table is None:
            return
        try:
            notifier = SlackNotifier(table, means_on(found.store, lambda reference: self._token))
            notifier.answered(answer.gate_id, AnswerLine(without_markup(answered(answer))))
        except NotifyError as error:
            LOG.warning("gate %s: its message is not up to date: %s", answer.gate_id, error)


def _record(found: Open, answer: ApprovalAnswer) -> None:
    try:
        note(found)
        if keep_answer(found.store, answer):
            return
    except StoreError as error:
        LOG.error("gate %s: the answer cannot be stored: %s", answer.gate_id, error)
        raise NotAnswerable(
            "The answer could not be recorded, so it does not count. Click again, or answer in Prefect."
        ) from error
    given = answer_of(found)
    said = answered(given) if given else "somebody"
    raise NotAnswerable(f"It is answered already: {said}. Nothing was changed.")
