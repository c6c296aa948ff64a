"""Socket Mode of the stand-in: apps.connections.open, then a WebSocket that says hello, delivers envelopes and hears acknowledgements.

It is no Slack: a ticket is good for one connection, each envelope goes to the newest connection, an envelope that is not
acknowledged within 3 s is a failure that a person would see, and `refresh` asks for a new connection before it ends the old.
"""

from __future__ import annotations

import json
import secrets
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response
from websockets.sync.server import Server, ServerConnection, serve

from tests.fakes.slack.server import SlackServer
from tests.fakes.slack.workspace import Message, Refusal, Workspace
from tests.waiting import until

ACKNOWLEDGE_S = 3.0
Payload = Mapping[str, Any]


class NotAcknowledged(AssertionError):
    """Slack would show the user a warning sign."""


@dataclass
class Envelope:
    """One delivery; `answer` is the payload of its acknowledgement, `took_s` how long that took."""

    id: str
    kind: str
    payload: Payload
    acknowledged: threading.Event = field(default_factory=threading.Event)
    answer: Payload | None = None
    sent_at: float = 0.0
    took_s: float = 0.0


class SocketMode:
    """Socket Mode of one workspace, and what people do there. Made by `socket_mode`."""

    def __init__(self, slack: SlackServer) -> None:
        self.slack = slack
        self.down = False
        self.silent = False
        self.envelopes: dict[str, Envelope] = {}
        self.tickets: set[str] = set()
        self.connections: list[ServerConnection] = []
        self.hellos = 0
        self._changed = threading.Condition()
        self._server: Server = serve(self._connected, "127.0.0.1", 0, process_request=self._admitted)
        self._thread = threading.Thread(target=self._server.serve_forever, name="slack socket stand-in")
        slack.methods["apps.connections.open"] = ("", self._opened)
        self._thread.start()

    def stop(self) -> None:
        """End every connection."""
        self._server.shutdown()
        for connection in list(self.connections):
            connection.close()
        self._thread.join()

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self._server.socket.getsockname()[1])

    def wait_connected(self, count: int = 1, timeout_s: float = 240) -> None:
        """Until there were this many hellos."""
        with self._changed:
            said = self._changed.wait_for(lambda: self.hellos >= count, timeout_s)
        assert said, f"{self.hellos} of {count} connections came"

    def wait_gone(self, timeout_s: float = 240) -> None:
        """Until nobody is connected."""
        with self._changed:
            assert self._changed.wait_for(lambda: not self.connections, timeout_s), "somebody is connected"

    def deliver(self, kind: str, payload: Payload, envelope_id: str = "") -> Envelope:
        """Send an envelope over the newest connection, and wait for its acknowledgement. Raises NotAcknowledged."""
        made = Envelope(envelope_id or str(uuid.uuid4()), kind, payload)
        self.envelopes[made.id] = made
        body = {"envelope_id": made.id, "type": kind, "payload": payload, "accepts_response_payload": True}
        made.sent_at = time.monotonic()
        self.connections[-1].send(json.dumps(body))
        if not made.acknowledged.wait(ACKNOWLEDGE_S):
            raise NotAcknowledged(f"{kind} was not acknowledged within {ACKNOWLEDGE_S:.0f} s")
        return made

    def again(self, envelope: Envelope) -> Envelope:
        """The same envelope once more, as Slack delivers what it holds for lost."""
        return self.deliver(envelope.kind, envelope.payload, envelope.id)

    def refresh(self) -> None:
        """Ask for a new connection, as Slack does every few hours; the old one ends once the new one is there."""
        before, old = self.hellos, self.connections[-1]
        old.send(json.dumps({"type": "disconnect", "reason": "refresh_requested", "debug_info": {}}))
        self.wait_connected(before + 1)
        old.close()

    def drop(self) -> None:
        """Cut the newest connection without a word."""
        self.connections[-1].socket.shutdown(socket.SHUT_RDWR)

    def click(self, user: str, message: Message, action: str, value: str | None = None) -> Envelope:
        """Press a button of a message, with another value where one is given."""
        own = message.actions[action]["value"] if value is None else value
        pressed = {"type": "button", "action_id": action, "block_id": "b", "value": own}
        pressed["action_ts"] = f"{time.time():.6f}"
        shown = {"ts": message.ts, "text": message.text, "blocks": message.blocks, "type": "message"}
        payload = {
            "type": "block_actions",
            "user": {"id": user, "username": user.lower(), "team_id": "T1"},
            "container": {"type": "message", "message_ts": message.ts, "channel_id": message.channel},
            "channel": {"id": message.channel, "name": "gates"},
            "message": shown,
            "actions": [pressed],
            **self._answerable(),
        }
        return self.deliver("interactive", payload)

    def submit(self, user: str, view: Mapping[str, Any], reason: str) -> Envelope:
        """Send a modal with a reason in its field."""
        values = {"reason": {"reason": {"type": "plain_text_input", "value": reason or None}}}
        payload = {
            "type": "view_submission",
            "user": {"id": user, "team_id": "T1"},
            "view": {**view, "state": {"values": values}},
            "response_urls": [],
            "trigger_id": self.slack.trigger(),
        }
        return self.deliver("interactive", payload)

    def command(self, user: str, text: str, channel: str = "C1") -> Envelope:
        """Type /prelaunch."""
        who = {"user_id": user, "channel_id": channel, "team_id": "T1"}
        return self.deliver(
            "slash_commands", {"command": "/prelaunch", "text": text, **who, **self._answerable()}
        )

    def _answerable(self) -> dict[str, str]:
        return {"trigger_id": self.slack.trigger(), "response_url": self.slack.response_url()}

    def answered(self, count: int) -> list[dict[str, Any]]:
        """What was posted to response_urls, once there are this many."""
        self._wait(lambda: len(self.slack.responses) >= count, f"{count} answers")
        return [response.body for response in self.slack.responses]

    def modal(self) -> dict[str, Any]:
        """The newest modal, once there is one."""
        self._wait(lambda: bool(self.slack.views), "a modal")
        return dict(list(self.slack.views.values())[-1])

    def _wait(self, ready: Callable[[], bool], what: str, timeout_s: float = 240) -> None:
        until(ready, lambda: f"{what}: {self.slack.responses}", timeout_s)

    def _opened(self, workspace: Workspace, given: Mapping[str, Any]) -> dict[str, Any]:
        if self.down:
            raise Refusal("internal_error")
        ticket = secrets.token_hex(16)
        self.tickets.add(ticket)
        return {"url": f"ws://127.0.0.1:{self.port}/link/?ticket={ticket}&app_id=A1"}

    def _admitted(self, connection: ServerConnection, request: Request) -> Response | None:
        ticket = request.path.partition("ticket=")[2].partition("&")[0]
        if ticket not in self.tickets or self.down:
            return connection.respond(403, "no such ticket\n")
        self.tickets.remove(ticket)
        return None

    def _connected(self, connection: ServerConnection) -> None:
        with self._changed:
            self.connections.append(connection)
        try:
            if not self.silent:
                hello = {"type": "hello", "num_connections": len(self.connections)}
                connection.send(json.dumps({**hello, "connection_info": {"app_id": "A1"}}))
                with self._changed:
                    self.hellos += 1
                    self._changed.notify_all()
            for text in connection:
                self._heard(json.loads(text))
        except (ConnectionClosed, OSError):
            pass  # how the client leaves is seen by who is left
        finally:
            with self._changed:
                self.connections.remove(connection)
                self._changed.notify_all()

    def _heard(self, said: Mapping[str, Any]) -> None:
        envelope = self.envelopes.get(str(said.get("envelope_id")))
        if envelope is not None:
            envelope.took_s = time.monotonic() - envelope.sent_at
            envelope.answer = said.get("payload")
            envelope.acknowledged.set()


@contextmanager
def socket_mode(slack: SlackServer) -> Iterator[SocketMode]:
    """Socket Mode for the time of the block."""
    made = SocketMode(slack)
    try:
        yield made
    finally:
        made.stop()
