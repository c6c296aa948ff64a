"""What `prelaunch slack` shows to one person in Slack: short answers, and the modal that asks for a reason.

The modal asks why somebody wants to launch in spite of a warning or a failure; it is made by pure functions.

SlackDeliveryError  Slack did not accept it; the message names no secret
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tasks.gate.question import LEAST_REASON, REASON_CHARACTERS, ApprovalAction, Question
from tasks.notifiers.slack.blocks import escape, marked, when
from tasks.slackbot.wording import inline, without_markup

if TYPE_CHECKING:
    from slack_sdk.web import WebClient

LOG = logging.getLogger("prelaunch.slack")
TIMEOUT_S = 5
CALLBACK = "prelaunch_answer"
REASON = "reason"


class SlackDeliveryError(Exception):
    """Slack did not accept the call. The message says why."""


def web_client(token: str, api_url: str) -> WebClient:
    """A client that repeats what a broken connection, a rate limit or an error of Slack's stopped, for seconds."""
    from slack_sdk.http_retry.builtin_handlers import (
        ConnectionErrorRetryHandler,
        RateLimitErrorRetryHandler,
        ServerErrorRetryHandler,
    )
    from slack_sdk.web import WebClient

    return WebClient(
        token,
        base_url=api_url,
        timeout=TIMEOUT_S,
        retry_handlers=[
            ConnectionErrorRetryHandler(max_retry_count=1),
            RateLimitErrorRetryHandler(max_retry_count=1),
            ServerErrorRetryHandler(max_retry_count=1),
        ],
    )


class Talk:
    """Sends messages in one workspace; may be used from any thread."""

    def __init__(self, web: WebClient) -> None:
        self.web = web

    def open_modal(self, trigger: str, view: Mapping[str, Any]) -> None:
        """Show a modal to whoever clicked. Raises SlackDeliveryError: the click was too long ago, or Slack is down."""
        _asked(lambda: self.web.views_open(trigger_id=trigger, view=dict(view)))

    def whisper(self, channel: str, user: str, text: str, thread: str = "") -> None:
        """A line that one person sees. A failure is logged: the answer is in the store and in the thread as well."""
        _tried(
            lambda: self.web.chat_postEphemeral(
                channel=channel, user=user, text=text, thread_ts=thread or None
            )
        )

    def respond(self, url: str, text: str, blocks: list[dict[str, Any]] | None = None) -> None:
        """Answer an interaction where it was made; one person sees it. A failure is logged."""
        from slack_sdk.webhook import WebhookClient

        hook = WebhookClient(url, timeout=TIMEOUT_S)
        body: dict[str, Any] = {"text": text, "response_type": "ephemeral", "replace_original": False}
        _tried(lambda: hook.send_dict({**body, **({"blocks": blocks} if blocks else {})}))


def _tried(call: Callable[[], object]) -> None:
    try:
        _asked(call)
    except SlackDeliveryError as error:
        LOG.warning("an answer did not reach Slack: %s", error)


def _asked(call: Callable[[], object]) -> None:
    from slack_sdk.errors import SlackApiError

    try:
        done = call()
    except SlackApiError as error:
        raise SlackDeliveryError(f"Slack says {error.response.get('error', 'no')!r}") from error
    except Exception as error:
        raise SlackDeliveryError(f"Slack does not answer ({type(error).__name__})") from error
    status = getattr(done, "status_code", 200)
    if status != 200:
        raise SlackDeliveryError(f"Slack answers {status}")


@dataclass(frozen=True)
class Place:
    """Where the question is: channel, message and its thread ("" if the message is no reply)."""

    channel: str
    ts: str
    thread: str


def modal(question: Question, action: ApprovalAction, place: Place) -> dict[str, Any]:
    """The view: the findings about the machines, what the answer means, and a field for the reason."""
    override = question.override
    text = f"*{escape(question.said, 1500)}*\nGate {inline(question.gate_id)}, open until {when(question.deadline)}."
    meaning = (
        "This *overrides a FAIL*: the training starts on machines that were found unfit. Your name, the time and the "
        "reason are recorded, and both the on-call and the gate's owner are notified."
        if override
        else "The training starts on these machines. Your name, the time and the reason are recorded."
    )
    title, verb, why = (
        ("Override a FAIL", "Override", "Why is it right to launch?")
        if override
        else ("Launch anyway", "Launch", "Why is it right to launch?")
    )
    if question.repair:
        meaning = f"This is done: {inline(question.repair)}. Your name, the time and the reason are recorded."
        title, verb, why = "Allow a repair", "Allow", "Why is it right to do it?"
    metadata = {
        "flow_run_id": question.flow_run_id,
        "gate_id": question.gate_id,
        "key": question.key,
        "action": action.value,
        "channel": place.channel,
        "ts": place.ts,
        "thread": place.thread,
    }
    return {
        "type": "modal",
        "callback_id": CALLBACK,
        "private_metadata": json.dumps(metadata),
        "title": _plain(title),
        "submit": _plain(verb),
        "close": _plain("Cancel"),
        "blocks": [
            marked(text),
            marked(meaning),
            {
                "type": "input",
                "block_id": REASON,
                "label": _plain(why),
                "element": {
                    "type": "plain_text_input",
                    "action_id": REASON,
                    "multiline": True,
                    "min_length": LEAST_REASON,
                    "max_length": REASON_CHARACTERS,
                },
            },
        ],
    }


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
