"""Serves pages over HTTP: of a watch, or of the exporter of a store. Every connection has a time limit, and their number is bounded.

There is no password: it listens where it is told to, which is the loopback interface by default.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from socketserver import TCPServer, ThreadingMixIn
from threading import Lock
from typing import Any
from urllib.parse import unquote

METRICS = "/metrics"
# A client that is silent for CLIENT_S is left. Of more than CLIENTS at once the oldest that has not asked anything yet is ended.
CLIENT_S, CLIENTS = 10.0, 16
# A page's Content-Type and its bytes.
Page = tuple[str, bytes]


class PageServer(ThreadingMixIn, TCPServer):
    """Answers each path, decoded, with what `pages` returns for it; None is no page. Raises OSError if it cannot listen.

    Connections have a thread each, at most CLIENTS of them. A new client is always taken, so that those which say nothing keep no
    scrape out.
    """

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, address: tuple[str, int], pages: Callable[[str], Page | None]) -> None:
        self.pages = pages
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        # Oldest first; whether its request has come.
        self._asked: dict[socket.socket, bool] = {}
        self._changing = Lock()
        super().__init__(address, _Handler)
        self.server_port = int(self.server_address[1])

    def note_request(self, connection: socket.socket) -> None:
        """The request of this connection has come."""
        with self._changing:
            if connection in self._asked:
                self._asked[connection] = True

    def process_request(self, request: Any, client_address: Any) -> None:
        """In a thread of its own."""
        with self._changing:
            if len(self._asked) >= CLIENTS:
                silent = (connection for connection, is_requested in self._asked.items() if not is_requested)
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


class _Handler(BaseHTTPRequestHandler):
    server: PageServer
    timeout = CLIENT_S

    def do_GET(self) -> None:
        self.server.note_request(self.connection)
        page = self.server.pages(unquote(self.path.partition("?")[0]))
        if page is None:
            self.send_error(HTTPStatus.NOT_FOUND, f"there is no such page; the metrics are at {METRICS}")
            return
        content_type, data = page
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(data)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
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
