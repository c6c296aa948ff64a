"""The process between Slack and Prefect: it connects to both, serves until it is told to stop, and leaves nothing behind.

Its log is one line per event on stderr, without secrets and without tracebacks.

SlackAppError       Slack or Prefect cannot be reached, or refuses us; `rejected` if the configuration is to blame
"""

from __future__ import annotations

import collections
import contextlib
import logging
import os
import re
import socket
import sys
import threading
from typing import Any

from slack_sdk.socket_mode.builtin import SocketModeClient
from slack_sdk.socket_mode.client import BaseSocketModeClient
from slack_sdk.socket_mode.request import SocketModeRequest
from slack_sdk.socket_mode.response import SocketModeResponse

from checks.runner.deadline import NotInTime, limited
from tasks.notifiers.base import NotifyError
from tasks.notifiers.secret_refs import secret
from tasks.notifiers.slack.client import TOKEN_ERRORS, SlackRefused, SlackWeb
from tasks.slackbot.approvals import ApprovalHandler
from tasks.slackbot.commands import Commands
from tasks.slackbot.config import Config
from tasks.slackbot.dialogs import CALLBACK, beside_field
from tasks.slackbot.handover import AnswerDelivery
from tasks.slackbot.prefect_client import PrefectError, PrefectRuns
from tasks.text.inert import one_line
from tasks.text.redact import REMOVED, redact

LOG = logging.getLogger("prelaunch.slack")
REMEMBERED = 10_000
HELLO_S = 10.0
STOP_S = 2.4
PING_S = 5.0
# One message holds what it was clicked in: 50 blocks are more than the SDK's 1 KiB at a time, which it reads by recursion.
BUFFER_BYTES = 1 << 16
# App tokens, and the tickets of the socket's own address.
OURS = re.compile(r"\bxapp-[A-Za-z0-9-]{10,}|(?<=ticket=)[^\s&\"']+|(?<=link_disabled=)[^\s&\"']+")
LINE = 1000


class Envelopes:
    """The listener of a Socket Mode client: each envelope is acknowledged and carried out once.

    slack-sdk calls it in threads of its own, never in the socket's.
    """

    def __init__(self, answering: ApprovalHandler, commands: Commands) -> None:
        self._answering, self._commands = answering, commands
        self._seen: collections.OrderedDict[str, None] = collections.OrderedDict()
        self._lock = threading.Lock()

    def __call__(self, client: BaseSocketModeClient, request: SocketModeRequest) -> None:
        """Carry out an envelope. One that fails must not end the buttons of all."""
        if self._again(request.envelope_id):
            LOG.info("envelope %s arrived again and was ignored", request.envelope_id)
            _acknowledge(client, request)
            return
        try:
            self._handle(client, request)
        except Exception as error:  # noqa: BLE001 - whatever it is, the next click is handled
            LOG.error("a click or command could not be handled: %s: %s", type(error).__name__, error)

    def _handle(self, client: BaseSocketModeClient, request: SocketModeRequest) -> None:
        """Acknowledge at once, but a reason that was typed with what is wrong with it, which Slack shows beside the field."""
        payload = request.payload
        event = payload.get("type") if request.type == "interactive" else request.type
        if event == "view_submission" and payload.get("view", {}).get("callback_id") == CALLBACK:
            against = self._answering.submitted(payload)
            _acknowledge(client, request, beside_field(against) if against else None)
            return
        _acknowledge(client, request)
        if event == "block_actions":
            self._answering.clicked(payload)
        elif event == "slash_commands":
            self._commands.typed(payload, request.envelope_id)

    def _again(self, envelope: str) -> bool:
        with self._lock:
            if envelope in self._seen:
                return True
            self._seen[envelope] = None
            while len(self._seen) > REMEMBERED:
                self._seen.popitem(last=False)
            return False


def _acknowledge(
    client: BaseSocketModeClient, request: SocketModeRequest, body: dict[str, Any] | None = None
) -> None:
    try:
        client.send_socket_mode_response(SocketModeResponse(request.envelope_id, body))
    except Exception as error:  # noqa: BLE001 - the connection was replaced just now: Slack delivers the envelope again
        LOG.warning("envelope %s was not acknowledged: %s", request.envelope_id, type(error).__name__)


class SlackAppError(Exception):
    """The process cannot serve. The message says what is wrong, and the remedy; it never contains a token."""

    def __init__(self, message: str, rejected: bool = False) -> None:
        super().__init__(message)
        self.rejected = rejected


