"""Serves what a watch knows: GET /metrics for Prometheus, GET /findings for whoever pages people (the open findings as JSON).

It listens on the loopback interface unless it is told otherwise. The pages are made after each round and only read here.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import BoundedSemaphore, Thread
from typing import Any

from checks.watch.exposition import CONTENT_TYPE

METRICS, FINDINGS = "/metrics", "/findings"
KINDS = {METRICS: CONTENT_TYPE, FINDINGS: "application/json"}
# A client that connects and says nothing holds a thread for CLIENT_S; what comes beyond so many at once is closed.
CLIENT_S, CLIENTS = 10.0, 16


class MetricsServer(ThreadingHTTPServer):
    """Answers each path of `pages` with its bytes; who owns the mapping replaces them. Raises OSError if it cannot listen."""

    daemon_threads = True

    def __init__(self, address: tuple[str, int], pages: Mapping[str, bytes]) -> None:
        self.pages = pages
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        self._free = BoundedSemaphore(CLIENTS)
        super().__init__(address, _Handler)
        Thread(target=self.serve_forever, daemon=True).start()

    def process_request(self, request: Any, client_address: Any) -> None:
        """In a thread of its own, if one is free."""
        if self._free.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """The thread; it is free again at its end."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no error of the watch."""


class _Handler(BaseHTTPRequestHandler):
    timeout = CLIENT_S
    server: MetricsServer
    protocol_version = "HTTP/1.0"

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        data = self.server.pages.get(path)
        if data is None:
            self.send_error(HTTPStatus.NOT_FOUND, f"only {METRICS} and {FINDINGS} are here")
            return
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", KINDS[path])
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *arguments: object) -> None:
        """Requests are not logged."""


def address_of(text: str) -> tuple[str, int]:
    """The host and port of "127.0.0.1:9402" or "[::1]:9402". Raises ValueError."""
    host, colon, port = text.rpartition(":")
    number = int(port) if port.isdigit() else 0
    if not colon or not host or not 0 < number < 65536:
        raise ValueError(f"{text!r:.60} is not HOST:PORT")
    return host.strip("[]"), number
