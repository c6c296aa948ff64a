"""Repeats a request that SQLite refused, inside the server, so that nobody waits seconds for it.

A transaction that began by reading is refused at once (SQLITE_BUSY) if another connection has written
since; no timeout helps. Prefect answers 503 and its client tries again after two seconds. The refused
transaction changed nothing, so it is repeated here within milliseconds. Two servers on one file conflict in the
same way.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

# Below the client's time-out of 60 s (PREFECT_API_REQUEST_TIMEOUT). A server that is dead answers nothing, and is not waited for.
_GIVE_UP_S = 50.0
_PAUSE_S = 0.02
_BUSY = 503


def repeat_when_busy(app: ASGIApp) -> ASGIApp:
    """The same application, whose 503 answers are withheld and tried again for up to 50 s."""

    async def repeating(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await app(scope, receive, send)
            return
        request = await _whole(receive)
        deadline = time.monotonic() + _GIVE_UP_S
        while await _refused(app, dict(scope), _Replay(request, receive), send, deadline):
            await asyncio.sleep(_PAUSE_S)

    return repeating


class _Replay:
    """Gives the request's messages once more, then whatever follows them."""

    def __init__(self, request: list[Message], receive: Receive) -> None:
        self._left = list(request)
        self._receive = receive

    async def __call__(self) -> Message:
        return self._left.pop(0) if self._left else await self._receive()


async def _refused(app: ASGIApp, scope: Scope, receive: Receive, send: Send, deadline: float) -> bool:
    """Run the request once; True if it answered 503 in time, and then nothing of the answer was sent."""
    withheld = False

    async def pass_on(message: Message) -> None:
        nonlocal withheld
        if message["type"] == "http.response.start" and message["status"] == _BUSY:
            withheld = time.monotonic() < deadline
        if not withheld:
            await send(message)

    try:
        await app(scope, receive, pass_on)
    except Exception:
        # Starlette raises the error again after it answered 503 for it.
        if not withheld:
            raise
    return withheld


async def _whole(receive: Receive) -> list[Message]:
    """The request's messages up to the end of its body."""
    messages = [await receive()]
    while messages[-1].get("more_body", False):
        messages.append(await receive())
    return messages
