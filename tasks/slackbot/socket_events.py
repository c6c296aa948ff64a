"""Handles what Slack sends over the socket: each envelope is acknowledged and carried out once.

slack-sdk calls the listener in threads of its own, never in the socket's.
"""

from __future__ import annotations

import collections
import logging
import threading
from typing import TYPE_CHECKING, Any

from tasks.slackbot.approvals import ApprovalHandler
from tasks.slackbot.commands import Commands
from tasks.slackbot.dialogs import CALLBACK, beside_field

if TYPE_CHECKING:
    from slack_sdk.socket_mode.client import BaseSocketModeClient
    from slack_sdk.socket_mode.request import SocketModeRequest

LOG = logging.getLogger("prelaunch.slack")
REMEMBERED = 10_000


class Envelopes:
    """The listener of a Socket Mode client."""

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
        kind = payload.get("type") if request.type == "interactive" else request.type
        if kind == "view_submission" and payload.get("view", {}).get("callback_id") == CALLBACK:
            against = self._answering.submitted(payload)
            _acknowledge(client, request, beside_field(against) if against else None)
            return
        _acknowledge(client, request)
        if kind == "block_actions":
            self._answering.clicked(payload)
        elif kind == "slash_commands":
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
    from slack_sdk.socket_mode.response import SocketModeResponse

    try:
        client.send_socket_mode_response(SocketModeResponse(request.envelope_id, body))
    except Exception as error:  # noqa: BLE001 - the connection was replaced just now: Slack delivers the envelope again
        LOG.warning("envelope %s was not acknowledged: %s", request.envelope_id, type(error).__name__)
