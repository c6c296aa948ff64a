"""Updates the run's message once it is answered: the buttons disappear, and its thread says who decided what and why."""

from __future__ import annotations

import logging

from tasks.gate.question import ApprovalAnswer
from tasks.notifiers.base import AnswerLine, NotifyError
from tasks.notifiers.deliver import means_on
from tasks.slackbot.answer_check import Open
from tasks.slackbot.wording import answered, without_markup

LOG = logging.getLogger("prelaunch.slack")


class AnsweredMessageUpdate:
    """Updates the message as the gate's own notifier does, with this app's bot token."""

    def __init__(self, bot_token: str) -> None:
        self._token = bot_token

    def answered(self, found: Open, answer: ApprovalAnswer) -> None:
        """Update the message. A failure is logged: the answer counts all the same, and the run updates its message at its end."""
        table = found.gate.notify.slack
        if table is None:
            return
        from tasks.notifiers.slack.notifier import SlackNotifier

        try:
            notifier = SlackNotifier(table, means_on(found.store, lambda reference: self._token))
            notifier.answered(answer.gate_id, AnswerLine(without_markup(answered(answer))))
        except NotifyError as error:
            LOG.warning("gate %s: its message is not up to date: %s", answer.gate_id, error)
