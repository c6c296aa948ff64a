"""Slack's Web API within a deadline: errors that may pass are retried, any other becomes a NotifyError with the remedy."""

from __future__ import annotations

import http.client
import logging
import re
import time
import urllib.request
from typing import Any
from urllib.parse import urlsplit

from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError, SlackClientError
from slack_sdk.http_retry.handler import RetryHandler
from slack_sdk.http_retry.request import HttpRequest
from slack_sdk.http_retry.response import HttpResponse
from slack_sdk.http_retry.state import RetryState

from tasks.gate_file.people import SlackTable
from tasks.notifiers.base import NotifyError

TRY_S = 6.0
PAUSE_S = 0.5
LEAST_S = 0.3
LATER = (429, 500, 502, 503, 504)
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
# The SDK writes whole answers at DEBUG, and at ERROR each try of what is tried again; what failed is in a NotifyError.
SDK_LOG = logging.getLogger("prelaunch.slack_sdk")
SDK_LOG.setLevel(logging.CRITICAL + 1)


class SlackRefused(NotifyError):
    """Slack refused the call; `error` is Slack's own name for the reason."""

    def __init__(self, message: str, error: str) -> None:
        super().__init__(message)
        self.error = error


class Deadline(RetryHandler):
    """Retries errors that may pass (rate limit, 5xx, connection) while there is time, and waits as long as Slack asks for."""

    def __init__(self, seconds: float) -> None:
        super().__init__(max_retry_count=20)
        self.end = time.monotonic() + seconds
        self.asked_s = 0.0
        self.client: WebClient | None = None

    @property
    def left_s(self) -> float:
        """Seconds until the deadline."""
        return self.end - time.monotonic()

    def limit(self, client: WebClient) -> None:
        """Limit the client's next try to the deadline. Raises NotifyError if there is no time for one."""
        if self.left_s < LEAST_S:
            raise NotifyError(
                "Slack did not accept everything in time. It will be tried again with the next message."
            )
        self.client = client
        # The SDK hands it on to a socket, which takes fractions as well; its own type says whole seconds.
        client.timeout = min(TRY_S, self.left_s)  # type: ignore[assignment]

    def _can_retry(
        self,
        *,
        state: RetryState,
        request: HttpRequest,
        response: HttpResponse | None = None,
        error: Exception | None = None,
    ) -> bool:
        if response is None and not isinstance(error, TRANSIENT):
            return False
        if response is not None and response.status_code not in LATER:
            return False
        self.asked_s = _retry_after(response, state.current_attempt)
        return self.asked_s + LEAST_S < self.left_s

    def prepare_for_next_attempt(
        self,
        *,
        state: RetryState,
        request: HttpRequest,
        response: HttpResponse | None = None,
        error: Exception | None = None,
    ) -> None:
        """Wait as long as Slack asked for."""
        time.sleep(self.asked_s)
        if self.client is not None:
            self.limit(self.client)
        state.next_attempt_requested = True
        state.increment_current_attempt()


class SlackWeb:
    """The app in one workspace. All calls together end within `seconds` after this object was made."""

    def __init__(self, table: SlackTable, token: str, seconds: float) -> None:
        self._table, self._deadline = table, Deadline(seconds)
        self._client = WebClient(
            token, base_url=table.api_url, logger=SDK_LOG, retry_handlers=[self._deadline]
        )
        if urllib.request.proxy_bypass(urlsplit(table.api_url).hostname or ""):
            self._client.proxy = None  # the SDK reads HTTPS_PROXY and not NO_PROXY

    def call(self, method: str, channel: str = "", form: bool = False, **given: Any) -> dict[str, Any]:
        """Call a method and return Slack's answer. Some methods take a form instead of JSON.

        Raises SlackRefused if Slack says no, NotifyError where it does not answer in time.
        """
        if channel:
            given["channel"] = channel
        try:
            self._deadline.limit(self._client)
            sent = (
                self._client.api_call(method, params=given)
                if form
                else self._client.api_call(method, json=given)
            )
        except (SlackClientError, *TRANSIENT) as error:
            raise self._failed(method, channel, error) from None
        return sent.data if isinstance(sent.data, dict) else {}

    def _failed(self, method: str, channel: str, error: Exception) -> NotifyError:
        """The error with its meaning. Of Slack's answer and the request it has only Slack's error name."""
        if isinstance(error, SlackApiError):
            status = getattr(error.response, "status_code", 200)
            word = _word(error)
            if status in LATER or word in ("ratelimited", "rate_limited"):
                said = (
                    f"Slack asks to wait {self._deadline.asked_s:.0f} s"
                    if status == 429
                    else f"Slack answers {status}"
                )
                return NotifyError(f"{said} ({method}). It will be tried again with the next message.")
            return SlackRefused(f"Slack refuses {method}: {word}. {self._remedy(word, channel, error)}", word)
        kind = getattr(error, "reason", error)
        return NotifyError(
            f"Slack at {self._table.api_url} does not answer {method}: {type(kind).__name__}. "
            "Check the network, the proxy, and [notify.slack] api_url."
        )

    def _remedy(self, word: str, channel: str, error: SlackApiError) -> str:
        if word in TOKEN_ERRORS:
            return f"Put the app's bot token (xoxb-...) where {self._table.token} is."
        if word == "not_in_channel":
            return f"Type /invite @ and the app's name in channel {channel}."
        if word == "channel_not_found":
            return f"Correct the channel {channel} in [notify.slack], or, if it is private, invite the app there."
        if word == "missing_scope":
            needed = _plain_word(error.response.get("needed"))
            return f"Give the app the scope {needed} (OAuth & Permissions), and install it again."
        if word == "is_archived":
            return f"The channel {channel} is archived: name another in [notify.slack]."
        if word in FORM_ERRORS:
            return "The message's form is a defect of Prelaunch: report it with the gate's report."
        return "See https://docs.slack.dev/reference/methods for what it means."


def _retry_after(response: HttpResponse | None, attempt: int) -> float:
    """Seconds that Slack asks for, or a pause that doubles."""
    for name, values in (response.headers if response is not None else {}).items():
        value = values[0] if isinstance(values, list) and values else values
        if name.lower() == "retry-after" and str(value).isdigit():
            return float(str(value))
    return float(PAUSE_S * 2**attempt)


def _word(error: SlackApiError) -> str:
    found = error.response.get("error") if hasattr(error.response, "get") else ""
    return _plain_word(found)


def _plain_word(found: object) -> str:
    """The error name of an answer, if it has the form of Slack's error names; nothing else of an answer is repeated."""
    text = str(found)
    return text if re.fullmatch(r"[a-z_:.]{1,60}", text) else "an unknown error"
