"""What the stand-in of Slack remembers: channels, messages, threads, modals. Nothing of it talks to anybody."""

from __future__ import annotations

import itertools
import secrets
import threading
from dataclasses import dataclass, field
from typing import Any

BOT_USER = "U0PRELAUNCH"
BOT_SCOPES = ("chat:write", "commands")
RESPONSES_A_URL = 5  # https://docs.slack.dev/interactivity/handling-user-interaction#message_responses


class Refusal(Exception):
    """What Slack answers with `"ok": false`; `more` are further keys of the answer."""

    def __init__(self, error: str, **more: object) -> None:
        super().__init__(error)
        self.error, self.more = error, more


@dataclass(frozen=True)
class Channel:
    """A channel. `member`: whether the app was invited."""

    id: str
    name: str
    member: bool = True
    private: bool = False
    archived: bool = False


@dataclass
class Message:
    """A message as a reader sees it now; `edits` counts its updates, `past` are the texts that it had before."""

    channel: str
    ts: str
    text: str
    blocks: list[dict[str, Any]]
    user: str = BOT_USER
    thread_ts: str = ""
    broadcast: bool = False
    edits: int = 0
    past: list[str] = field(default_factory=list)

    @property
    def actions(self) -> dict[str, dict[str, Any]]:
        """Its buttons by action id."""
        blocks = [block for block in self.blocks if block["type"] == "actions"]
        return {element["action_id"]: element for block in blocks for element in block["elements"]}

    @property
    def shown(self) -> str:
        """All text of its blocks, or the text where it has none: what a person reads in the channel."""
        return "\n".join(_texts(self.blocks)) if self.blocks else self.text


@dataclass(frozen=True)
class Response:
    """What was posted to a response_url."""

    url: str
    body: dict[str, Any]


class Workspace:
    """One Slack workspace with one app in it. Its tokens are made up anew each time."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.token = f"xoxb-{secrets.token_hex(16)}"
        self.app_token = f"xapp-{secrets.token_hex(16)}"
        self.scopes = set(BOT_SCOPES)
        self.revoked = False
        self.channels: dict[str, Channel] = {}
        self.messages: list[Message] = []
        self.views: dict[str, dict[str, Any]] = {}
        self.triggers: dict[str, bool] = {}
        self.response_urls: dict[str, int] = {}
        self.responses: list[Response] = []
        self._numbers = itertools.count(1)

    def number(self) -> int:
        """A number that nothing else has."""
        return next(self._numbers)

    def stamp(self) -> str:
        """A message's ts: unique and growing, as Slack's are."""
        return f"1790000000.{self.number():06d}"

    def channel(
        self, name: str, *, member: bool = True, private: bool = False, archived: bool = False
    ) -> str:
        """Make a channel; returns its id."""
        made = Channel(f"C0{self.number():06d}", name.lstrip("#"), member, private, archived)
        self.channels[made.id] = made
        return made.id

    def trigger(self) -> str:
        """A trigger_id, as an interaction carries one; good for one modal."""
        made = f"{self.number()}.{secrets.token_hex(8)}"
        self.triggers[made] = True
        return made

    def found(self, named: object, by_name: bool) -> Channel:
        """The channel of an id, or of a name where the method takes names. Raises Refusal as Slack does."""
        text = str(named or "")
        for channel in self.channels.values():
            if text == channel.id or (by_name and text.lstrip("#") == channel.name):
                if channel.private and not channel.member:
                    break
                if channel.archived:
                    raise Refusal("is_archived")
                if not channel.member and "chat:write.public" not in self.scopes:
                    raise Refusal("not_in_channel")
                return channel
        raise Refusal("channel_not_found")

    def message(self, channel: str, ts: str) -> Message:
        """The message. Raises Refusal."""
        for message in self.messages:
            if (message.channel, message.ts) == (channel, ts):
                return message
        raise Refusal("message_not_found")

    def posted(self, channel: str = "") -> list[Message]:
        """Messages that begin a thread, or could: what the channel shows, without broadcast replies."""
        with self.lock:
            return [m for m in self.messages if not m.thread_ts and channel in ("", m.channel)]

    def thread(self, message: Message) -> list[Message]:
        """The replies to a message, oldest first."""
        with self.lock:
            return [m for m in self.messages if (m.channel, m.thread_ts) == (message.channel, message.ts)]


def _texts(value: object) -> list[str]:
    """Every text of blocks, in reading order."""
    if isinstance(value, list):
        return [text for item in value for text in _texts(item)]
    if not isinstance(value, dict):
        return []
    here = [value["text"]] if isinstance(value.get("text"), str) else []
    inner = [value.get(key) for key in ("text", "fields", "elements")]
    return here + [text for one in inner if not isinstance(one, str) for text in _texts(one)]
