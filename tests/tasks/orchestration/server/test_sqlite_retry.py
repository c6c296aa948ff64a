"""Requests that SQLite refused are repeated inside the server."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from tasks.orchestration.server import process
from tasks.orchestration.server.process import repeat_when_busy

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

BODY: list[Message] = [
    {"type": "http.request", "body": b"first,", "more_body": True},
    {"type": "http.request", "body": b"last", "more_body": False},
]


def _application(statuses: list[int], bodies: list[bytes], fails: bool = False) -> ASGIApp:
    """Answers with each status in turn, keeps the bodies it was sent, and may raise after it answered."""

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        body = b""
        while True:
            message = await receive()
            body += message["body"]
            if not message["more_body"]:
                break
        bodies.append(body)
        status = statuses.pop(0)
        await send({"type": "http.response.start", "status": status, "headers": []})
        await send({"type": "http.response.body", "body": str(status).encode()})
        if fails and status >= 500:
            raise RuntimeError("database is locked")

    return application


def _post(application: ASGIApp) -> list[object]:
    """What a client sees of one request: the statuses and the parts of the body."""
    waiting, seen = list(BODY), list[object]()

    async def receive() -> Message:
        return waiting.pop(0)

    async def send(message: Message) -> None:
        seen.append(message.get("status", message.get("body")))

    async def call() -> None:
        await repeat_when_busy(application)({"type": "http"}, receive, send)

    asyncio.run(call())
    return seen


@pytest.mark.parametrize("fails", [False, True])
def test_a_refused_request_is_repeated_unseen(fails: bool) -> None:
    """The client sees the one answer that counts, also where Starlette raises after answering."""
    bodies: list[bytes] = []

    assert _post(_application([503, 503, 201], bodies, fails)) == [201, b"201"]
    assert bodies == [b"first,last"] * 3


def test_another_error_is_passed_on() -> None:
    """Only what SQLite refused is repeated: any other failure may have changed something."""
    with pytest.raises(RuntimeError, match="database is locked"):
        _post(_application([500, 201], [], fails=True))


def test_repeating_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """A database that stays locked is an answer too, not a hang."""
    monkeypatch.setattr(process, "_GIVE_UP_S", 0.0)

    assert _post(_application([503, 201], [])) == [503, b"503"]
