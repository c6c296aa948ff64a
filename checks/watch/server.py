"""Serves what a watch knows: GET /metrics for Prometheus, GET /findings for whoever pages people (the open findings as JSON).

It listens on the loopback interface unless it is told otherwise. The pages are made after each round and only read here.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, HTTPServer
from socketserver import ThreadingMixIn
from threading import Lock, Thread
from typing import Any, cast

from checks.watch.exposition import CONTENT_TYPE

METRICS, FINDINGS = "/metrics", "/findings"
KINDS = {METRICS: CONTENT_TYPE, FINDINGS: "application/json"}
# A client that is silent for CLIENT_S is left. Of more than CLIENTS at once the oldest that has not asked anything yet is ended.
CLIENT_S, CLIENTS = 10.0, 16


class BoundedConnections(ThreadingMixIn):
    """A server whose connections have a thread each, at most CLIENTS of them. A new client is always taken, so that those which say
    nothing keep no scrape out.
    """

    daemon_threads = True

    def __init__(self, *arguments: Any, **named: Any) -> None:
        # Oldest first; whether its request has come.
        self._asked: dict[socket.socket, bool] = {}
        self._changing = Lock()
        super().__init__(*arguments, **named)

    def asked(self, connection: socket.socket) -> None:
        """The request of this connection has come."""
        with self._changing:
            if connection in self._asked:
                self._asked[connection] = True

    def process_request(self, request: Any, client_address: Any) -> None:
        """In a thread of its own."""
        with self._changing:
            if len(self._asked) >= CLIENTS:
                silent = (one for one, asked in self._asked.items() if not asked)
                oldest = next(silent, next(iter(self._asked)))
                del self._asked[oldest]
                with suppress(OSError):
                    oldest.shutdown(socket.SHUT_RDWR)
            self._asked[request] = False
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """The thread; its place is free again at its end."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            with self._changing:
                self._asked.pop(request, None)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no error of the server."""


class BoundedHandler(BaseHTTPRequestHandler):
    """A handler for such a server."""

    timeout = CLIENT_S

    def parse_request(self) -> bool:
        """Whether the request is one; its connection is not ended for the next client any more."""
        if not super().parse_request():
            return False
        cast(BoundedConnections, self.server).asked(self.connection)
        return True

    def log_message(self, format: str, *arguments: object) -> None:
        """Requests are not logged."""


class MetricsServer(BoundedConnections, HTTPServer):
    """Answers each path of `pages` with its bytes; who owns the mapping replaces them. Raises OSError if it cannot listen."""

    def __init__(self, address: tuple[str, int], pages: Mapping[str, bytes]) -> None:
        self.pages = pages
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        super().__init__(address, _Handler)
        Thread(target=self.serve_forever, daemon=True).start()


class _Handler(BoundedHandler):
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


def address_of(text: str) -> tuple[str, int]:
    """The host and port of "127.0.0.1:9402" or "[::1]:9402". Raises ValueError."""
    host, colon, port = text.rpartition(":")
    number = int(port) if port.isdigit() else 0
    if not colon or not host or not 0 < number < 65536:
        raise ValueError(f"{text!r:.60} is not HOST:PORT")
    return host.strip("[]"), number
