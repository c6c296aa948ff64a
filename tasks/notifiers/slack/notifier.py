"""Slack: one message per gate run, updated in place. Its thread @-mentions people, and has what the message has no room for."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

from tasks.gate_file.people import SlackTable
from tasks.notifiers import base
from tasks.notifiers.slack import messages
from tasks.notifiers.slack.client import SlackWeb
from tasks.notifiers.slack.thread import SlackRun, ThreadState, digest_of

# An end waits for a progress that is on its way; progress waits for nobody, because a newer one comes soon.
END_S, SHOW_S = 9.0, 2.0
# tasks.notifiers.deliver: a notification about machines that may still be billing is separate from the run's own.
SUFFIX = "-machines"
# Notifications of these kinds are replies below the run's message, which stays as it is.
BELOW = (base.PageKind.MACHINES, base.PageKind.REPAIR)
# One process writes a run's messages one after the other: progress never overtakes an end. Runs share the locks.
_TURNS = tuple(threading.Lock() for _ in range(64))


class SlackNotifier(base.Notifier):
    """The app's messages for one gate file. The token is read when it is needed, and kept nowhere."""

    name = "slack"

    def __init__(self, table: SlackTable, means: base.NotifierAccess) -> None:
        self._table, self._means = table, means

    def send(self, page: base.Notification) -> str:
        """Show the final state or the question in the message, and reply with @-mentions; returns the message's address."""
        return self._tell(page, calls=True)

    def settle(self, page: base.Notification) -> str:
        """The message shows the final state or the question, as in `send`, and nobody is @-mentioned."""
        return f"message updated: {self._tell(page, calls=False)}"

    def show(self, status: base.Status) -> None:
        """Show the progress. An open question and an end are not overwritten."""
        with self._turn(status.gate_id, SHOW_S, patient=False) as web:
            run = SlackRun(web, self._means.store, status.gate_id)
            if status.answer:
                run.answer(status.answer)
            if run.record.state is ThreadState.RUNNING:
                run.bring(self._table.channel, messages.status_message(status))

    def show_answer(self, gate_id: str, answer: base.AnswerLine) -> None:
        """Remove the buttons of a question that was answered; the thread says who answered and why. Raises NotifyError, StoreError."""
        with self._turn(gate_id, END_S) as web:
            SlackRun(web, self._means.store, gate_id).answer(answer)

    def _tell(self, page: base.Notification, calls: bool) -> str:
        channel, ids = self._audience(page)
        with self._turn(page.gate_id, END_S) as web:
            run = self._run(web, page, channel)
            is_below = page.topic in BELOW and channel in run.record.messages
            if not is_below:
                self._bring(run, channel, page)
            if calls:
                name = f"call {_name(page)}"
                run.reply(channel, name, messages.mention_message(page, ids), broadcast=True)
            if more := messages.notification_message(page) if is_below else messages.more_message(page):
                reply = partial(run.reply, channel, f"more {_name(page)}", more)
                _try(run, "the findings are not all in the thread", reply)
            return "; but ".join((run.address(channel), *run.problems))

    def _audience(self, page: base.Notification) -> tuple[str, tuple[str, ...]]:
        """The channel and the people for an audience."""
        table = self._table
        if page.audience is base.Audience.OWNER and page.topic not in (
            base.PageKind.GO,
            base.PageKind.CANCELLED,
        ):
            return table.owner_channel or table.channel, table.owner_mention
        return table.channel, table.mention

    def _run(self, web: SlackWeb, page: base.Notification, channel: str) -> SlackRun:
        """The run's messages, or those of the run to which the notification belongs, if that has one in this channel."""
        if page.gate_id.endswith(SUFFIX):
            run = SlackRun(web, self._means.store, page.gate_id.removesuffix(SUFFIX))
            if channel in run.record.messages:
                return run
        return SlackRun(web, self._means.store, page.gate_id)

    def _bring(self, run: SlackRun, channel: str, page: base.Notification) -> None:
        """Make every message of the run show the notification; the one with the question is in `channel`. Raises NotifyError."""
        asked_in = run.record.asked or channel
        if page.question is None:
            run.end()
        silent = messages.notification_message(replace(page, question=None))
        for other in [name for name in run.record.messages if name != channel]:
            _try(run, f"the message in {other} is not up to date", partial(run.bring, other, silent))
        message = messages.notification_message(page)
        try:
            run.bring(channel, message)
        except base.NotifyError as error:
            if channel not in run.record.messages:
                raise
            run.problems.append(f"the message is not up to date: {error}")
        if page.question is not None:
            run.ask(channel, page.question.key, message)
        elif page.answer and asked_in in run.record.messages:
            reply = messages.answer_message(page.answer)
            _try(
                run,
                "the answer is not in the thread",
                partial(run.reply, asked_in, f"answer {run.record.key}", reply),
            )

    @contextmanager
    def _turn(self, gate_id: str, seconds: float, patient: bool = True) -> Iterator[SlackWeb]:
        """Use Slack once no other thread of this process writes the run's messages; it is waited for so long. Raises NotifyError."""
        turn = _TURNS[hash(gate_id.removesuffix(SUFFIX)) % len(_TURNS)]
        if not turn.acquire(timeout=seconds):
            message = "another message of this run is on its way to Slack. It will be tried again with the next message."
            raise base.NotifyError(message)
        try:
            token = self._means.secret(self._table.token)
            yield SlackWeb(self._table.api_url, token, self._table.token, patient)
        finally:
            turn.release()


def _try(run: SlackRun, step: str, effect: Callable[[], None]) -> None:
    try:
        effect()
    except base.NotifyError as error:
        run.problems.append(f"{step}: {error}")


def _name(page: base.Notification) -> str:
    """A name that is equal for equal notifications."""
    about = page.question.key if page.question else page.title
    return digest_of(f"{page.topic}\n{page.audience}\n{about}")
