"""Fetches what a watch serves, in bounded time and size, whatever answers there.

EndpointError     nothing usable was answered; the message says what happened
"""

from __future__ import annotations

import http.client
import time
from contextlib import ExitStack

from checks.runner.deadline import limited

BODY_BYTES = 8 << 20
CHUNK_BYTES = 1 << 16
HEADERS = {"Accept-Encoding": "identity", "User-Agent": "prelaunch-monitoring"}


class EndpointError(Exception):
    """The endpoint did not answer with a complete page."""


def fetched(host: str, port: int, seconds: float, path: str, kind: str) -> str:
    """The page at http://HOST:PORT and this path, complete and of this Content-Type.

    No proxy is used and no redirect followed. Raises EndpointError.
    """
    try:
        return limited(seconds, lambda: _fetched(host, port, time.monotonic() + seconds, path, kind))
    except TimeoutError as error:
        raise EndpointError(f"it did not answer completely within {seconds:g} s") from error
    except http.client.HTTPException as error:
        raise EndpointError(f"it does not speak HTTP ({type(error).__name__})") from error
    except OSError as error:
        raise EndpointError(error.strerror or type(error).__name__) from error


def _fetched(host: str, port: int, ends_at: float, path: str, wanted: str) -> str:
    # The socket's own time limit, so that the thread ends soon after somebody stopped waiting for it.
    with ExitStack() as closing:
        connection = http.client.HTTPConnection(host.strip("[]"), port, timeout=_left_s(ends_at))
        closing.callback(connection.close)
        connection.request("GET", path, headers=HEADERS)
        answer = connection.getresponse()
        # Closing the connection alone leaves the socket open for as long as somebody holds the answer.
        closing.callback(answer.close)
        if answer.status != http.client.OK:
            raise EndpointError(f"it answers with status {answer.status}")
        kind = answer.getheader("Content-Type", "").partition(";")[0].strip().lower()
        if kind != wanted:
            raise EndpointError(f"it answers with {kind or 'no type'}, which is no {wanted}")
        return _body(answer, ends_at)


def _body(answer: http.client.HTTPResponse, ends_at: float) -> str:
    parts: list[bytes] = []
    size = 0
    while part := answer.read1(CHUNK_BYTES):
        parts.append(part)
        size += len(part)
        if size > BODY_BYTES:
            raise EndpointError(f"it answers with more than {BODY_BYTES >> 20} MiB")
        _left_s(ends_at)
    if answer.length:  # it announced more than it sent
        raise EndpointError("its answer is cut short")
    try:
        return b"".join(parts).decode()
    except UnicodeDecodeError as error:
        raise EndpointError("its answer is not text in UTF-8") from error


def _left_s(ends_at: float) -> float:
    left = ends_at - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left
