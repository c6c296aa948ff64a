"""One run's messages in Slack and their threads: each is posted once and then updated.

Every message that was posted is recorded in gates/<id>/slack.json in the store, so that any process continues the same messages.
If two processes post a run's first message at the same moment there are two messages; the lock of the cluster prevents that.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from checks.documents.decode import decode, parse_json
from checks.documents.report import Version, dump_plain
from checks.model import SCHEMA_VERSION
from checks.value_types import DecodeError
from tasks.notifiers.base import AnswerLine, NotifyError
from tasks.notifiers.slack.client import FORM_ERRORS, SlackRefused, SlackWeb
from tasks.notifiers.slack.messages import Message, answer_message, without_question
from tasks.store.base import Store, StoreError
from tasks.store.layout import slack_key

FILE_BYTES = 1 << 20
# Neither Slack's own parsing of names and addresses, nor a preview of what a link leads to.
INERT: dict[str, Any] = {"parse": "none", "link_names": False}
POSTED: dict[str, Any] = {**INERT, "unfurl_links": False, "unfurl_media": False}
# A message that cannot be updated any more is posted anew.
GONE = ("message_not_found", "cant_update_message", "edit_window_closed", "channel_not_found")


class ThreadState(StrEnum):
    """Who may write into the run's messages: progress only while RUNNING."""

    RUNNING = "running"
    ASKING = "asking"
    FINAL = "final"


@dataclass(frozen=True)
class Posted:
    """One message: the channel's id and the message's ts; `done` names the replies that were made and must not be repeated."""

    channel: str
    ts: str
    done: tuple[str, ...] = ()


@dataclass(frozen=True)
class ThreadRecord:
    """The messages of a run by the channel that the gate file names.

    `key` is the last question's, `asked` the channel of the message that asks it ("" once it is answered), `blocks` the JSON
    of that message without its question.
    """

    schema_version: Version = SCHEMA_VERSION
    state: ThreadState = ThreadState.RUNNING
    messages: Mapping[str, Posted] = field(default_factory=dict)
    key: str = ""
    asked: str = ""
    text: str = ""
    blocks: str = "[]"

    def with_message(self, name: str, posted: Posted) -> ThreadRecord:
        """The record with the message of that channel."""
        return replace(self, messages={**self.messages, name: posted})


def read_record(store: Store, gate_id: str) -> tuple[ThreadRecord, bytes | None]:
    """The kept record and its bytes; an empty record if there is none or it cannot be read. Raises StoreError."""
    data = store.get(slack_key(gate_id))
    if data is None:
        return ThreadRecord(), None
    try:
        return decode(ThreadRecord, parse_json(data, FILE_BYTES)), data
    except DecodeError:
        return ThreadRecord(), data  # a message more is better than a page less


class SlackRun:
    """The messages of one gate run. `problems` lists what failed without ending the delivery."""

    def __init__(self, web: SlackWeb, store: Store, gate_id: str) -> None:
        self._web, self._store, self._gate_id = web, store, gate_id
        self.record, self._data = read_record(store, gate_id)
        self.problems: list[str] = []
        self.fresh: set[str] = set()

    def bring(self, channel: str, message: Message) -> None:
        """Post the run's message to a channel, or update it in place. Raises NotifyError."""
        posted = self.record.messages.get(channel)
        if posted is not None:
            try:
                self._say("chat.update", message, channel=posted.channel, ts=posted.ts)
                return
            except SlackRefused as error:
                if error.error not in GONE:
                    raise
        answer = self._say("chat.postMessage", message, channel=channel)
        posted = Posted(str(answer["channel"]), str(answer["ts"]))
        self.fresh.add(channel)
        self.keep(self.record.with_message(channel, posted))

    def reply(self, channel: str, name: str, message: Message, broadcast: bool = False) -> None:
        """Reply in the thread of the channel's message, once for each name. Raises NotifyError."""
        posted = self.record.messages[channel]
        if name in posted.done:
            return
        more = {"reply_broadcast": True} if broadcast and channel not in self.fresh else {}
        self._say("chat.postMessage", message, channel=posted.channel, thread_ts=posted.ts, **more)
        posted = self.record.messages[channel]
        self.keep(self.record.with_message(channel, replace(posted, done=(*posted.done, name))))

    def ask(self, channel: str, key: str, message: Message) -> None:
        """Remember the message with the question, so that the process that gets the answer can remove its buttons."""
        blocks = json.dumps(without_question(message.blocks))
        asking = replace(self.record, key=key, asked=channel, text=message.text, blocks=blocks)
        self.keep(replace(asking, state=ThreadState.ASKING))

    def answer(self, answer: AnswerLine) -> None:
        """If its question is open, remove the buttons, and post who decided and why to the thread. Raises NotifyError, StoreError.

        The run, with each progress, and the process that serves the buttons may both report it: whoever notes it first says it.
        """
        if self.record.state is not ThreadState.ASKING or answer.key != self.record.key:
            return
        before, reply = self.record, answer_message(answer)
        over = _asks_nothing(before, ThreadState.RUNNING)
        data = dump_plain(over)
        if self._data is None or not self._store.replace_if(slack_key(self._gate_id), self._data, data):
            self.record, self._data = read_record(self._store, self._gate_id)
            return
        self.record, self._data = over, data
        blocks = json.loads(before.blocks)
        self.bring(before.asked, Message(before.text, [*blocks, *reply.blocks], before.text))
        self.reply(before.asked, f"answer {before.key}", reply)

    def end(self) -> None:
        """Progress is not shown any more, and nothing is asked."""
        over = _asks_nothing(self.record, ThreadState.FINAL)
        if over != self.record:
            self.keep(over)

    def keep(self, record: ThreadRecord) -> None:
        """Remember it here and in the store. If the store fails now, a message may be posted twice, but none is lost."""
        self.record = record
        try:
            data = dump_plain(record)
            self._store.put(slack_key(self._gate_id), data)
            self._data = data
        except StoreError as error:
            self.problems.append(
                f"the record of what was sent could not be stored, so it may be sent again: {error}"
            )

    def address(self, channel: str) -> str:
        """Where the message is: its permalink, or the channel's name where Slack does not say."""
        posted = self.record.messages[channel]
        try:
            answer = self._web.call(
                "chat.getPermalink", form=True, channel=posted.channel, message_ts=posted.ts
            )
        except NotifyError:
            return f"Slack, {channel}"
        return str(answer.get("permalink") or f"Slack, {channel}")

    def _say(self, method: str, message: Message, **where: Any) -> dict[str, Any]:
        """Post with blocks, or as plain text if Slack refuses their form, so that the notification is sent in any case."""
        inert = POSTED if method == "chat.postMessage" else INERT
        try:
            return self._web.call(method, text=message.text, blocks=message.blocks, **inert, **where)
        except SlackRefused as error:
            if error.error not in FORM_ERRORS or not message.blocks:
                raise
            self.problems.append(str(error))
            return self._web.call(method, text=message.long or message.text, blocks=[], **inert, **where)


def _asks_nothing(record: ThreadRecord, state: ThreadState) -> ThreadRecord:
    return replace(record, state=state, asked="", text="", blocks="[]")


def digest_of(text: str) -> str:
    """A short name for a text."""
    return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()[:16]
