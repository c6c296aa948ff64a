"""What `prelaunch slack` says in Slack: short answers to one person, and the modal that asks for a reason.

NotSaid             Slack did not take it; the message names no secret
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from slack_sdk.web import WebClient

LOG = logging.getLogger("prelaunch.slack")
TIMEOUT_S = 5
# A trigger_id is good for 3 s: https://docs.slack.dev/interactivity/handling-user-interaction
TRIGGER_S = 3


class NotSaid(Exception):
    """Slack did not take it. The message says why."""


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
    """Says things in one workspace; may be used from any thread."""

    def __init__(self, web: WebClient) -> None:
        self.web = web

    def open_modal(self, trigger: str, view: Mapping[str, Any]) -> None:
        """Show a modal to whoever clicked. Raises NotSaid: the click was too long ago, or Slack is down."""
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
    except NotSaid as error:
        LOG.warning("an answer did not reach Slack: %s", error)


def _asked(call: Callable[[], object]) -> None:
    from slack_sdk.errors import SlackApiError

    try:
        done = call()
    except SlackApiError as error:
        raise NotSaid(f"Slack says {error.response.get('error', 'no')!r}") from error
    except Exception as error:
        raise NotSaid(f"Slack does not answer ({type(error).__name__})") from error
    status = getattr(done, "status_code", 200)
    if status != 200:
        raise NotSaid(f"Slack answers {status}")
