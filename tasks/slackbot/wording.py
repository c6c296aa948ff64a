"""The single lines that `prelaunch slack` shows, made with tasks.notifiers.slack.blocks (pure)."""

from __future__ import annotations

import html
import re

from tasks.gate.question import ApprovalAction, ApprovalAnswer
from tasks.notifiers.slack.blocks import entities, escape, when
from tasks.text.inert import one_line

DONE = {
    ApprovalAction.BLOCK: "refused the launch",
    ApprovalAction.LAUNCH: "approved the launch",
    ApprovalAction.RECHECK: "asked to check again",
}
_DATE = re.compile(r"<!date\^[^|>]*\|([^>]*)>")
_MENTION = re.compile(r"<[@#]([A-Z0-9]+)>")


def inline(text: str, most: int = 300) -> str:
    """Code within a line, which a reader can copy unchanged."""
    return "`" + entities(one_line(text, most).replace("`", "'")) + "`"


def user(user_id: str) -> str:
    """A user's name. It notifies the user only if the message is visible to everybody."""
    return f"<@{entities(user_id[:40])}>"


def answered(answer: ApprovalAnswer) -> str:
    """Who answered what, when and why."""
    who = user(answer.who) if answer.verified else escape(answer.who, 100)
    why = f": {escape(answer.reason, 1000)}" if answer.reason else ""
    return f"{who} {DONE[answer.action]}, {when(answer.at)}{why}"


def without_markup(text: str) -> str:
    """The same for a place that shows markup as it is, such as an error beside a field."""
    plain = _MENTION.sub(r"\1", _DATE.sub(r"\1", text))
    return html.unescape(plain.replace("\u2060", "").replace("*", "").replace("`", ""))
