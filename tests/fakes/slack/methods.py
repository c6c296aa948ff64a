"""Slack's Web API methods, as far as this project calls them, on a Workspace: what they check, refuse and answer."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from tests.fakes.slack.blockkit import JSON_CHARACTERS, faults
from tests.fakes.slack.workspace import BOT_USER, Message, Refusal, Workspace

Arguments = Mapping[str, Any]
Method = Callable[[Workspace, Arguments], dict[str, Any]]
# Slack cuts what is posted at 40,000 characters and refuses an update above 4,000: https://docs.slack.dev/changelog/2018-truncating-really-long-messages
POSTED_CHARACTERS, UPDATED_CHARACTERS = 40_000, 4_000


def auth_test(workspace: Workspace, given: Arguments) -> dict[str, Any]:
    """Who the token is."""
    who = {"team": "Stand-in", "team_id": "T1", "user": "prelaunch", "user_id": BOT_USER}
    return {"url": "https://stand-in.slack.com/", **who}


def post_message(workspace: Workspace, given: Arguments) -> dict[str, Any]:
    """chat.postMessage: takes a channel's id or name."""
    channel = workspace.found(given.get("channel"), by_name=True)
    text, blocks = _content(given, POSTED_CHARACTERS)
    thread = str(given.get("thread_ts") or "")
    if thread and workspace.message(channel.id, thread).thread_ts:
        raise Refusal("cannot_reply_to_message")
    broadcast = bool(thread) and given.get("reply_broadcast") in (True, "true", "1", 1)
    made = Message(channel.id, workspace.stamp(), text, blocks, thread_ts=thread, broadcast=broadcast)
    workspace.messages.append(made)
    return {"channel": channel.id, "ts": made.ts, "message": _shown(made)}


def update(workspace: Workspace, given: Arguments) -> dict[str, Any]:
    """chat.update: takes a channel's id alone, and the app's own messages."""
    channel = workspace.found(given.get("channel"), by_name=False)
    message = workspace.message(channel.id, str(given.get("ts") or ""))
    if message.user != BOT_USER:
        raise Refusal("cant_update_message")
    message.past.append(message.text)
    message.text, message.blocks = _content(given, UPDATED_CHARACTERS)
    message.edits += 1
    return {"channel": channel.id, "ts": message.ts, "text": message.text}


def permalink(workspace: Workspace, given: Arguments) -> dict[str, Any]:
    """chat.getPermalink."""
    channel = workspace.found(given.get("channel"), by_name=False)
    message = workspace.message(channel.id, str(given.get("message_ts") or ""))
    place = f"{channel.id}/p{message.ts.replace('.', '')}"
    return {"channel": channel.id, "permalink": f"https://stand-in.slack.com/archives/{place}"}


def open_view(workspace: Workspace, given: Arguments) -> dict[str, Any]:
    """views.open: a trigger opens one modal."""
    view = _view(given)
    trigger = str(given.get("trigger_id") or "")
    if trigger not in workspace.triggers:
        raise Refusal("invalid_trigger_id")
    if not workspace.triggers[trigger]:
        raise Refusal("exchanged_trigger_id")
    workspace.triggers[trigger] = False
    made = {**view, "id": f"V0{workspace.number():06d}", "hash": f"1.{workspace.number()}"}
    workspace.views[made["id"]] = made
    return {"view": made}


METHODS: dict[str, tuple[str, Method]] = {
    "auth.test": ("", auth_test),
    "chat.postMessage": ("chat:write", post_message),
    "chat.update": ("chat:write", update),
    "chat.getPermalink": ("", permalink),
    "views.open": ("", open_view),
}
"""Method -> the scope that it needs ("" for none) and what it does."""


def _content(given: Arguments, most: int) -> tuple[str, list[dict[str, Any]]]:
    """Text and blocks of a message, checked. Raises Refusal."""
    text, blocks = str(given.get("text") or ""), given.get("blocks") or []
    blocks = json.loads(blocks) if isinstance(blocks, str) else blocks
    if not text and not blocks:
        raise Refusal("no_text")
    if len(text) > most:
        raise Refusal("msg_too_long")
    wrong = faults(blocks)
    if not wrong and len(json.dumps(blocks, ensure_ascii=False)) > JSON_CHARACTERS:
        raise Refusal("msg_blocks_too_long")
    if wrong:
        raise Refusal("invalid_blocks", errors=wrong, response_metadata=_errors(wrong))
    return text, blocks


def _errors(wrong: list[str]) -> dict[str, list[str]]:
    return {"messages": [f"[ERROR] {line}" for line in wrong]}


def _view(given: Arguments) -> dict[str, Any]:
    view = given.get("view")
    view = json.loads(view) if isinstance(view, str) else view
    wrong = [] if isinstance(view, dict) else ["missing required field: view"]
    if isinstance(view, dict):
        wrong = faults(view.get("blocks", []), "modal")
        if not 0 < len(view.get("title", {}).get("text", "")) <= 24:
            wrong.append("must be less than 25 characters [json-pointer:/view/title/text]")
        if len(view.get("private_metadata", "")) > 3000:
            wrong.append("must be less than 3001 characters [json-pointer:/view/private_metadata]")
        inputs = any(block.get("type") == "input" for block in view.get("blocks", []))
        if inputs and "submit" not in view:
            wrong.append("missing required field: submit [json-pointer:/view]")
    if wrong:
        raise Refusal("invalid_arguments", response_metadata=_errors(wrong))
    assert isinstance(view, dict)
    return view


def _shown(message: Message) -> dict[str, Any]:
    own = {"user": message.user, "ts": message.ts, "text": message.text, "blocks": message.blocks}
    return {"type": "message", **own}
