"""Serves what a watch knows: GET /metrics for Prometheus, GET /findings for whoever pages people (the open findings as JSON).

It listens on the loopback interface unless it is told otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

from checks.watch.exposition import CONTENT_TYPE

METRICS, FINDINGS = "/metrics", "/findings"
KINDS = {METRICS: CONTENT_TYPE, FINDINGS: "application/json"}
CLIENT_S = 10.0


class MetricsServer(ThreadingHTTPServer):
    """Answers each path of KINDS with what its function returns. Raises OSError if the address is taken."""

    daemon_threads = True
    # A scraper that connects and says nothing holds a thread for CLIENT_S; more than these wait.
    request_queue_size = 16

    def __init__(self, address: tuple[str, int], pages: Mapping[str, Callable[[], bytes]]) -> None:
        self.pages = pages
        super().__init__(address, _Handler)
        Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A scraper that went away is no error of the watch."""


class _Handler(BaseHTTPRequestHandler):
    timeout = CLIENT_S
    server: MetricsServer
    protocol_version = "HTTP/1.0"

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if path not in self.server.pages:
            self.send_error(HTTPStatus.NOT_FOUND, f"only {METRICS} and {FINDINGS} are here")
            return
        data = self.server.pages[path]()
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", KINDS[path])
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *arguments: object) -> None:
        """Scrapes are not logged."""


def address_of(text: str) -> tuple[str, int]:
    """The host and port of "127.0.0.1:9402" or "[::1]:9402". Raises ValueError."""
    host, colon, port = text.rpartition(":")
    number = int(port) if port.isdigit() else 0
    if not colon or not host or not 0 < number < 65536:
        raise ValueError(f"{text!r:.60} is not HOST:PORT")
    return host.strip("[]"), number
