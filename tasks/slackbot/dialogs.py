"""What `prelaunch serve slack` shows to one person in Slack: short answers, and the modal that asks for a reason."""

from __future__ import annotations

import html
import logging
import re
from collections.abc import Sequence
from typing import Any

from tasks.gate.question import ACTION_TEXTS, LEAST_REASON, REASON_CHARACTERS, ApprovalAnswer, Question
from tasks.notifiers.slack.blocks import Block, entities, escape, marked, when
from tasks.text.inert import one_line

LOG = logging.getLogger("prelaunch.slack")
TIMEOUT_S = 5
CALLBACK = "prelaunch_answer"
REASON = "reason"
_DATE = re.compile(r"<!date\^[^|>]*\|([^>]*)>")
_MENTION = re.compile(r"<[@#]([A-Z0-9]+)>")


def inline(text: str, most: int = 300) -> str:
    """Code within a line, which a reader can copy unchanged."""
    return "`" + entities(one_line(text, most).replace("`", "'")) + "`"


def user(user_id: str) -> str:
    """A user's name. It notifies the user only if the message is visible to everybody."""
    return f"<@{entities(user_id[:40])}>"


def answer_text(answer: ApprovalAnswer) -> str:
    """Who answered what, when and why."""
    person = user(answer.who) if answer.verified else escape(answer.who, 100)
    reason = f": {escape(answer.reason, 1000)}" if answer.reason else ""
    return f"{person} {ACTION_TEXTS[answer.action]}, {when(answer.at)}{reason}"


def without_markup(text: str) -> str:
    """The markup is removed from the text, for a place that shows markup as it is, such as an error beside a field."""
    plain = _MENTION.sub(r"\1", _DATE.sub(r"\1", text))
    return html.unescape(plain.replace("\u2060", "").replace("*", "").replace("`", ""))


def respond(url: str, text: str, blocks: Sequence[Block] = ()) -> None:
    """Answer an interaction where it was made; one person sees it. A failure is logged: the answer is in the store as well."""
    from slack_sdk.webhook import WebhookClient

    body: dict[str, Any] = {"text": text, "response_type": "ephemeral", "replace_original": False}
    if blocks:
        body["blocks"] = list(blocks)
    try:
        status = WebhookClient(url, timeout=TIMEOUT_S).send_dict(body).status_code
    except Exception as error:  # noqa: BLE001 - urllib, http.client, ssl and the SDK each have their own
        LOG.warning("an answer did not reach Slack: %s", type(error).__name__)
    else:
        if status != 200:
            LOG.warning("an answer did not reach Slack, which answers %s", status)


def modal(question: Question, value: str) -> dict[str, Any]:
    """The view: the findings about the machines, what the answer means, and a field for the reason. `value` is the button's."""
    text = f"*{escape(question.said, 1500)}*\nGate {inline(question.gate_id)}, open until {when(question.deadline)}."
    title, verb, meaning = "Launch anyway", "Launch", "The training starts on these machines."
    if question.override:
        title, verb = "Override a FAIL", "Override"
        meaning = (
            "This *overrides a FAIL*: the training starts on machines that were found unfit, and both the on-call and the gate's "
            "owner are notified."
        )
    if question.repair:
        title, verb, meaning = "Allow a repair", "Allow", f"This is done: {inline(question.repair)}."
    field = {
        "type": "plain_text_input",
        "action_id": REASON,
        "multiline": True,
        "min_length": LEAST_REASON,
        "max_length": REASON_CHARACTERS,
    }
    return {
        "type": "modal",
        "callback_id": CALLBACK,
        "private_metadata": value,
        "title": _plain(title),
        "submit": _plain(verb),
        "close": _plain("Cancel"),
        "blocks": [
            marked(text),
            marked(f"{meaning} Your name, the time and the reason are recorded."),
            {"type": "input", "block_id": REASON, "label": _plain("Why is it right to do this?"), "element": field},
        ],
    }  # fmt: skip


def reason_of(view: Any) -> str:
    """What was typed, without the white space around it; "" for nothing."""
    try:
        value = view["state"]["values"][REASON][REASON]["value"]
    except (KeyError, TypeError):
        return ""
    return value.strip()[:REASON_CHARACTERS] if isinstance(value, str) else ""


def beside_field(text: str) -> dict[str, Any]:
    """The answer to a submission that keeps the modal open, with the text beside the field."""
    return {"response_action": "errors", "errors": {REASON: without_markup(text)}}


def _plain(text: str) -> dict[str, str]:
    return {"type": "plain_text", "text": text}
