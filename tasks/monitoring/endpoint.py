"""Fetches what a watch serves, in bounded time and size, whatever answers there.

EndpointError     nothing usable was answered; the message says what happened
"""

from __future__ import annotations

import time

import httpx

from checks.runner.deadline import limited

BODY_BYTES = 8 << 20
HEADERS = {"Accept-Encoding": "identity", "User-Agent": "prelaunch-monitoring"}


class EndpointError(Exception):
    """The endpoint did not answer with a complete page."""


def fetched(host: str, port: int, seconds: float, path: str, kind: str) -> str:
    """The page at http://HOST:PORT and this path, complete and of this Content-Type.

    No proxy is used and no redirect followed. Raises EndpointError.
    """
    try:
        return limited(seconds, lambda: _fetched(f"http://{host}:{port}{path}", seconds, kind))
    except TimeoutError as error:
        raise EndpointError(f"it did not answer completely within {seconds:g} s") from error
    except (httpx.HTTPError, OSError) as error:
        raise EndpointError(f"{type(error).__name__}: {error}") from error
    except UnicodeDecodeError as error:
        raise EndpointError("its answer is not text in UTF-8") from error


def _fetched(url: str, seconds: float, wanted: str) -> str:
    ends_at = time.monotonic() + seconds
    with (
        httpx.Client(trust_env=False, timeout=seconds, headers=HEADERS) as client,
        client.stream("GET", url) as answer,
    ):
        if answer.status_code != httpx.codes.OK:
            raise EndpointError(f"it answers with status {answer.status_code}")
        kind = answer.headers.get("Content-Type", "").partition(";")[0].strip().lower()
        if kind != wanted:
            raise EndpointError(f"it answers with {kind or 'no type'}, which is no {wanted}")
        body = b""
        for part in answer.iter_raw():
            body += part
            if len(body) > BODY_BYTES:
                raise EndpointError(f"it answers with more than {BODY_BYTES >> 20} MiB")
            if (
                time.monotonic() > ends_at
            ):  # so that the thread ends soon after somebody stopped waiting for it
                raise TimeoutError
    return body.decode()
