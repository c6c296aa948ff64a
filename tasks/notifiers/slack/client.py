"""Slack's Web API, one client for messages and for the app: slack-sdk tries again what may pass, any other error is a NotifyError with
the remedy.
"""

from __future__ import annotations

import http.client
import logging
import re
import urllib.request
from collections.abc import Callable
from typing import Any, TypeVar
from urllib.parse import urlsplit

from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError, SlackClientError
from slack_sdk.http_retry.builtin_handlers import (
    ConnectionErrorRetryHandler,
    RateLimitErrorRetryHandler,
    ServerErrorRetryHandler,
)
from slack_sdk.http_retry.handler import RetryHandler

from tasks.notifiers.base import NotifyError

R = TypeVar("R")
TRY_S = 5
TRANSIENT = (OSError, http.client.HTTPException)
TOKEN_ERRORS = (
    "invalid_auth",
    "not_authed",
    "token_revoked",
    "token_expired",
    "account_inactive",
    "not_allowed_token_type",
)
FORM_ERRORS = (
    "invalid_blocks",
    "invalid_blocks_format",
    "msg_too_long",
    "msg_blocks_too_long",
    "invalid_arguments",
)
REMEDIES = {
    **dict.fromkeys(
        TOKEN_ERRORS, "Put the app's token where {reference} is: a bot token is xoxb-..., an app token xapp-..."
    ),
    **dict.fromkeys(FORM_ERRORS, "The message's form is a defect of Prelaunch: report it with the gate's report."),
    "not_in_channel": "Type /invite @ and the app's name in channel {channel}.",
    "channel_not_found": "Correct the channel {channel} in [notify.slack], or, if it is private, invite the app there.",
    "missing_scope": "Give the app the scope {needed} (OAuth & Permissions), and install it again.",
    "is_archived": "The channel {channel} is archived: name another in [notify.slack].",
}  # fmt: skip
OTHER = "See https://docs.slack.dev/reference/methods for what it means."
# The SDK writes whole answers at DEBUG, and at ERROR each try of what is tried again; what failed is in a NotifyError.
SDK_LOG = logging.getLogger("prelaunch.slack_sdk")
SDK_LOG.setLevel(logging.CRITICAL + 1)


class SlackRefused(NotifyError):
    """Slack refused the call; `error` is Slack's own name for the reason."""

    def __init__(self, message: str, error: str) -> None:
        super().__init__(message)
        self.error = error


class SlackWeb:
    """The app in one workspace. `reference` is where its token is, for people. Without `patient` no rate limit is waited for."""

    def __init__(self, api_url: str, token: str, reference: str, patient: bool = True) -> None:
        self._api_url, self._reference = api_url, reference
        handlers: list[RetryHandler] = [ConnectionErrorRetryHandler(), ServerErrorRetryHandler()]
        self.client = WebClient(
            token,
            base_url=api_url,
            timeout=TRY_S,
            logger=SDK_LOG,
            retry_handlers=[*handlers, RateLimitErrorRetryHandler()] if patient else handlers,
        )
        if self.is_direct:
            self.client.proxy = None

    @property
    def is_direct(self) -> bool:
        """Whether NO_PROXY names Slack's host: the SDK reads only HTTPS_PROXY."""
        return bool(urllib.request.proxy_bypass(urlsplit(self._api_url).hostname or ""))

    def call(self, method: str, channel: str = "", form: bool = False, **arguments: Any) -> dict[str, Any]:
        """Call a method and return Slack's answer. Some methods take a form instead of JSON.

        Raises SlackRefused if Slack says no, NotifyError where it does not answer in time.
        """
        if channel:
            arguments["channel"] = channel
        body: dict[str, Any] = {"params": arguments} if form else {"json": arguments}
        sent = self.attempt(method, lambda: self.client.api_call(method, **body), channel)
        return sent.data if isinstance(sent.data, dict) else {}

    def attempt(self, method: str, call: Callable[[], R], channel: str = "") -> R:
        """What a call of the SDK returns; raises as `call` does."""
        try:
            return call()
        except (SlackClientError, *TRANSIENT) as error:
            raise self._failed(method, channel, error) from None

    def _failed(self, method: str, channel: str, error: Exception) -> NotifyError:
        """The error with its meaning. Of Slack's answer and the request it has only Slack's error name."""
        if not isinstance(error, SlackApiError):
            cause = type(getattr(error, "reason", error)).__name__
            return NotifyError(
                f"Slack at {self._api_url} does not answer {method}: {cause}. Check the network, the proxy, and api_url."
            )
        status, reason = getattr(error.response, "status_code", 200), _plain_word(error.response.get("error"))
        if status == 429 or status >= 500:
            return NotifyError(f"Slack answers {status} ({method}), which may pass by itself.")
        needed = _plain_word(error.response.get("needed"))
        remedy = REMEDIES.get(reason, OTHER).format(reference=self._reference, channel=channel, needed=needed)
        return SlackRefused(f"Slack refuses {method}: {reason}. {remedy}", reason)


def _plain_word(field: object) -> str:
    """The error name of an answer, if it has the form of Slack's error names; nothing else of an answer is repeated."""
    text = str(field)
    return text if re.fullmatch(r"[a-z_:.]{1,60}", text) else "an unknown error"
