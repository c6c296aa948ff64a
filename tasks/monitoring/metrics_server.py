"""Serves a collector at /metrics, and pages beside it. Every connection has a time limit, and their number is bounded.

ListenError     the address cannot be listened on
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import make_wsgi_app
from prometheus_client.registry import Collector

from checks.watch.server import BoundedConnections, BoundedHandler

PATH = "/metrics"
TEXT = [("Content-Type", "text/plain; charset=utf-8")]
HTML = [
    ("Content-Type", "text/html; charset=utf-8"),
    ("Cache-Control", "no-store"),
    ("X-Content-Type-Options", "nosniff"),
]


class ListenError(Exception):
    """Nothing listens there. The message says why."""


class _Handler(BoundedHandler, WSGIRequestHandler):
    """Reads one request, within the time of a connection."""


class _Server(BoundedConnections, WSGIServer):
    def server_bind(self) -> None:
        """Without looking up the host's own name, which may ask a name server."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])
        self.setup_environ()


class _Server6(_Server):
    address_family = socket.AF_INET6


# A path, decoded, to the page there; None if there is none.
Pages = Callable[[str], str | None]


def server_of(collector: Collector, host: str, port: int, pages: Pages = lambda path: None) -> WSGIServer:
    """A server that listens; `serve_forever` serves. Raises ListenError."""
    registry = CollectorRegistry()
    registry.register(collector)
    kind = _Server6 if ":" in host else _Server
    try:
        return make_server(host.strip("[]"), port, _app(make_wsgi_app(registry), pages), kind, _Handler)
    except OSError as error:
        raise ListenError(
            f"{host}:{port} cannot be listened on ({error.strerror}). Name another address with --listen."
        ) from error


def _app(metrics: Callable[..., Iterable[bytes]], pages: Pages) -> Callable[..., Iterable[bytes]]:
    def app(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        path = str(environ["PATH_INFO"])
        if path == PATH:
            return metrics(environ, start_response)
        if environ["REQUEST_METHOD"] not in ("GET", "HEAD"):
            start_response("405 Method Not Allowed", TEXT)
            return [b"Pages are only read.\n"]
        page = pages(path.encode("latin-1", "replace").decode("utf-8", "replace"))
        if page is None:
            start_response("404 Not Found", TEXT)
            return [f"The metrics are at {PATH}.\n".encode()]
        start_response("200 OK", HTML)
        return [page.encode("utf-8", "backslashreplace")]

    return app
