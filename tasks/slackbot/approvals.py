"""What buttons and modals do: verify, record the answer, show it, and hand it to the run. The first answer counts."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Mapping, Sequence
from typing import Any

from checks.model import SCHEMA_VERSION
from tasks.gate.question import LEAST_REASON, AnswerChannel, ApprovalAction, ApprovalAnswer, keep_answer
from tasks.notifiers.slack.messages import APPROVE, RECHECK, REFUSE
from tasks.slackbot.answer_check import Named, NotAnswerable, Open, answer_of, find, named_in, require_open
from tasks.slackbot.answered_message import AnsweredMessageUpdate
from tasks.slackbot.config import Allowed
from tasks.slackbot.dialogs import Place, SlackDeliveryError, Talk, modal, reason_of
from tasks.slackbot.handover import AnswerDelivery, note
from tasks.slackbot.prefect_client import Runs
from tasks.slackbot.wording import answered
from tasks.store.base import StoreError

LOG = logging.getLogger("prelaunch.slack")
BUTTONS = {APPROVE: ApprovalAction.LAUNCH, REFUSE: ApprovalAction.BLOCK, RECHECK: ApprovalAction.RECHECK}


class ApprovalHandler:
    """Takes clicks and submissions of one workspace, from any thread."""

    def __init__(
        self,
        gates: Sequence[Allowed],
        runs: Runs,
        talk: Talk,
        handing: AnswerDelivery,
        telling: AnsweredMessageUpdate,
    ) -> None:
        self._gates, self._runs, self._talk = gates, runs, talk
        self._handing, self._telling = handing, telling

    def clicked(self, payload: Mapping[str, Any]) -> None:
        """Handle a button: refusing and checking again count at once, launching asks for a reason first."""
        clicks = [one for one in payload.get("actions", []) if one.get("action_id") in BUTTONS]
        if not clicks:
            return  # a link's button needs no answer
        who, action = str(payload["user"]["id"]), BUTTONS[clicks[0]["action_id"]]
        try:
            named = named_in(str(clicks[0].get("value", "")))
            if action is ApprovalAction.LAUNCH:
                self._ask_why(named, who, payload)
                return
            answer = self.give(named, who, action, "")
        except NotAnswerable as error:
            self._whisper(payload, str(error))
        else:
            self._whisper(payload, f"Recorded: {answered(answer)}.")

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

    def too_late(self, payload: Mapping[str, Any], text: str) -> None:
        """Send a result that came after the modal was closed to the person who submitted it."""
        try:
            place = json.loads(payload["view"]["private_metadata"])
            where, thread = str(place["channel"]), str(place["thread"])
        except (ValueError, KeyError, TypeError):
            LOG.warning("the reply cannot be sent: %s", text)
            return
        self._talk.whisper(where, str(payload["user"]["id"]), text, thread)

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
        # Slack may take its time; the run need not wait for it.
        self._handing.add(found, answer)
        self._telling.answered(found, answer)
        return answer

    def _ask_why(self, named: Named, who: str, payload: Mapping[str, Any]) -> None:
        found = find(self._gates, named)
        require_open(found, self._runs, who, ApprovalAction.LAUNCH)
        try:
            self._talk.open_modal(
                str(payload.get("trigger_id", "")),
                modal(found.question, ApprovalAction.LAUNCH, _place(payload)),
            )
        except SlackDeliveryError as error:
            LOG.warning("no modal could be opened: %s", error)
            raise NotAnswerable(f"{error}, so the reason could not be asked for. Click again.") from error

    def _whisper(self, payload: Mapping[str, Any], text: str) -> None:
        url = payload.get("response_url")
        if isinstance(url, str) and url:
            self._talk.respond(url, text)
            return
        place = _place(payload)
        self._talk.whisper(place.channel, str(payload["user"]["id"]), text, place.thread)


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


def _place(payload: Mapping[str, Any]) -> Place:
    container, message = payload.get("container") or {}, payload.get("message") or {}
    channel = (payload.get("channel") or {}).get("id") or container.get("channel_id") or ""
    ts = message.get("ts") or container.get("message_ts") or ""
    return Place(str(channel), str(ts), str(message.get("thread_ts") or container.get("thread_ts") or ""))