class SlackProcess:
    """Use it in a `with`: entering connects (SlackAppError), leaving ends every thread and connection within seconds."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._stack = contextlib.ExitStack()
        self.client: SocketModeClient | None = None

    def __enter__(self) -> SlackProcess:
        try:
            self._start()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _start(self) -> None:
        app = self._config.app
        try:
            bot, token = secret(app.bot_token), secret(app.app_token)
        except NotifyError as error:
            raise SlackAppError(str(error), rejected=True) from error
        runs = PrefectRuns()
        self._stack.callback(runs.close)
        try:
            runs.open()
        except PrefectError as error:
            message = (
                f"{error} Look at PREFECT_API_URL and PREFECT_API_AUTH_STRING, and whether the server runs."
            )
            raise SlackAppError(message) from error
        # Whoever clicked waits for seconds alone, and clicks again where Slack limits the rate.
        web = SlackWeb(app.api_url, bot, app.bot_token, patient=False)
        handing = AnswerDelivery(runs, self._config.gates)
        try:
            web.call("auth.test")
            self._stack.callback(handing.stop, STOP_S / 3)
            handing.start()
            answering = ApprovalHandler(self._config.gates, runs, web, bot, handing)
            self._connect(token, Envelopes(answering, Commands(self._config, runs)))
        except NotifyError as error:
            refused = isinstance(error, SlackRefused) and error.error in TOKEN_ERRORS
            raise SlackAppError(str(error), refused) from None

    def _connect(self, token: str, envelopes: Envelopes) -> None:
        app, hello = self._config.app, threading.Event()

        def heard(client: Any, message: dict[str, Any], raw: str | None = None) -> None:
            if message.get("type") == "hello":
                hello.set()

        web = SlackWeb(app.api_url, token, app.app_token)
        client = SocketModeClient(
            token,
            logger=logging.getLogger("prelaunch.slack.socket"),
            web_client=web.client,
            ping_interval=PING_S,
            receive_buffer_size=BUFFER_BYTES,
        )
        self.client = client
        if web.is_direct:
            client.proxy = None
        self._stack.callback(close, client, STOP_S)
        client.message_listeners.append(heard)
        client.socket_mode_request_listeners.append(envelopes)
        web.attempt("apps.connections.open", client.connect)
        if not hello.wait(HELLO_S):
            text = "Slack opened no socket: its WebSocket host cannot be reached, or Socket Mode is off."
            raise SlackAppError(text)
        LOG.info("serving %s", ", ".join(gate.name for gate in self._config.gates))


def close(client: SocketModeClient, patience_s: float) -> None:
    """Close the socket and end the client's threads; those that hang in a call to Slack are left to end by themselves."""
    try:
        limited(patience_s, lambda: _end(client))
    except NotInTime:
        LOG.warning("Slack's client did not end within %.1f s", patience_s)


def _end(client: SocketModeClient) -> None:
    """What makes connections ends first: one that is made while the client closes would stay, and its reader with it."""
    client.default_auto_reconnect_enabled = client.auto_reconnect_enabled = False
    client.closed = True
    client.message_queue.put(None)  # what waits a second for a message looks up now
    for runner in (client.current_app_monitor, client.message_processor):
        if runner.is_alive():
            runner.shutdown()  # type: ignore[no-untyped-call]
    session = client.current_session
    with contextlib.suppress(OSError, AttributeError):  # gone already
        # The SDK's reader holds its lock for as long as it waits for bytes, and close() would wait with it.
        session.sock.shutdown(socket.SHUT_RDWR)  # type: ignore[union-attr]
    client.close()


class Plain(logging.Formatter):
    """Time, level and message; what an exception says is in the message already."""

    def format(self, record: logging.LogRecord) -> str:
        """One line. PRELAUNCH_DEBUG=1 adds the traceback."""
        text = redact(OURS.sub(REMOVED, record.getMessage()), os.environ)
        head = f"{self.formatTime(record, '%Y-%m-%dT%H:%M:%S')} {record.levelname} {one_line(text, LINE)}"
        if record.exc_info and os.environ.get("PRELAUNCH_DEBUG") == "1":
            return f"{head}\n{redact(OURS.sub(REMOVED, self.formatException(record.exc_info)), os.environ)}"
        return head


def log_to_stderr() -> None:
    """Send this process's own log, and nobody else's, to stderr."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(Plain())
    logger = logging.getLogger("prelaunch")
    logger.handlers[:] = [handler]
    logger.setLevel(logging.INFO)
    logger.propagate = False
