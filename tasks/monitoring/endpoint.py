"""Fetches and reads what an exporter serves, in bounded time and size, whatever answers there.

EndpointError     nothing usable was answered; the message says what happened
"""

from __future__ import annotations

import http.client
import time
from contextlib import ExitStack
from itertools import islice

from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from checks.runner.deadline import limited
from tasks.text.inert import one_line

BODY_BYTES = 8 << 20
CHUNK_BYTES = 1 << 16
# A store with 10,000 nodes has fewer.
MOST_SAMPLES = 100_000
PATH = "/metrics"
NO_METRICS = ("text/html", "application/json")
HEADERS = {
    "Accept": "text/plain;version=0.0.4",
    "Accept-Encoding": "identity",
    "User-Agent": "prelaunch-monitoring-verify",
}


class EndpointError(Exception):
    """The endpoint did not answer with a complete page."""


def fetched(host: str, port: int, seconds: float, path: str = PATH, kind: str = "") -> str:
    """The page at http://HOST:PORT/metrics or another path, complete; of this Content-Type, or of none that is no metrics.

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


def samples(text: str) -> tuple[Sample, ...]:
    """The samples of a page in Prometheus' text format, in their order. Raises EndpointError for a text of another kind."""
    families = text_string_to_metric_families(text)
    try:
        found = tuple(islice((one for family in families for one in family.samples), MOST_SAMPLES + 1))
    except (ValueError, IndexError, KeyError, TypeError) as error:
        raise EndpointError(f"its page is no list of metrics: {one_line(str(error), 80)}") from error
    if len(found) > MOST_SAMPLES:
        raise EndpointError(f"it serves more than {MOST_SAMPLES} samples")
    return found


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
        if kind != wanted if wanted else kind in NO_METRICS:
            raise EndpointError(f"it answers with {kind or 'no type'}, which is no {wanted or 'metrics'}")
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
