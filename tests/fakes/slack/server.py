"""A stand-in of Slack on loopback: it answers over real HTTP, refuses what Slack refuses, and can be told to fail.

It is no Slack: it keeps the rules that are written down in methods.py and blockkit.py, and nothing else of the service.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from http.server import ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl

from tests.fakes.serving import QuietHandler, serving
from tests.fakes.slack.methods import METHODS, Method
from tests.fakes.slack.workspace import RESPONSES_A_URL, Message, Refusal, Response, Workspace

ANY = "*"


class Failure(Enum):
    """How the next calls go wrong."""

    RATE_LIMIT = "429 with Retry-After"
    SERVER_ERROR = "500"
    HANG = "no answer"
    RESET = "the connection is reset"
    LOST_ANSWER = "it is done, and the connection is reset before the answer"


@dataclass
class Dial:
    """The next `times` calls of a method fail in this way."""

    failure: Failure
    times: int
    retry_after_s: int = 1


@dataclass(frozen=True)
class Call:
    """One request: the method, what was said, when (monotonic), and Slack's answer ("ok", its error, or the failure)."""

    method: str
    given: dict[str, Any]
    at: float
    answer: str


class SlackServer(Workspace):
    """Start it with `slack_server()`. `methods` may be added to (Socket Mode does)."""

    def __init__(self) -> None:
        super().__init__()
        self.methods: dict[str, tuple[str, Method]] = dict(METHODS)
        self.dials: dict[str, Dial] = {}
        self.calls: list[Call] = []
        self.released = threading.Event()
        self.http = _Server(("127.0.0.1", 0), _Handler)
        self.http.slack = self

    @property
    def origin(self) -> str:
        """Such as http://127.0.0.1:4321."""
        return f"http://127.0.0.1:{self.http.server_address[1]}"

    @property
    def url(self) -> str:
        """The API's base URL, for api_url of a gate file."""
        return f"{self.origin}/api/"

    def fail(self, failure: Failure, times: int = 1, method: str = ANY, retry_after_s: int = 1) -> None:
        """Let the next calls of a method (or of all) fail."""
        self.released.clear()
        self.dials[method] = Dial(failure, times, retry_after_s)

    def heal(self) -> None:
        """Let everything work again; what hangs is let go."""
        self.dials.clear()
        self.released.set()

    def called(self, method: str) -> list[Call]:
        """The calls of a method, in their order."""
        with self.lock:
            return [call for call in self.calls if call.method == method]

    def response_url(self) -> str:
        """A response_url, as an interaction carries one; good for five answers."""
        path = f"/actions/{self.number()}"
        self.response_urls[path] = RESPONSES_A_URL
        return self.origin + path

    def only(self, channel: str = "") -> Message:
        """The one message that there is, threads apart."""
        (message,) = self.posted(channel)
        return message


@contextmanager
def slack_server() -> Iterator[SlackServer]:
    """A workspace of its own for the time of the block; nothing of it is left after."""
    slack = SlackServer()
    with serving(slack.http, slack.heal):
        yield slack


class _Server(ThreadingHTTPServer):
    daemon_threads = False
    slack: SlackServer

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away in the middle is no news."""


class _Handler(QuietHandler):
    server: _Server
    protocol_version = "HTTP/1.1"
    timeout = 30

    def do_POST(self) -> None:
        """Every method, every response_url."""
        slack, path = self.server.slack, self.path.partition("?")[0]
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.close_connection = True  # slack_sdk opens one for each call
        method = path.removeprefix("/api/") if path.startswith("/api/") else "response_url"
        given = self._arguments(body)
        failure = self._dialled(method, given)
        if failure is not None and failure is not Failure.LOST_ANSWER:
            return
        with slack.lock:
            answer = self._answer(path, method, given)
            said = "ok" if answer.get("ok") else str(answer.get("error"))
            slack.calls.append(Call(method, given, time.monotonic(), said))
        if failure is Failure.LOST_ANSWER:
            self.reset()
        else:
            self._send(200, answer)

    def _arguments(self, body: bytes) -> dict[str, Any]:
        if self.headers.get_content_type() == "application/json":
            found = json.loads(body or b"{}")
            return found if isinstance(found, dict) else {}
        return dict(parse_qsl(body.decode(), keep_blank_values=True))

    def _dialled(self, method: str, given: dict[str, Any]) -> Failure | None:
        slack = self.server.slack
        with slack.lock:
            dial = slack.dials.get(method) or slack.dials.get(ANY)
            if dial is None or dial.times <= 0:
                return None
            dial.times -= 1
            if dial.failure is not Failure.LOST_ANSWER:
                slack.calls.append(Call(method, given, time.monotonic(), dial.failure.value))
        if dial.failure is Failure.RATE_LIMIT:
            self._send(429, {"ok": False, "error": "ratelimited"}, Retry_After=str(dial.retry_after_s))
        elif dial.failure is Failure.SERVER_ERROR:
            self._send(500, {"ok": False, "error": "internal_error"})
        elif dial.failure is Failure.HANG:
            slack.released.wait(600)
        elif dial.failure is Failure.RESET:
            self.reset()
        return dial.failure

    def _answer(self, path: str, method: str, given: dict[str, Any]) -> dict[str, Any]:
        slack = self.server.slack
        try:
            if method == "response_url":
                return self._respond(path, given)
            if method not in slack.methods:
                raise Refusal("unknown_method")
            scope, function = slack.methods[method]
            self._authorise(method, scope)
            answer = function(slack, given)
        except Refusal as error:
            return {"ok": False, "error": error.error, **error.more}
        return {"ok": True, **answer}

    def _authorise(self, method: str, scope: str) -> None:
        slack = self.server.slack
        said = self.headers.get("Authorization", "").removeprefix("Bearer ")
        wanted = slack.app_token if method.startswith("apps.") else slack.token
        if not said:
            raise Refusal("not_authed")
        if said != wanted:
            raise Refusal(
                "not_allowed_token_type" if said in (slack.token, slack.app_token) else "invalid_auth"
            )
        if slack.revoked:
            raise Refusal("token_revoked")
        if scope and scope not in slack.scopes:
            raise Refusal("missing_scope", needed=scope, provided=",".join(sorted(slack.scopes)))

    def _respond(self, path: str, given: dict[str, Any]) -> dict[str, Any]:
        slack = self.server.slack
        left = slack.response_urls.get(path, 0)
        if left <= 0:
            raise Refusal("used_url" if path in slack.response_urls else "expired_url")
        slack.response_urls[path] = left - 1
        slack.responses.append(Response(slack.origin + path, given))
        return {}

    def _send(self, status: int, answer: dict[str, Any], **headers: str) -> None:
        self.answer(status, json.dumps(answer).encode(), Content_Type="application/json", **headers)
